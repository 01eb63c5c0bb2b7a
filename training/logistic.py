"""Logistic regression by scikit-learn, measured without letting a session stand on both sides."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from agents.linear_head import Floats, LinearHead, rows_of

_MOST_ITERATIONS = 5000


class TrainingError(ValueError):
    """There is nothing to learn from; the message says what is missing."""


@dataclass(frozen=True)
class HeldOut:
    """What cross-validation predicted for each example, by a model and by the majority class of the other folds."""

    predicted: tuple[str, ...]
    majority: tuple[str, ...]


def fit(
    features: Floats, labels: Sequence[str], *, strength: float, standardise: bool = False, seed: int = 0
) -> LinearHead:
    """Fit with balanced classes (a rare class weighs as much as a frequent one).

    Args:
        features: Shape (examples, features).
        labels: One class an example.
        strength: Inverse of the L2 regularisation (scikit-learn's C).
        standardise: Take off each feature its mean, and divide it by its standard deviation; the head keeps both.
        seed: Of the solver.

    Raises:
        TrainingError: There are fewer than two classes.
    """
    if len(set(labels)) < 2:
        raise TrainingError(
            f"two classes are needed; the examples have only: {', '.join(sorted(set(labels))) or 'none'}"
        )
    scaler = StandardScaler().fit(features) if standardise else None
    model = LogisticRegression(C=strength, class_weight="balanced", max_iter=_MOST_ITERATIONS, random_state=seed)
    model.fit(scaler.transform(features) if scaler is not None else features, labels)
    return LinearHead(
        classes=tuple(str(name) for name in model.classes_),
        coefficients=rows_of(model.coef_),
        intercept=rows_of(model.intercept_[None])[0],
        mean=rows_of(scaler.mean_[None])[0] if scaler is not None else None,
        scale=rows_of(scaler.scale_[None])[0] if scaler is not None else None,
    )


def cross_validate(
    features: Floats,
    labels: Sequence[str],
    groups: Sequence[str],
    *,
    strength: float,
    standardise: bool = False,
    folds: int = 5,
    seed: int = 0,
    progress: bool = False,
) -> HeldOut:
    """Predict each example by a model that saw no example of its group.

    Raises:
        TrainingError: There are fewer groups than folds, or a fold leaves fewer than two classes.
    """
    if len(set(groups)) < folds:
        raise TrainingError(f"{folds} folds need as many sessions; there are {len(set(groups))}")
    splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    predicted, majority = [""] * len(labels), [""] * len(labels)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")  # rare domains cannot be in every fold
        splits = list(splitter.split(features, labels, groups))
    for kept, held_out in tqdm(splits, desc="cross-validation", unit="fold", disable=not progress):
        known = [labels[row] for row in kept]
        model = fit(features[kept], known, strength=strength, standardise=standardise, seed=seed)
        most_frequent = Counter(known).most_common(1)[0][0]
        for row, answer in zip(held_out, model.predict(features[held_out]), strict=True):
            predicted[row], majority[row] = answer, most_frequent
    return HeldOut(tuple(predicted), tuple(majority))


def accuracy(predicted: Sequence[str], labels: Sequence[str]) -> float:
    """Share of right predictions, 0 to 1."""
    return float(np.mean([guess == label for guess, label in zip(predicted, labels, strict=True)]))


def macro_recall(predicted: Sequence[str], labels: Sequence[str]) -> float:
    """Mean over the classes of the share of their examples that were found, 0 to 1."""
    return float(recall_score(labels, predicted, labels=sorted(set(labels)), average="macro", zero_division=0))
