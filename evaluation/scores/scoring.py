"""The scores of CRAG-MM by the rules of a release or by ours, with bootstrap intervals.

By our rules every turn is exactly one of correct, miss and hallucination. A miss takes precedence: where the ground truth itself is
"I don't know" and the answer matches it, the turn is a miss (0 points), not a correct answer (1 point). Both releases count it as
both (2 points), and their hallucinations (total - correct - miss) can become negative.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from evaluation.records import AnsweredTurn, JudgedTurn, TurnFacts
from evaluation.rules import OURS, MissRule, Rules

FAILURES_TO_STOP = 2
"""After this many turns in a row that are not correct, the rest of a dialog counts as missing (challenge rules)."""

Interval = tuple[float, float]
RESAMPLES = 2000
INTERVAL = (2.5, 97.5)
_NOT_PLAIN = re.compile(r"[^a-z0-9\s]")


def is_miss(answer: str, rule: MissRule = "either") -> bool:
    """Whether an answer says that it does not know.

    ``starter-kit``: "i don't know" in the lower-cased answer. ``research-release``: "i dont know" or "i do not know"
    after removing all but letters, digits and white space. ``either``: one of the two (the default).
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
    """The organiser's score dictionary; rates are over ``total``, and ``Rules.rate_of_none`` where there is no turn."""

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


def score(turns: Sequence[JudgedTurn], rules: Rules = OURS) -> Scores:
    """Scores over all turns of some sessions."""
    return _tally(counted(turns, rules), rules)


def counted(turns: Sequence[JudgedTurn], rules: Rules) -> list[JudgedTurn]:
    """The turns that the totals are taken of: as they were judged, or after the early stop of their dialogs (counted once or twice)."""
    if not rules.totals_after_stop:
        return list(turns)
    return [turn for dialog in by_session(turns).values() for turn in stop_early(dialog)]


