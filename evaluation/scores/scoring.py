"""The scores of CRAG-MM, as the organiser computes them, with bootstrap intervals.

Every turn is exactly one of correct, miss and hallucination. A miss takes precedence: where the ground truth itself is
"I don't know" and the answer matches it, the turn is a miss (0 points), not a correct answer (1 point); the organiser's
code would count it as both, and its hallucinations (total - correct - miss) could become negative.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evaluation.records import AnsweredTurn, JudgedTurn, TurnFacts

MissRule = Literal["either", "starter-kit", "research-release"]
FAILURES_TO_STOP = 2
"""After this many turns in a row that are not correct, the rest of a dialog counts as missing (challenge rules)."""

Interval = tuple[float, float]
RESAMPLES = 2000
INTERVAL = (2.5, 97.5)
_NOT_PLAIN = re.compile(r"[^a-z0-9 ]")


def is_miss(answer: str, rule: MissRule = "either") -> bool:
    """Whether an answer says that it does not know.

    ``starter-kit``: "i don't know" in the lower-cased answer. ``research-release``: "i dont know" or "i do not know"
    after removing all but letters, digits and blanks. ``either``: one of the two (the default).
    """
    lowered = answer.lower()
    kit = "i don't know" in lowered
    if rule == "starter-kit":
        return kit
    plain = _NOT_PLAIN.sub("", lowered)
    release = "i dont know" in plain or "i do not know" in plain
    return release if rule == "research-release" else kit or release


def is_exact(answer: str, ground_truth: str) -> bool:
    """Whether answer and ground truth are equal after strip and lower."""
    return answer.strip().lower() == ground_truth.strip().lower()


@dataclass(frozen=True)
class Scores:
    """The organiser's score dictionary; rates are over ``total``, 0 where there is no turn."""

    total: int
    correct_exact: int
    correct: int
    miss: int
    hallucination: int
    exact_match: float
    accuracy: float
    missing: float
    hallucination_rate: float
    truthfulness_score: float
    mean_multi_turn_conversation_score: float

    def to_dict(self) -> dict[str, float]:
        """The scores by name."""
        return asdict(self)


def score(turns: Sequence[JudgedTurn]) -> Scores:
    """Scores over all turns; the totals are taken before the early stop of dialogs."""
    total = len(turns)
    exact = sum(turn.exact for turn in turns)
    correct = sum(turn.correct for turn in turns)
    miss = sum(turn.miss for turn in turns)
    hallucination = total - correct - miss
    over = max(total, 1)
    return Scores(
        total=total,
        correct_exact=exact,
        correct=correct,
        miss=miss,
        hallucination=hallucination,
        exact_match=exact / over,
        accuracy=correct / over,
        missing=miss / over,
        hallucination_rate=hallucination / over,
        truthfulness_score=(2 * correct + miss) / total - 1 if total > 1 else 0.0,
        mean_multi_turn_conversation_score=mean_conversation_score(turns),
    )


def ego_subset(turns: Iterable[JudgedTurn]) -> list[JudgedTurn]:
    """The turns on egocentric images."""
    return [turn for turn in turns if turn.turn.is_ego]


def by_session(turns: Iterable[JudgedTurn]) -> dict[str, list[JudgedTurn]]:
    """Turns by session, in the order of the dialog."""
    sessions: dict[str, list[JudgedTurn]] = {}
    for turn in turns:
        sessions.setdefault(turn.turn.session_id, []).append(turn)
    for dialog in sessions.values():
        dialog.sort(key=lambda turn: turn.turn.turn_idx)
    return sessions


def stop_early(dialog: Sequence[JudgedTurn]) -> list[JudgedTurn]:
    """A dialog in which, after two turns in a row that are not correct, every later turn is a miss."""
    stopped: list[JudgedTurn] = []
    failures = 0
    for turn in dialog:
        if failures >= FAILURES_TO_STOP:
            stopped.append(replace(turn, correct=False, miss=True))
            continue
        stopped.append(turn)
        failures = 0 if turn.correct else failures + 1
    return stopped


def conversation_score(dialog: Sequence[JudgedTurn]) -> float:
    """mean(correct) - mean(hallucination) of one dialog after the early stop."""
    stopped = stop_early(dialog)
    return fmean(turn.correct for turn in stopped) - fmean(turn.hallucination for turn in stopped)


def mean_conversation_score(turns: Iterable[JudgedTurn]) -> float:
    """Mean of the conversation scores over sessions; 0 where there is none."""
    dialogs = by_session(turns).values()
    return fmean(conversation_score(dialog) for dialog in dialogs) if dialogs else 0.0


def domain_weighted(points: Mapping[str, Sequence[float]], sizes: Mapping[str, int] | None = None) -> float:
    """The leaderboard's average: the mean of each domain, weighted by the size of the domain.

    Args:
        points: Points of the judged turns by domain (a sample may have been judged of each).
        sizes: Number of turns of each domain in the whole set; the number of judged turns where None.

    Raises:
        ValueError: A judged domain has no size.
    """
    judged = {domain: values for domain, values in points.items() if values}
    weights = {domain: len(values) for domain, values in judged.items()} if sizes is None else sizes
    unknown = sorted(set(judged) - set(weights))
    if unknown:
        raise ValueError(f"no size for domain {', '.join(unknown)}")
    total = sum(weights[domain] for domain in judged)
    return sum(fmean(values) * weights[domain] for domain, values in judged.items()) / total if total else 0.0


def truthfulness_points(turn: JudgedTurn) -> float:
    """Correct 1, miss 0, hallucination -1: their mean is the truthfulness."""
    return float(turn.correct) - float(turn.hallucination)


