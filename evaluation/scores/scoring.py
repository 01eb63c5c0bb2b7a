"""The scores of CRAG-MM by the rules of a release or by ours, with bootstrap intervals.

By our rules every turn is exactly one of correct, miss and hallucination. A miss takes precedence: where the ground truth itself is
"I don't know" and the answer matches it, the turn is a miss (0 points), not a correct answer (1 point). Both releases count it as
both (2 points), and their hallucinations (total - correct - miss) can become negative.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from evaluation.records import ANSWER_KINDS, AnsweredTurn, JudgedTurn, TurnFacts
from evaluation.rules import OURS, MissRule, Rules
from evaluation.scores.metrics import list_run_metrics

Slice = Callable[[JudgedTurn], str | None]
"""Returns the group of a turn; None if unknown."""

FAILURES_TO_STOP = 2
"""After this many turns in a row that are not correct, the rest of a dialog counts as missing (challenge rules)."""

Interval = tuple[float, float]
Floats = npt.NDArray[np.float64]
RESAMPLES = 2000
INTERVAL = (2.5, 97.5)
POINTS: Interval = (-1.0, 1.0)
"""Lowest and highest truthfulness."""
_SHARE: Interval = (0.0, 1.0)
_NOT_PLAIN = re.compile(r"[^a-z0-9\s]")


def is_miss(answer: str, rule: MissRule = "either") -> bool:
    """Return whether an answer says that it does not know.

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
    """Return whether answer and ground truth are equal after strip and lower."""
    return answer.strip().lower() == ground_truth.strip().lower()


@dataclass(frozen=True)
class Scores:
    """The organiser's score dictionary.

    Rates are over ``total``. Without turns they are ``Rules.rate_of_none``.
    """

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
        """Return the scores by name."""
        return asdict(self)


def score(turns: Sequence[JudgedTurn], rules: Rules = OURS) -> Scores:
    """Score all turns of some sessions."""
    scores = _tally(select_counted(turns, rules), rules)
    return replace(scores, truthfulness_score=0.0) if rules.one_turn_scores_0 and scores.total == 1 else scores


def select_counted(turns: Sequence[JudgedTurn], rules: Rules) -> list[JudgedTurn]:
    """Return the turns that the totals are taken of.

    By some rules these are the turns after the early stop of their dialogs; stopping twice changes nothing.
    """
    if not rules.totals_after_stop:
        return list(turns)
    return [turn for dialog in group_by_session(turns).values() for turn in stop_early(dialog)]


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
        truthfulness_score=(2 * correct + miss) / total - 1 if total else 0.0,
        mean_multi_turn_conversation_score=mean_conversation_score(turns, rules),
    )


def select_ego(turns: Iterable[JudgedTurn]) -> list[JudgedTurn]:
    """Return the turns on egocentric images."""
    return [turn for turn in turns if turn.turn.is_ego]


def count_unjudged(turns: Iterable[JudgedTurn]) -> int:
    """Count the turns whose judge gave no usable reply. No rate leaves them out: they count as wrong."""
    return sum(turn.judge_failed for turn in turns)


def count_errors(turns: Iterable[JudgedTurn]) -> int:
    """Count the errors. Every rate includes them: rules count an error by its text, "I don't know"."""
    return sum(turn.turn.error_cause is not None for turn in turns)


def group_by_session(turns: Iterable[JudgedTurn]) -> dict[str, list[JudgedTurn]]:
    """Group turns by session, in the order of the dialog."""
    sessions = group_turns(turns, lambda judged: judged.turn.session_id)
    for dialog in sessions.values():
        dialog.sort(key=lambda turn: turn.turn.turn_idx)
    return sessions


def group_turns(turns: Iterable[JudgedTurn], key: Slice) -> dict[str, list[JudgedTurn]]:
    """Group turns by a key, in the order of their first turns; turns without a key are left out."""
    groups: dict[str, list[JudgedTurn]] = {}
    for turn in turns:
        if (name := key(turn)) is not None:
            groups.setdefault(name, []).append(turn)
    return groups


def stop_early(dialog: Sequence[JudgedTurn]) -> list[JudgedTurn]:
    """Turn every turn after two in a row that are not correct into a miss."""
    stopped: list[JudgedTurn] = []
    failures = 0
    for turn in dialog:
        if failures >= FAILURES_TO_STOP:
            stopped.append(replace(turn, exact=False, correct=False, miss=True, judge_failed=False))
            continue
        stopped.append(turn)
        failures = 0 if turn.correct else failures + 1
    return stopped


def conversation_score(dialog: Sequence[JudgedTurn]) -> float:
    """Return mean(correct) - mean(hallucination) of one dialog after the early stop."""
    stopped = stop_early(dialog)
    return fmean(turn.correct for turn in stopped) - fmean(turn.hallucination for turn in stopped)


