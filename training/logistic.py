"""Logistic regression by scikit-learn, cross-validated with the examples of a group in one fold."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, recall_score
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from agents.base.linear_head import Floats, LinearHead, convert_rows
from agents.base.printing import print_text
from training.chat_examples import TrainingDataError

_MAX_ITERATIONS = 5000
_SEED = 0
FOLDS = 5


def _make_regression(strength: float, standardise: bool) -> Pipeline:
    regression = LogisticRegression(C=strength, class_weight="balanced", max_iter=_MAX_ITERATIONS, random_state=_SEED)
    return make_pipeline(StandardScaler() if standardise else "passthrough", regression)


def fit(features: Floats, labels: Sequence[str], *, strength: float, standardise: bool = False) -> LinearHead:
    """Fit a head with balanced classes (a rare class weighs as much as a frequent one).

    Args:
        features: Shape (examples, features).
        labels: One class an example.
        strength: Inverse of the L2 regularisation (scikit-learn's C).
        standardise: Whether to subtract each feature's mean and divide by its standard deviation; the head keeps both.

    Raises:
        TrainingDataError: There are fewer than two classes.
    """
    if len(classes := sorted(set(labels))) < 2:
        raise TrainingDataError(f"two classes are needed; the examples have only: {', '.join(classes) or 'none'}")
    scaler, model = _make_regression(strength, standardise).fit(features, labels).named_steps.values()
    return LinearHead(
        classes=tuple(str(name) for name in model.classes_),
        coefficients=convert_rows(model.coef_),
        intercept=convert_rows(model.intercept_[None])[0],
        mean=convert_rows(scaler.mean_[None])[0] if standardise else None,
        scale=convert_rows(scaler.scale_[None])[0] if standardise else None,
    )


def cross_validate(
    features: Floats, labels: Sequence[str], groups: Sequence[str], *, strength: float, standardise: bool = False
) -> dict[str, float]:
    """Compute cross-validated metrics (``compute_rates``), beside the majority class of the other folds.

    A group is kept in one fold.

    Raises:
        TrainingDataError: There are fewer groups than ``FOLDS``, or a fold leaves fewer than two classes.
    """
    if len(set(groups)) < FOLDS:
        raise TrainingDataError(f"{FOLDS} folds need as many sessions; there are {len(set(groups))}")
    splitter = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=_SEED)

    def predicted(model: Any) -> list[str]:
        return [str(name) for name in cross_val_predict(model, features, labels, groups=groups, cv=splitter)]

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")  # rare domains cannot be in every fold
        try:
            predictions = predicted(_make_regression(strength, standardise))
        except ValueError as error:  # a fold with one class alone
            raise TrainingDataError(f"{FOLDS} folds cannot be made: {error}") from error
        majority = predicted(DummyClassifier(strategy="most_frequent"))
    return {**compute_rates("cross_validated", predictions, labels), "majority": compute_accuracy(majority, labels)}


def compute_accuracy(predicted: Sequence[str], labels: Sequence[str]) -> float:
    """Compute the share of right predictions, 0 to 1."""
    return round(float(accuracy_score(labels, predicted)), 4)


def compute_rates(name: str, predicted: Sequence[str], labels: Sequence[str]) -> dict[str, float]:
    """Compute the accuracy, as ``name``, and the mean recall of the classes, as ``NAME_macro_recall``."""
    recall = recall_score(labels, predicted, labels=sorted(set(labels)), average="macro", zero_division=0)
    return {name: compute_accuracy(predicted, labels), f"{name}_macro_recall": round(float(recall), 4)}


def describe_training_data(data: str, rows: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Describe the examples that a head was fitted to.

    Returns:
        Name of the data, number of examples, and the SHA-256 of their rows in any order.
    """
    text = "\n".join(sorted("\t".join(row) for row in rows))
    return {"data": data, "examples": len(rows), "training_hash": hashlib.sha256(text.encode("utf-8")).hexdigest()}


def save(head: LinearHead, out: Path, label: str) -> None:
    """Write a head, and print its metrics."""
    head.save(out)
    for name, value in head.accuracy.items():
        print_text(f"  {name:32s}{value:7.1%}")
    print_text(f"{label}: {out}")
