"""Plots of studies: truthfulness and metrics of several runs; reliability, risk and coverage of a gate."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.base.files import write_whole
from evaluation.files.manifest import describe_picture
from evaluation.scores.metrics import Metric, list_run_metrics
from evaluation.scores.scoring import risk_coverage
from evaluation.studies.decisions import BoolArray, FloatArray
from evaluation.studies.figures import Figures, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ROW_INCHES = 0.45
_DOTS_AN_INCH = 120
_DATED = {"png": (), "svg": ("Date",), "pdf": ("CreationDate",)}
"""Formats of figures, with the metadata fields left out because they change from day to day."""

_STEADY: dict[Any, Any] = {"svg.hashsalt": "crag-mm-agent", "pdf.fonttype": 42}
"""Settings of matplotlib. Ids in SVG files are random without a salt; venues refuse the Type 3 fonts that PDF files have by default."""

_BINS = 8
"""Bins of the reliability diagram, each with as many candidates."""


def plot_results(place: Path, results: Sequence[Result]) -> list[Path]:
    """Plot each variant as a dot: truthfulness with its 95% interval, then the registered metrics, one panel a data set.

    Returns:
        The files (``save``).
    """
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(result.task for result in results))
    labels = list(dict.fromkeys(result.variant.label for result in results))
    failing = {result.variant.label: result.label for result in results if result.figures.failing}
    measures = [None, *list_run_metrics()]
    figure = Figure(figsize=(1.5 + 4 * len(tasks), (1.2 + _ROW_INCHES * len(labels)) * len(measures)))
    rows = figure.subplots(len(measures), len(tasks), sharey=True, squeeze=False)
    for panels, metric in zip(rows, measures, strict=True):
        for panel, task in zip(panels, tasks, strict=True):
            for result in results:
                if result.task == task:
                    _plot_dot(panel, labels.index(result.variant.label), result.figures, metric)
            panel.axvline(0, color="grey", linewidth=0.8)  # each axis has 0: a small difference looks small
            if metric is None:
                panel.set_title(task)
            panel.set_xlabel("truthfulness (%), 95% interval" if metric is None else metric.full_heading)
            panel.set_yticks(range(len(labels)), [failing.get(label, label) for label in labels])
            panel.set_ylim(len(labels) - 0.4, -0.6)
    figure.tight_layout()
    return save(figure, place)


def _plot_dot(panel: Any, row: int, figures: Figures, metric: Metric | None) -> None:
    """Plot the truthfulness of a run, or a metric of it."""
    factor = 100 if metric is None or metric.unit == "%" else 1
    value = factor * (figures.truthfulness if metric is None else figures.metrics[metric.name])
    interval = figures.intervals.get("truthfulness_score") if metric is None else None
    if interval is not None:
        panel.plot([factor * side for side in interval], [row, row], color="tab:blue", linewidth=2, alpha=0.5)
    panel.plot([value], [row], "o", color="tab:blue")
    above = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center", "fontsize": 8}
    panel.annotate(f"{value:.1f}", (value, row), **above)


def plot_gate(place: Path, probability: FloatArray, right: BoolArray, areas: Mapping[str, float]) -> list[Path]:
    """Plot reliability, risk against coverage, and the AUROC of the signals, in three panels.

    Args:
        place: Path of the files, without suffix.
        probability: Probability of each candidate of being right, held out if the gate was fitted on the same run.
        right: Whether each candidate is right.
        areas: AUROC by name of the signal.

    Returns:
        The files.
    """
    from matplotlib.figure import Figure
    from sklearn.calibration import calibration_curve

    figure = Figure(figsize=(14, 4.2))
    left, middle, last = figure.subplots(1, 3)
    share, predicted = calibration_curve(right, probability, n_bins=_BINS, strategy="quantile")
    left.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    left.plot(predicted, share, "o-")
    left.set(xlabel="probability said by the gate", ylabel="share of right candidates", title="Reliability")
    coverage, risk = risk_coverage(probability, right)
    middle.plot(100 * coverage, 100 * risk)
    middle.axhline(50, color="grey", linewidth=0.8)  # above it an answer costs more than it brings
    middle.set(
        xlabel="candidates given (%)", ylabel="wrong ones among them (%)", title="Risk and coverage", xlim=(0, 100)
    )
    bars = sorted((area, name) for name, area in areas.items())
    last.barh([name for _, name in bars], [area for area, _ in bars])
    last.axvline(0.5, color="grey", linewidth=0.8)
    last.set(xlabel="AUROC", xlim=(0, 1), title="Right against wrong")
    for panel in (left, middle):
        panel.grid(alpha=0.3)
    figure.tight_layout()
    return save(figure, place)


def save(figure: Figure, place: Path) -> list[Path]:
    """Write a figure as PLACE.png, .svg and .pdf, and return the files.

    A commit writes the same bytes each time. The PNG names the commit and the words in the figure.
    """
    from matplotlib import rc_context
    from matplotlib.text import Text

    words = [artist.get_text() for artist in figure.findobj(Text) if isinstance(artist, Text) and artist.get_text()]
    about = {"png": describe_picture(words)}
    paths = []
    for kind, dated in _DATED.items():
        buffer = io.BytesIO()
        with rc_context(_STEADY):
            figure.savefig(
                buffer, dpi=_DOTS_AN_INCH, format=kind, metadata={**dict.fromkeys(dated), **about.get(kind, {})}
            )
        paths.append(place.with_suffix(f".{kind}"))
        write_whole(paths[-1], buffer.getvalue())
    return paths