def mean_conversation_score(turns: Iterable[JudgedTurn], rules: Rules = OURS) -> float:
    """Average the conversation scores over sessions; ``Rules.rate_of_none`` for no session.

    Summed as the organiser does, to the last digit: by numpy, over the sessions in the order of their names.
    """
    dialogs = sorted(group_by_session(turns).items())
    return float(np.mean([conversation_score(dialog) for _, dialog in dialogs])) if dialogs else rules.rate_of_none


def truthfulness_points(turn: JudgedTurn) -> float:
    """Return a turn's points, whose mean is the truthfulness.

    Returns:
        1 for correct, 0 for a miss, -1 for a hallucination; 2 for correct and a miss at once.
    """
    return 2.0 * turn.correct + turn.miss - 1.0


def score_groups(
    turns: Sequence[JudgedTurn], key: Callable[[AnsweredTurn], str], rules: Rules = OURS
) -> dict[str, Scores]:
    """Score each group (domain, category, ...), in alphabetical order; no release has group scores."""
    groups = group_turns(select_counted(turns, rules), lambda judged: key(judged.turn) or "(none)")
    return {name: _tally(groups[name], rules) for name in sorted(groups)}


@dataclass(frozen=True)
class Split:
    """Groups of turns by a fact that the data set states.

    Attributes:
        key: Name in scores_dictionary.json.
        heading: Heading of the table of the groups.
        meaning: Explains the groups to those who read the table.
        kind: Returns the name of a turn's group, None if the fact is not stated.
        names: Names of the groups, in the order of the table.
    """

    key: str
    heading: str
    meaning: str
    kind: Callable[[TurnFacts], str | None]
    names: tuple[str, ...]

    def group(self, judged: JudgedTurn) -> str | None:
        """Return the name of a turn's group, or None if the data set does not state the fact."""
        return self.kind(judged.facts)

    def groups(self, turns: Iterable[JudgedTurn]) -> dict[str, list[JudgedTurn]]:
        """Return the turns of each group by name; empty if the fact is stated of no turn."""
        turns_by_group = group_turns(turns, self.group)
        return {name: turns_by_group[name] for name in self.names if name in turns_by_group}


def _choose_name(fact: bool | None, names: tuple[str, str]) -> str | None:
    return None if fact is None else names[0] if fact else names[1]


_PHOTOS = ("same photo", "another photo")
_QUESTIONS = ("answerable", "unanswerable")


SPLITS = (
    Split(
        "by_photo",
        "Photo",
        "of the knowledge graph, altered, or another one of the same thing",
        lambda facts: _choose_name(facts.same_photo, _PHOTOS),
        _PHOTOS,
    ),
    Split(
        "by_answerable",
        "Question",
        "whether graph and pages have its answer",
        lambda facts: _choose_name(facts.answerable, _QUESTIONS),
        _QUESTIONS,
    ),
    Split(
        "by_attribute",
        "Answer",
        "the name of the thing in the photo, an attribute of the graph, or what takes a page or several facts",
        lambda facts: facts.answer_kind,
        ANSWER_KINDS,
    ),
)


def session_interval(sums: Floats, rate: Callable[..., Floats], limits: Interval | None = None) -> Interval:
    """Compute a 95% percentile bootstrap interval over whole sessions.

    Whole sessions are resampled because the turns of one dialog are not independent.

    Args:
        sums: Sums of each session, shape (sessions, columns).
        rate: The rate of summed columns, each of shape (RESAMPLES,).
        limits: Lowest and highest possible rate, so that equal sessions have an interval too; None: for equal sessions it has no width.
    """
    interval = _take_interval(rate(*resample_sums(sums)))
    return interval if limits is None else widen_equal(interval, len(sums), limits)


def widen_equal(interval: Interval, sessions: int, limits: Interval) -> Interval:
    """Replace a bootstrap interval without width, which equal sessions have, by what Wilson's interval leaves open.

    Eight wrong answers of eight do not show that all answers are wrong. By Wilson's interval of 0 of 8 up to 32% of the sessions may
    differ, and their rate may be any of ``limits``. For an accuracy of 0 or 1 this is Wilson's interval itself.
    """
    low, high = interval
    if not np.isclose(low, high):
        return interval
    differing = float(binomtest(0, sessions).proportion_ci(method="wilson").high)
    return low - differing * (low - limits[0]), high + differing * (limits[1] - high)


def resample_sums(sums: Floats) -> Floats:
    """Draw ``RESAMPLES`` times as many sessions as there are, with replacement, and add up each draw.

    Args:
        sums: Sums of each session, shape (sessions, columns).

    Returns:
        Shape (columns, RESAMPLES).
    """
    picks = np.random.default_rng(0).integers(0, len(sums), size=(RESAMPLES, len(sums)))
    # A column at a time: all at once would take RESAMPLES times the memory of the sums for each of them.
    return np.array([column[picks].sum(axis=1) for column in sums.T])


def _take_interval(rates: Floats) -> Interval:
    low, high = np.percentile(rates, INTERVAL)
    return float(low), float(high)