def _tally(turns: Sequence[JudgedTurn], rules: Rules) -> Scores:
    total = len(turns)
    exact = sum(turn.exact for turn in turns)
    correct = sum(turn.correct for turn in turns)
    miss = sum(turn.miss for turn in turns)
    hallucination = total - correct - miss

    def rate(count: int) -> float:
        return count / total if total else rules.rate_of_none

    return Scores(
        total=total,
        correct_exact=exact,
        correct=correct,
        miss=miss,
        hallucination=hallucination,
        exact_match=rate(exact),
        accuracy=rate(correct),
        missing=rate(miss),
        hallucination_rate=rate(hallucination),
        truthfulness_score=(2 * correct + miss) / total - 1 if total > 1 else 0.0,
        mean_multi_turn_conversation_score=mean_conversation_score(turns, rules),
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
            stopped.append(replace(turn, exact=False, correct=False, miss=True))
            continue
        stopped.append(turn)
        failures = 0 if turn.correct else failures + 1
    return stopped


def conversation_score(dialog: Sequence[JudgedTurn]) -> float:
    """mean(correct) - mean(hallucination) of one dialog after the early stop."""
    stopped = stop_early(dialog)
    return fmean(turn.correct for turn in stopped) - fmean(turn.hallucination for turn in stopped)


def mean_conversation_score(turns: Iterable[JudgedTurn], rules: Rules = OURS) -> float:
    """Mean of the conversation scores over sessions; ``Rules.rate_of_none`` where there is none.

    Summed as the organiser does, to the last digit: by numpy, over the sessions in the order of their names.
    """
    dialogs = sorted(by_session(turns).items())
    return float(np.mean([conversation_score(dialog) for _, dialog in dialogs])) if dialogs else rules.rate_of_none


def domain_weighted(points: Mapping[str, Sequence[float]]) -> float:
    """The leaderboard's average of points by domain: the mean of each domain, weighted by its number of turns; 0 for none."""
    judged = [values for values in points.values() if values]
    total = sum(map(len, judged))
    return sum(fmean(values) * len(values) for values in judged) / total if total else 0.0


def truthfulness_points(turn: JudgedTurn) -> float:
    """Correct 1, miss 0, hallucination -1, correct and miss at once 2: their mean is the truthfulness."""
    return 2.0 * turn.correct + turn.miss - 1.0


def group_scores(
    turns: Sequence[JudgedTurn], key: Callable[[AnsweredTurn], str], rules: Rules = OURS
) -> dict[str, Scores]:
    """Scores of each group (domain, category, ...), by name in alphabetical order; no release has any."""
    groups: dict[str, list[JudgedTurn]] = {}
    for turn in counted(turns, rules):
        groups.setdefault(key(turn.turn) or "(none)", []).append(turn)
    return {name: _tally(groups[name], rules) for name in sorted(groups)}


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


def session_interval(
    sums: npt.NDArray[np.float64],
    rate: Callable[..., npt.NDArray[np.float64]],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """95% percentile bootstrap interval, resampling whole sessions (turns of one dialog are not independent).

    Args:
        sums: What each session adds up to, shape (sessions, columns).
        rate: The rate of summed columns, each of shape (resamples,).
    """
    picks = np.random.default_rng(seed).integers(0, len(sums), size=(resamples, len(sums)))
    low, high = np.percentile(rate(*sums[picks].sum(axis=1).T), INTERVAL)
    return float(low), float(high)


def bootstrap_intervals(
    turns: Sequence[JudgedTurn], resamples: int = RESAMPLES, seed: int = 0, rules: Rules = OURS
) -> dict[str, Interval]:
    """Intervals of the rates by the name of the score; empty where there are fewer than two sessions."""
    dialogs = list(by_session(counted(turns, rules)).values())
    if len(dialogs) < 2:
        return {}
    sums = np.array(
        [
            (len(dialog), sum(t.correct for t in dialog), sum(t.miss for t in dialog), conversation_score(dialog))
            for dialog in dialogs
        ],
        dtype=np.float64,
    )
    rates: dict[str, Callable[..., npt.NDArray[np.float64]]] = {
        "accuracy": lambda total, correct, _miss, _score: correct / total,
        "missing": lambda total, _correct, miss, _score: miss / total,
        "hallucination_rate": lambda total, correct, miss, _score: (total - correct - miss) / total,
        "truthfulness_score": lambda total, correct, miss, _score: (2 * correct + miss) / total - 1,
        "mean_multi_turn_conversation_score": lambda _total, _correct, _miss, score: score / len(dialogs),
    }
    return {name: session_interval(sums, rate, resamples, seed) for name, rate in rates.items()}


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
            [
                number
                for run in (old, new)
                for number in (sum(map(truthfulness_points, run[session])), len(run[session]))
            ]
            for session in shared
        ],
        dtype=np.float64,
    )

    def change(points: Any, turns: Any, new_points: Any, new_turns: Any) -> Any:
        return new_points / new_turns - points / turns

    found = float(change(*sums.sum(axis=0)))
    return found, session_interval(sums, change, resamples, seed) if len(shared) > 1 else None


def scores_dictionary(
    turns: Sequence[JudgedTurn], about: Mapping[str, Any] | None = None, rules: Rules = OURS
) -> dict[str, Any]:
    """Content of scores_dictionary.json: the organiser's ``all`` and ``ego``, and beside them intervals and groups.

    Args:
        about: What the scores were made with (judge, tokenizer, preset, ...), written under ``about``.
    """
    ego = ego_subset(turns)
    totals = counted(turns, rules)
    points: dict[str, list[float]] = {}
    for turn in totals:
        points.setdefault(turn.turn.domain, []).append(truthfulness_points(turn))
    splits = {split.key: groups for split in SPLITS if (groups := split.groups(totals))}

    def by(key: Callable[[AnsweredTurn], str]) -> dict[str, Any]:
        return {name: scores.to_dict() for name, scores in group_scores(turns, key, rules).items()}

    return {
        "all": score(turns, rules).to_dict(),
        "ego": score(ego, rules).to_dict(),
        "intervals_95": {
            "all": bootstrap_intervals(turns, rules=rules),
            "ego": bootstrap_intervals(ego, rules=rules),
            **{
                key: {name: bootstrap_intervals(group) for name, group in groups.items()}
                for key, groups in splits.items()
            },
        },
        "domain_weighted_truthfulness": domain_weighted(points),
        "by_category": by(lambda turn: turn.query_category),
        "by_domain": by(lambda turn: turn.domain),
        "by_dynamism": by(lambda turn: turn.dynamism),
        **{
            key: {name: _tally(group, rules).to_dict() for name, group in groups.items()}
            for key, groups in splits.items()
        },
        "about": dict(about or {}),
    }
