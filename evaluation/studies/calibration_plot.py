"""What a gate is worth, drawn: reliability, risk against coverage, and the AUROC of every signal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from evaluation.studies.gate_fit import BoolArray, FloatArray

_BINS = 8
"""Of the reliability diagram; each holds as many candidates."""


def risk_coverage(probability: FloatArray, right: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Share of candidates that are given and share of wrong ones among those, as the threshold falls; equal probabilities go together."""
    order = np.argsort(-probability, kind="stable")
    wrong = np.cumsum(~right[order])
    given = np.arange(1, len(order) + 1)
    ends = np.append(np.diff(probability[order]) != 0, True)
    return given[ends] / len(order), wrong[ends] / given[ends]


def plot(path: Path, probability: FloatArray, right: BoolArray, areas: Mapping[str, float]) -> None:
    """Write the three panels as a picture.

    Args:
        probability: Of being right, of each candidate; held out where the gate was fitted on the same run.
        right: Whether it is.
        areas: AUROC by the name of the signal, NaN where it cannot be said.
    """
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot
    from sklearn.calibration import calibration_curve

    figure, (left, middle, last) = pyplot.subplots(1, 3, figsize=(14, 4.2))
    share, said = calibration_curve(right, probability, n_bins=_BINS, strategy="quantile")
    left.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    left.plot(said, share, "o-")
    left.set(xlabel="probability said by the gate", ylabel="share of right candidates", title="Reliability")
    coverage, risk = risk_coverage(probability, right)
    middle.plot(100 * coverage, 100 * risk)
    middle.axhline(50, color="grey", linewidth=0.8)  # above it an answer costs more than it brings
    middle.set(
        xlabel="candidates given (%)", ylabel="wrong ones among them (%)", title="Risk and coverage", xlim=(0, 100)
    )
    known = sorted((area, name) for name, area in areas.items() if np.isfinite(area))
    last.barh([name for _, name in known], [area for area, _ in known])
    last.axvline(0.5, color="grey", linewidth=0.8)
    last.set(xlabel="AUROC", xlim=(0, 1), title="Right against wrong")
    for panel in (left, middle):
        panel.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