def bootstrap_intervals(turns: Sequence[JudgedTurn], rules: Rules = OURS) -> dict[str, Interval]:
    """Compute the intervals of all scores by name: bootstrap intervals, or Wilson's where all sessions are equal.

    Returns:
        Nothing for fewer than two sessions.
    """
    dialogs = list(group_by_session(select_counted(turns, rules)).values())
    if len(dialogs) < 2:
        return {}
    sums = np.array(
        [
            (len(dialog), sum(t.correct for t in dialog), sum(t.miss for t in dialog), conversation_score(dialog))
            for dialog in dialogs
        ],
        dtype=np.float64,
    )
    rates: dict[str, tuple[Callable[..., Floats], Interval]] = {
        "accuracy": (lambda total, correct, _miss, _score: correct / total, _SHARE),
        "missing": (lambda total, _correct, miss, _score: miss / total, _SHARE),
        "hallucination_rate": (lambda total, correct, miss, _score: (total - correct - miss) / total, _SHARE),
        "truthfulness_score": (lambda total, correct, miss, _score: (2 * correct + miss) / total - 1, POINTS),
        "mean_multi_turn_conversation_score": (lambda _total, _correct, _miss, score: score / len(dialogs), POINTS),
    }
    samples = resample_sums(sums)
    return {
        name: widen_equal(_take_interval(rate(*samples)), len(dialogs), limits)
        for name, (rate, limits) in rates.items()
    }


def truthfulness_change(before: Sequence[JudgedTurn], after: Sequence[JudgedTurn]) -> tuple[float, Interval | None]:
    """Compute the change of truthfulness between two runs over the same sessions, and its interval.

    The runs are compared session by session, and whole sessions are resampled. Hard sessions cancel out, so
    that the interval is narrower than those of the two runs suggest. Sessions that only one run has are left out.

    Returns:
        The change and its 95% interval, which is None for fewer than two sessions.
    """
    old, new = group_by_session(before), group_by_session(after)
    shared = [session for session in old if session in new]
    if not shared:
        return 0.0, None
    sums = np.hstack([sum_points([run[session] for session in shared]) for run in (old, new)])

    def change(points: Any, turns: Any, new_points: Any, new_turns: Any) -> Any:
        return new_points / new_turns - points / turns

    difference = float(change(*sums.sum(axis=0)))
    return difference, session_interval(sums, change) if len(shared) > 1 else None


def sum_points(dialogs: Iterable[Sequence[JudgedTurn]]) -> Floats:
    """Sum the points and count the turns of each dialog, shape (dialogs, 2)."""
    return np.array([(sum(map(truthfulness_points, dialog)), len(dialog)) for dialog in dialogs], dtype=np.float64)


def risk_coverage(probability: Floats, right: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Compute the risk-coverage curve of candidates, as the threshold on their probability falls.

    Returns:
        Share of candidates that are given, and share of wrong ones among them. Equal probabilities make one point.
    """
    order = np.argsort(-probability, kind="stable")
    wrong = np.cumsum(~right[order])
    counts = np.arange(1, len(order) + 1)
    ends = np.append(np.diff(probability[order]) != 0, True)
    return counts[ends] / len(order), wrong[ends] / counts[ends]


def scores_dictionary(
    turns: Sequence[JudgedTurn], about: Mapping[str, Any] | None = None, rules: Rules = OURS
) -> dict[str, Any]:
    """Return the content of scores_dictionary.json.

    It has the organiser's ``all`` and ``ego``, and beside them the registered metrics, errors, intervals, groups, and what the
    scores were made with.

    Args:
        turns: Judged turns.
        about: Origin of the scores: judge, tokenizer, preset, ...
        rules: Rules of the scores.
    """
    ego, totals = select_ego(turns), select_counted(turns, rules)
    intervals: dict[str, Any] = {"all": bootstrap_intervals(turns, rules), "ego": bootstrap_intervals(ego, rules)}
    groups: dict[str, Any] = {}
    for name in ("query_category", "domain", "dynamism"):
        scored = score_groups(turns, attrgetter(name), rules)
        groups[f"by_{name.removeprefix('query_')}"] = {group: scores.to_dict() for group, scores in scored.items()}
    for split in SPLITS:
        if parts := split.groups(totals):
            intervals[split.key] = {name: bootstrap_intervals(part) for name, part in parts.items()}
            groups[split.key] = {name: _tally(part, rules).to_dict() for name, part in parts.items()}
    return {
        "all": score(turns, rules).to_dict(),
        "ego": score(ego, rules).to_dict(),
        **{each.name: {"all": each.average(turns), "ego": each.average(ego)} for each in list_run_metrics()},
        "errors": {
            "all": count_errors(turns),
            "ego": count_errors(ego),
            "causes": dict(Counter(cause for turn in turns if (cause := turn.turn.error_cause) is not None)),
        },
        "unjudged": {"all": count_unjudged(turns), "ego": count_unjudged(ego)},
        "intervals_95": intervals,
        **groups,
        "about": dict(about or {}),
    }
