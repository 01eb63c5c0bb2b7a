"""A confusion matrix as a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import confusion_matrix


def plot_confusion(predicted: Sequence[str], labels: Sequence[str], title: str, path: Path) -> None:
    """Write the matrix: rows are the true classes, cells count examples, colours are shares of the row."""
    names = sorted(set(labels) | set(predicted))
    counts = confusion_matrix(labels, predicted, labels=names)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = 2.5 + 0.42 * len(names)
    figure, axes = plt.subplots(figsize=(side + 0.8, side), layout="constrained")
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    for row, column in np.argwhere(counts):
        colour = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", color=colour, fontsize=8)
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_xlabel("predicted")
    axes.set_ylabel("label of the data set")
    axes.set_title(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
