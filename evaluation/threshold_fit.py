"""Thresholds that maximise truthfulness (+1 right, 0 no answer, -1 wrong), and what they are worth on sessions not seen.

The policy is that of the agent's last stage (agents/stages/finalise.py): an answer is given where the best evidence and the
confidence reach their thresholds and, where the preset has a white-box verifier, where
``weight_least * min_t p_t + weight_mean * mean_t p_t >= threshold`` (QA-Dragon, section 3.7.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from evaluation.decisions import Decision
from evaluation.scores import INTERVAL, RESAMPLES

Signal = Literal["confidence", "evidence", "white_box"]
SIGNALS: tuple[Signal, ...] = ("confidence", "evidence", "white_box")

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

MOST_CUTS = 200
"""Thresholds tried for a signal: the gaps between this many quantiles of it; a finer grid would fit noise."""

WEIGHTS = tuple(round(weight, 2) for weight in sorted(np.linspace(0.0, 1.0, 21), key=lambda weight: abs(weight - 0.5)))
"""Weights of the least probability that are tried; that of the mean is 1 minus it. An even balance is preferred on a tie."""


@dataclass(frozen=True)
class Line:
    """The white-box line g_white; a turn passes where ``weight_least * least + weight_mean * mean >= threshold``."""

    weight_least: float
    weight_mean: float
    threshold: float


@dataclass(frozen=True)
class Policy:
    """When to answer; None: that signal is not looked at."""

    min_confidence: float | None = None
    min_evidence: float | None = None
    line: Line | None = None


@dataclass(frozen=True)
class Columns:
    """Decisions as columns of the same length; NaN where a signal has nothing to say."""

    session: npt.NDArray[np.int64]
    points: FloatArray
    free: BoolArray
    given: BoolArray
    confidence: FloatArray
    evidence: FloatArray
    least: FloatArray
    mean: FloatArray
    direct: BoolArray

    @classmethod
    def of(cls, decisions: Sequence[Decision]) -> Columns:
        """The columns of a list of decisions; sessions become numbers from 0."""
        numbers = {name: number for number, name in enumerate(dict.fromkeys(turn.session for turn in decisions))}
        return cls(
            np.array([numbers[turn.session] for turn in decisions], dtype=np.int64),
            np.array([turn.points for turn in decisions], dtype=np.float64),
            np.array([turn.free for turn in decisions], dtype=np.bool_),
            np.array([turn.given for turn in decisions], dtype=np.bool_),
            _column([turn.confidence for turn in decisions]),
            _column([turn.evidence for turn in decisions]),
            _column([turn.least for turn in decisions]),
            _column([turn.mean for turn in decisions]),
            np.array([turn.direct for turn in decisions], dtype=np.bool_),
        )

    def take(self, rows: BoolArray) -> Columns:
        """The rows of a mask."""
        return Columns(**{name: column[rows] for name, column in vars(self).items()})

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return len(np.unique(self.session))


def answers(turns: Columns, policy: Policy) -> BoolArray:
    """Which turns a policy answers."""
    given = turns.free.copy()
    if policy.line is not None:
        given &= turns.direct | _reaches(line_score(turns, policy.line), policy.line.threshold)
    if policy.min_evidence is not None:
        given &= turns.direct | _reaches(turns.evidence, policy.min_evidence)
    if policy.min_confidence is not None:
        given &= _reaches(turns.confidence, policy.min_confidence)
    return given


def earned(turns: Columns, policy: Policy) -> FloatArray:
    """Points of each turn under a policy; their mean is the truthfulness."""
    return np.where(answers(turns, policy), turns.points, 0.0)


def line_score(turns: Columns, line: Line) -> FloatArray:
    """g_white of each turn; NaN without log-probabilities."""
    return line.weight_least * turns.least + line.weight_mean * turns.mean


def fit(turns: Columns, signals: Sequence[Signal] = SIGNALS) -> Policy:
    """The policy with the highest truthfulness on these turns; of equals the one that answers most.

    The white-box line is fitted first, then the thresholds of confidence and evidence together on the turns it lets through.
    """
    line = _fit_line(turns) if "white_box" in signals else None
    passed = turns.take(answers(turns, Policy(line=line)))
    confidence, evidence = _fit_thresholds(passed, "confidence" in signals, "evidence" in signals)
    return Policy(confidence, evidence, line)


def held_out_points(
    turns: Columns, signals: Sequence[Signal] = SIGNALS, *, folds: int = 5, repeats: int = 10, seed: int = 0
) -> FloatArray:
    """Points of each turn under policies fitted on other sessions, averaged over ``repeats`` divisions into ``folds``.

    Raises:
        ValueError: There are fewer than two sessions, or fewer than two folds.
    """
    names = np.unique(turns.session)
    folds = min(folds, len(names))
    if folds < 2:
        raise ValueError("cross-validation needs at least two sessions and two folds")
    random = np.random.default_rng(seed)
    total = np.zeros(len(turns.points))
    for _ in range(repeats):
        fold_of = {name: position % folds for position, name in enumerate(random.permutation(names))}
        fold = np.array([fold_of[name] for name in turns.session])
        for number in range(folds):
            held_out = fold == number
            total[held_out] += earned(turns.take(held_out), fit(turns.take(~held_out), signals))
    return total / repeats


@dataclass(frozen=True)
class Gain:
    """A difference of truthfulness and its 95% bootstrap interval over sessions."""

    mean: float
    low: float
    high: float


def gain(turns: Columns, before: FloatArray, after: FloatArray, *, resamples: int = RESAMPLES, seed: int = 0) -> Gain:
    """How much more truthful ``after`` is than ``before`` (points of the same turns); whole sessions are resampled."""
    numbers = np.unique(turns.session)
    sums = np.array(
        [[(after - before)[turns.session == number].sum(), (turns.session == number).sum()] for number in numbers]
    )
    picks = np.random.default_rng(seed).integers(0, len(numbers), size=(resamples, len(numbers)))
    drawn = sums[picks].sum(axis=1)
    low, high = np.percentile(drawn[:, 0] / drawn[:, 1], INTERVAL)
    return Gain(float((after - before).mean()), float(low), float(high))


def _column(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _reaches(values: FloatArray, threshold: float) -> BoolArray:
    reached: BoolArray = values >= threshold  # NaN reaches nothing
    return reached


def _cuts(values: FloatArray) -> FloatArray:
    """Thresholds to try: minus infinity (all pass, NaN too), then the middle of each gap between values, and above the last."""
    known = np.unique(values[np.isfinite(values)])
    if len(known) > MOST_CUTS:
        known = np.unique(np.quantile(known, np.linspace(0.0, 1.0, MOST_CUTS), method="nearest"))
    if not len(known):
        return np.array([-np.inf])
    first, above = known[0] - _STEP, known[-1] + _STEP
    return np.concatenate([[-np.inf, first], (known[1:] + known[:-1]) / 2, [above]])


_STEP = 1e-4
"""How far outside the values seen the outermost thresholds lie."""


def _fit_thresholds(turns: Columns, use_confidence: bool, use_evidence: bool) -> tuple[float | None, float | None]:
    none = np.array([-np.inf])
    by_confidence = _cuts(turns.confidence) if use_confidence else none
    by_evidence = _cuts(turns.evidence[~turns.direct]) if use_evidence else none
    # Each turn passes the first so many cuts of each signal; summed from the far corner, cell (i, j) holds the points of
    # all turns that pass cut i and cut j.
    passes_confidence = np.where(
        np.isnan(turns.confidence), 0, np.searchsorted(by_confidence, np.nan_to_num(turns.confidence), side="right") - 1
    )
    passes_evidence = np.where(
        turns.direct, len(by_evidence) - 1, np.searchsorted(by_evidence, turns.evidence, side="right") - 1
    )
    table = np.zeros((len(by_confidence), len(by_evidence)))
    np.add.at(table, (passes_confidence, passes_evidence), turns.points)
    table = table[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    best = np.argwhere(table >= table.max() - 1e-9)
    i, j = min(best, key=lambda cell: (cell[0] + cell[1], cell[0]))  # the laxest of equals
    return _finite(by_confidence[i]), _finite(by_evidence[j])


def _fit_line(turns: Columns) -> Line | None:
    concerned = turns.take(turns.free & ~turns.direct)
    best_points, best_line = float(concerned.points.sum()), None
    for weight in WEIGHTS:
        line = Line(weight, round(1 - weight, 2), 0.0)
        scores = line_score(concerned, line)
        for cut in _cuts(scores)[1:]:
            points = float(concerned.points[_reaches(scores, cut)].sum())
            if points > best_points + 1e-9:
                best_points, best_line = points, Line(line.weight_least, line.weight_mean, float(cut))
    return best_line


def _finite(value: np.floating) -> float | None:
    return float(value) if np.isfinite(value) else None
