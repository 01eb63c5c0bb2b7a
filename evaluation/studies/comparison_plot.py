"""Truthfulness of several runs with its intervals, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evaluation.studies.runs import Result

_ROW_INCHES = 0.45


def plot_truthfulness(path: Path, results: Sequence[Result]) -> None:
    """A dot with its 95% interval for each variant, one panel a data set; written as PNG."""
    import matplotlib

    matplotlib.use("Agg")  # no display is needed
    from matplotlib import pyplot

    tasks = list(dict.fromkeys(result.task for result in results))
    labels = list(dict.fromkeys(result.variant.label for result in results))
    figure, panels = pyplot.subplots(
        1, len(tasks), sharey=True, squeeze=False, figsize=(1.5 + 4 * len(tasks), 1.2 + _ROW_INCHES * len(labels))
    )
    for panel, task in zip(panels[0], tasks, strict=True):
        for result in results:
            if result.task != task:
                continue
            row, value = labels.index(result.variant.label), 100 * result.figures.truthfulness
            interval = result.figures.intervals.get("truthfulness_score")
            if interval is not None:
                panel.plot([100 * side for side in interval], [row, row], color="tab:blue", linewidth=2, alpha=0.5)
            panel.plot([value], [row], "o", color="tab:blue")
            panel.annotate(
                f"{value:.1f}", (value, row), xytext=(0, 6), textcoords="offset points", ha="center", fontsize=8
            )
        panel.axvline(0, color="grey", linewidth=0.8)
        panel.set_title(task)
        panel.set_xlabel("truthfulness (%), 95% interval")
        panel.set_yticks(range(len(labels)), labels)
        panel.set_ylim(len(labels) - 0.4, -0.6)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
