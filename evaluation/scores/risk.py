"""Risk against coverage: how many of the answers are wrong as more of them are given."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Rates = npt.NDArray[np.float64]


def risk_coverage(probability: Rates, right: npt.NDArray[np.bool_]) -> tuple[Rates, Rates]:
    """Share of candidates that are given and share of wrong ones among those, as the threshold falls; equal probabilities go together."""
    order = np.argsort(-probability, kind="stable")
    wrong = np.cumsum(~right[order])
    given = np.arange(1, len(order) + 1)
    ends = np.append(np.diff(probability[order]) != 0, True)
    return given[ends] / len(order), wrong[ends] / given[ends]
