"""Paired significance tests of two runs over the same turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.records import JudgedTurn
from evaluation.scores.scoring import Interval, truthfulness_change, truthfulness_points

RESAMPLES = 9999
"""Random sign flips of a test. With 13 sessions or less all flips are fewer than these; then all are made, and p is exact."""
_BATCH_VALUES = 4_000_000
"""Signs drawn at once: those of all permutations take gigabytes with thousands of sessions."""


@dataclass(frozen=True)
class Paired:
    """Comparison of one run with another.

    Attributes:
        turns: Turns that both have; nothing else is compared.
        change: Change of the truthfulness, from the other run to this one, -2 to 2; None if no turn is in both.
        interval: 95% bootstrap interval of the change over sessions; None for fewer than two sessions.
        p: Two-sided p of the permutation test; None for fewer than two sessions.
        adjusted_p: ``p`` adjusted for the number of runs compared with the same base; None if not adjusted.
    """

    turns: int
    change: float | None
    interval: Interval | None
    p: float | None
    adjusted_p: float | None = None


def pair_turns(one: Sequence[JudgedTurn], other: Sequence[JudgedTurn]) -> list[tuple[JudgedTurn, JudgedTurn]]:
    """Return the turns that both runs answered, in the order of the first."""
    by_key = {judged.turn.key: judged for judged in other}
    return [(judged, by_key[judged.turn.key]) for judged in one if judged.turn.key in by_key]


def compare_runs(base: Sequence[JudgedTurn], run: Sequence[JudgedTurn]) -> Paired:
    """Compare a run with a base on the turns that both answered."""
    pairs = pair_turns(base, run)
    change, interval = truthfulness_change([before for before, _ in pairs], [after for _, after in pairs])
    return Paired(len(pairs), change if pairs else None, interval, permutation_p(pairs))


def compare_all(base: Sequence[JudgedTurn], runs: Sequence[Sequence[JudgedTurn]]) -> list[Paired]:
    """Compare each run with a base (``compare_runs``), with p adjusted for the number of runs."""
    compared = [compare_runs(base, run) for run in runs]
    corrected = adjust_p_values([each.p for each in compared])
    return [replace(each, adjusted_p=p) for each, p in zip(compared, corrected, strict=True)]


def permutation_p(pairs: Sequence[tuple[JudgedTurn, JudgedTurn]]) -> float | None:
    """Compute the two-sided p of a paired permutation test of the truthfulness.

    If the runs were alike, the two could be swapped in any session without changing the expectation: the
    differences of the sessions' points have random signs. Whole sessions are swapped, because the turns of a dialog are
    dependent. Points (1, 0, -1) are compared, because turning a hallucination into "I don't know" is progress.
    McNemar's test and the sign test would count the turns as independent, and the first knows only right and wrong.

    Returns:
        None for fewer than two sessions.
    """
    from scipy.stats import permutation_test

    by_session: dict[str, float] = {}
    for before, after in pairs:
        session = before.turn.session_id
        by_session[session] = by_session.get(session, 0.0) + truthfulness_points(after) - truthfulness_points(before)
    differences = np.array(list(by_session.values()))
    if len(differences) < 2:
        return None
    result = permutation_test(
        (differences,),
        lambda values, axis: values.sum(axis=axis),
        permutation_type="samples",
        n_resamples=RESAMPLES,
        batch=max(1, _BATCH_VALUES // len(differences)),
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)


def adjust_p_values(values: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of several comparisons with one base by Benjamini and Hochberg (1995).

    Of the differences then reported below 0.05 at most 5% are expected to be chance.
    """
    from scipy.stats import false_discovery_control

    p_values = [value for value in values if value is not None]
    corrected = iter(false_discovery_control(p_values) if p_values else [])
    return [None if value is None else float(next(corrected)) for value in values]
