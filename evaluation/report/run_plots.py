"""Data of the plots of a report: risk against coverage, time by stage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agents.record import TurnRecord
from evaluation.records import JudgedTurn, Key, RunLogLine
from evaluation.scores.scoring import risk_coverage

_SURE = {
    "probability": "gate",
    "p_yes": "P(yes) of the verdict",
    "mean_probability": "mean token probability",
    "p_idk": "1 - P(I don't know)",
}
"""Signals by which answers are ordered, the surest first; the last one is a doubt."""

_FEWEST = 5
"""Least number of answers for a curve."""


@dataclass(frozen=True)
class RiskCurve:
    """Risk against coverage of the answers ordered by a signal.

    ``points`` are answered turns, of all judged turns, and wrong ones among the answers, both in percent.
    """

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class StageTime:
    """Mean seconds a turn that a stage took, its share in percent of all stages, and its number of turns."""

    name: str
    seconds: float
    share: float
    turns: int


def compute_risk_curves(turns: Sequence[JudgedTurn], traces: Mapping[Key, TurnRecord]) -> list[RiskCurve]:
    """Compute a risk curve for each signal that the traces have of the given answers.

    Answers that the judge failed on are left out. Curves of signals that all answers have end in the same point.
    """
    turns = [turn for turn in turns if not turn.judge_failed]
    candidates = [
        (turn.correct, {**{name: each.value for name, each in trace.signals.items()}, "probability": final.probability})
        for turn in turns
        if not turn.miss and (trace := traces.get(turn.turn.key)) is not None and (final := trace.decision) is not None
    ]
    curves = []
    for name, label in _SURE.items():
        pairs = [
            (right, value)
            for right, signals in candidates
            if (value := signals.get(name)) is not None and math.isfinite(value)
        ]
        if len(pairs) < _FEWEST:
            continue
        sign = -1.0 if name == "p_idk" else 1.0
        sure = np.array([sign * value for _, value in pairs])
        coverage, risk = risk_coverage(sure, np.array([right for right, _ in pairs], dtype=np.bool_))
        percent = 100 * len(pairs) / len(turns)
        points = tuple((round(percent * x, 2), round(100 * y, 2)) for x, y in zip(coverage, risk, strict=True))
        curves.append(RiskCurve(label, points))
    return curves


def average_stage_times(traces: Mapping[Key, TurnRecord], costs: Mapping[Key, RunLogLine]) -> list[StageTime]:
    """Average the time of each stage over the turns with a trace, in the order of the stages.

    A stage's seconds are those of its batch, which its turns share.
    """
    seconds: dict[str, float] = {}
    turns: dict[str, int] = {}
    for key, trace in traces.items():
        size = costs[key].batch_size if key in costs else 1
        for stage in trace.stages:
            seconds[stage.stage] = seconds.get(stage.stage, 0.0) + stage.seconds / size
            turns[stage.stage] = turns.get(stage.stage, 0) + stage.complete
    total = sum(seconds.values())
    return [
        StageTime(name, spent / len(traces), 100 * spent / total if total else 0.0, turns[name])
        for name, spent in seconds.items()
    ]