def group_scores(turns: Sequence[JudgedTurn], key: Callable[[AnsweredTurn], str]) -> dict[str, Scores]:
    """Scores of each group (domain, category, ...), by name in alphabetical order."""
    groups: dict[str, list[JudgedTurn]] = {}
    for turn in turns:
        groups.setdefault(key(turn.turn) or "(none)", []).append(turn)
    return {name: score(groups[name]) for name in sorted(groups)}


@dataclass(frozen=True)
class Split:
    """Two groups of turns by a fact that the data set states.

    Attributes:
        key: The groups' name in scores_dictionary.json.
        fact: The fact.
        yes: The group's name where it holds.
        no: The group's name where it does not.
    """

    key: str
    fact: Callable[[TurnFacts], bool | None]
    yes: str
    no: str

    def groups(self, turns: Iterable[JudgedTurn]) -> dict[str, list[JudgedTurn]]:
        """The turns of both groups by name; without turns of which the data set says nothing, empty where it never does."""
        found: dict[str, list[JudgedTurn]] = {}
        for turn in turns:
            fact = self.fact(turn.facts)
            if fact is not None:
                found.setdefault(self.yes if fact else self.no, []).append(turn)
        return {name: found[name] for name in (self.yes, self.no) if name in found}


SPLITS = (
    Split("by_photo", lambda facts: facts.same_photo, "same photo", "another photo"),
    Split("by_answerable", lambda facts: facts.answerable, "answerable", "unanswerable"),
)


def bootstrap_intervals(turns: Sequence[JudgedTurn], resamples: int = RESAMPLES, seed: int = 0) -> dict[str, Interval]:
    """95% percentile intervals of the rates, resampling whole sessions (turns of one dialog are not independent).

    Returns:
        (low, high) by the name of the score; empty where there are fewer than two sessions.
    """
    dialogs = list(by_session(turns).values())
    if len(dialogs) < 2:
        return {}
    counts = np.array(
        [
            (len(dialog), sum(t.correct for t in dialog), sum(t.miss for t in dialog), conversation_score(dialog))
            for dialog in dialogs
        ],
        dtype=np.float64,
    )
    picks = np.random.default_rng(seed).integers(0, len(dialogs), size=(resamples, len(dialogs)))
    drawn = counts[picks]  # (resamples, sessions, 4)
    total, correct, miss = (drawn[:, :, column].sum(axis=1) for column in range(3))
    samples: dict[str, npt.NDArray[np.float64]] = {
        "accuracy": correct / total,
        "missing": miss / total,
        "hallucination_rate": (total - correct - miss) / total,
        "truthfulness_score": (2 * correct + miss) / total - 1,
        "mean_multi_turn_conversation_score": drawn[:, :, 3].mean(axis=1),
    }
    intervals = {}
    for name, values in samples.items():
        low, high = np.percentile(values, INTERVAL)
        intervals[name] = (float(low), float(high))
    return intervals


def truthfulness_change(
    before: Sequence[JudgedTurn], after: Sequence[JudgedTurn], resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, Interval | None]:
    """How much truthfulness changes between two runs over the same sessions, with its 95% interval.

    The runs are compared session by session, and whole sessions are resampled: what is hard for both cancels out, so
    that the interval is narrower than those of the two runs suggest. Sessions that only one run has are left out.

    Returns:
        The change, and its interval where there are at least two sessions.
    """
    old, new = by_session(before), by_session(after)
    shared = [session for session in old if session in new]
    if not shared:
        return 0.0, None
    # (sessions, 4): points and number of turns of each run
    sums = np.array(
        [
            (
                sum(map(truthfulness_points, old[session])),
                len(old[session]),
                sum(map(truthfulness_points, new[session])),
                len(new[session]),
            )
            for session in shared
        ],
        dtype=np.float64,
    )
    total = sums.sum(axis=0)
    change = float(total[2] / total[3] - total[0] / total[1])
    if len(shared) < 2:
        return change, None
    picks = np.random.default_rng(seed).integers(0, len(shared), size=(resamples, len(shared)))
    drawn = sums[picks].sum(axis=1)
    low, high = np.percentile(drawn[:, 2] / drawn[:, 3] - drawn[:, 0] / drawn[:, 1], INTERVAL)
    return change, (float(low), float(high))


def scores_dictionary(turns: Sequence[JudgedTurn], about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Content of scores_dictionary.json: the organiser's ``all`` and ``ego``, and beside them intervals and groups.

    Args:
        about: What the scores were made with (judge, tokenizer, preset, ...), written under ``about``.
    """
    ego = ego_subset(turns)
    points: dict[str, list[float]] = {}
    for turn in turns:
        points.setdefault(turn.turn.domain, []).append(truthfulness_points(turn))
    splits = {split.key: groups for split in SPLITS if (groups := split.groups(turns))}
    return {
        "all": score(turns).to_dict(),
        "ego": score(ego).to_dict(),
        "intervals_95": {
            "all": bootstrap_intervals(turns),
            "ego": bootstrap_intervals(ego),
            **{
                key: {name: bootstrap_intervals(group) for name, group in groups.items()}
                for key, groups in splits.items()
            },
        },
        "domain_weighted_truthfulness": domain_weighted(points),
        "by_category": {name: s.to_dict() for name, s in group_scores(turns, lambda t: t.query_category).items()},
        "by_domain": {name: s.to_dict() for name, s in group_scores(turns, lambda t: t.domain).items()},
        "by_dynamism": {name: s.to_dict() for name, s in group_scores(turns, lambda t: t.dynamism).items()},
        **{key: {name: score(group).to_dict() for name, group in groups.items()} for key, groups in splits.items()},
        "about": dict(about or {}),
    }
