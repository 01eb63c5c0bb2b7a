"""Accuracy against abstention: what each signal offers, and where a policy stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluation.threshold_fit import Columns, FloatArray, Gain


@dataclass(frozen=True)
class Curve:
    """A threshold moved from letting all pass to letting none pass: share of turns without an answer, accuracy, truthfulness.

    Arrays of the same length; accuracy is over the answers given, NaN where none is.
    """

    abstained: FloatArray
    accuracy: FloatArray
    truthfulness: FloatArray


def curve_of(turns: Columns, scores: FloatArray) -> Curve:
    """The curve of a signal; a turn without a score is the first to go, one answered directly never goes."""
    ranked = np.where(np.isnan(scores), -np.inf, scores)
    order = np.argsort(-ranked[turns.free], kind="stable")
    points, values = turns.points[turns.free][order], ranked[turns.free][order]
    total = len(turns.points)
    # After the last of equal scores only: a threshold cannot tell them apart.
    ends = np.flatnonzero(np.append(np.diff(values) != 0, True)) if len(values) else np.array([], dtype=np.int64)
    given = np.concatenate([[0], ends + 1])
    summed = np.concatenate([[0.0], np.cumsum(points)])[given]
    right = np.concatenate([[0], np.cumsum(points > 0)])[given]
    with np.errstate(invalid="ignore"):
        accuracy = right / given
    return Curve(1 - given / total, accuracy, summed / total)


def plot_curves(
    path: Path, curves: Mapping[str, Curve], points: Mapping[str, tuple[float, float]], gain: Gain, base: float
) -> None:
    """Two panels over the share of turns without an answer: accuracy of the answers given, and truthfulness.

    Args:
        curves: By the name of the signal.
        points: Policies by name: share without an answer, truthfulness (0 to 1).
        gain: Expected gain over answering everything, drawn as the interval of the last policy.
        base: Truthfulness of answering everything.
    """
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5))
    for name, curve in curves.items():
        left.plot(100 * curve.abstained, 100 * curve.accuracy, label=name)
        right.plot(100 * curve.abstained, 100 * curve.truthfulness, label=name)
    for number, (name, (abstained, truthfulness)) in enumerate(points.items()):
        right.plot([100 * abstained], [100 * truthfulness], "os^D"[number % 4], color="black", markersize=7, label=name)
        if number == len(points) - 1:
            sides = [100 * (base + gain.low), 100 * (base + gain.high)]
            right.plot([100 * abstained] * 2, sides, color="black", linewidth=1)
    left.set_ylabel("accuracy of the answers given (%)")
    right.set_ylabel("truthfulness (%)")
    right.axhline(0, color="grey", linewidth=0.8)
    for panel in (left, right):
        panel.set_xlabel('turns answered "I don\'t know" (%)')
        panel.set_xlim(0, 100)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
