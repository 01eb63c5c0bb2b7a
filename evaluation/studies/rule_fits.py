"""Fits settings that no gate has: the rules of two papers, and whether a model's own knowledge is given (``calibrate --fit``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from sklearn.linear_model import LogisticRegression

from evaluation.records import EvaluationError
from evaluation.studies.decisions import BoolArray, FloatArray, Turns

MIN_OWN = 20
"""Answers from a model's own knowledge, below which nothing is fitted to them: with fewer, one more wrong answer turns the result."""


def fit_white_box_line(turns: Turns) -> dict[str, float | str]:
    """Fit the line of QA-Dragon's white-box verifier (section 3.7.2).

    A logistic regression over the lowest and the mean token probability gives their weights. The threshold is where a right answer is as
    likely as a wrong one.

    Raises:
        EvaluationError: The traces hold no token probabilities, or all of these candidates are right or all wrong.
    """
    minimum, mean = turns.signal("min_probability"), turns.signal("mean_probability")
    finite = turns.gate_decides & ~turns.direct & np.isfinite(minimum) & np.isfinite(mean)
    right = turns.points[finite] > 0
    if len(np.unique(right)) < 2:
        raise EvaluationError("the white-box line needs right and wrong candidates that have token probabilities")
    fitted = LogisticRegression().fit(np.column_stack([minimum[finite], mean[finite]]), right)
    return {
        "verify.white_box": "line",
        "verify.weight_min": round(float(fitted.coef_[0][0]), 4),
        "verify.weight_mean": round(float(fitted.coef_[0][1]), 4),
        "verify.white_box_threshold": round(-float(fitted.intercept_[0]), 4),
    }


def fit_own_knowledge(turns: Turns) -> dict[str, float | str]:
    """Fit whether a model's own knowledge may be given where no evidence answers, and from which probability of the check.

    The probability is the one from which such answers earn most points, the lowest of several. For a model without probabilities all
    answers that the check approved count.

    Returns:
        Settings of the stage ``cross_check``: ``never`` where own knowledge earns nothing.

    Raises:
        EvaluationError: Fewer than ``MIN_OWN`` answers come from the model's own knowledge.
    """
    own = turns.gate_decides & (turns.signal("cross_check.own") == 1)
    if own.sum() < MIN_OWN:
        raise EvaluationError(
            f"own knowledge needs {MIN_OWN} answers that come from it, and here are {own.sum()}: make the runs with "
            "--set cross_check.own_knowledge=checked --set cross_check.own_minimum=null, on more questions"
        )
    probability, points = turns.signal("p_yes")[own], turns.points[own]
    if not np.isfinite(probability).all():
        return {"cross_check.own_knowledge": "checked" if points.sum() > 0 else "never"}
    levels, earned = _earn_from_levels(probability, points)
    if earned.max() <= 0:
        return {"cross_check.own_knowledge": "never"}
    return {"cross_check.own_knowledge": "checked", "cross_check.own_minimum": round(float(levels[earned.argmax()]), 4)}


def fit_algorithm1_confidences(turns: Turns) -> dict[str, float | str]:
    """Fit tau_low and tau_high of Algorithm 1 of CRUISE (section 3.4).

    Each is the confidence from which consistent answers earn most points. Of several the highest is taken, and 1, certainty, if none earns
    any: candidates of confidence 1 pass even then. Without context at least the confidence with context is required, if any candidates have
    context.

    Raises:
        EvaluationError: No candidate was checked for consistency and by the chain of verification.
    """
    confidence, no_context = turns.signal("chain_confidence"), turns.signal("no_evidence")
    checked = turns.gate_decides & (turns.signal("agreement") == 1) & np.isfinite(confidence)
    if not checked.any():
        raise EvaluationError(
            "Algorithm 1 needs candidates with a consistency and a confidence of the chain of verification"
        )

    def minimum(part: BoolArray) -> float:
        levels, earned = _earn_from_levels(confidence[part], turns.points[part])
        return float(levels[earned == earned.max()][-1]) if earned.max(initial=0.0) > 0 else 1.0

    grounded = checked & (no_context == 0)
    low, high = minimum(grounded), minimum(checked & (no_context == 1))
    return {"finalise.algorithm1.low": low, "finalise.algorithm1.high": max(low, high) if grounded.any() else high}


def _earn_from_levels(values: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, and the points that are earned from each of them on."""
    levels = np.unique(values)
    return levels, np.array([points[values >= level].sum() for level in levels])


RULES: dict[str, Callable[[Turns], Mapping[str, float | str]]] = {
    "white_box": fit_white_box_line,
    "algorithm1": fit_algorithm1_confidences,
    "own_knowledge": fit_own_knowledge,
}
