"""The trained search router: logistic regression over the features of a draft, kept as plain JSON (no pickle).

``python -m training.search_router`` fits it on a judged run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agents.methods.routing import FEATURE_NAMES, TraceFeatures
from agents.turn import Route


class RouterError(ValueError):
    """A router file is missing or malformed; the message names it."""


class RouterWeights(BaseModel):
    """A multinomial logistic regression: the branch with the greatest ``coefficients @ features + intercept``.

    Attributes:
        features: Names of the features of ``TraceFeatures`` it looks at.
        classes: The branches, a row of coefficients each.
        trained_on: The run it was fitted to.
        examples: Turns in it.
        training_hash: SHA-256 of features and labels, in hexadecimal.
        accuracy: Held-out accuracies by what was measured, 0 to 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    features: tuple[str, ...] = Field(min_length=1)
    classes: tuple[Route, ...] = Field(min_length=2)
    coefficients: tuple[tuple[float, ...], ...]
    intercept: tuple[float, ...]
    trained_on: str = ""
    examples: int = Field(0, ge=0)
    training_hash: str = ""
    accuracy: dict[str, float] = {}

    @model_validator(mode="after")
    def _fits_together(self) -> RouterWeights:
        unknown = sorted(set(self.features) - set(FEATURE_NAMES))
        if unknown:
            raise ValueError(f"unknown features: {', '.join(unknown)}")
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("a branch stands twice")
        rows = len(self.coefficients)
        if rows != len(self.classes) or len(self.intercept) != rows:
            raise ValueError(
                f"{len(self.classes)} branches, {rows} rows of coefficients, {len(self.intercept)} intercepts"
            )
        if any(len(row) != len(self.features) for row in self.coefficients):
            raise ValueError(f"a row has not {len(self.features)} coefficients")
        return self


class TrainedRouter:
    """A ``Router`` with fitted weights."""

    def __init__(self, weights: RouterWeights) -> None:
        self.weights = weights
        self._matrix = np.asarray(weights.coefficients, dtype=np.float64)
        self._intercept = np.asarray(weights.intercept, dtype=np.float64)

    def route(self, features: TraceFeatures) -> Route:
        """The likeliest branch; a turn without draft is always ``rag``."""
        if not features.has_draft:
            return "rag"
        values = features.as_dict()
        scores = self._matrix @ np.array([values[name] for name in self.weights.features]) + self._intercept
        return self.weights.classes[int(scores.argmax())]

    def save(self, path: Path) -> None:
        """Write the weights as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.weights.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> TrainedRouter:
        """Read what ``save`` wrote.

        Raises:
            RouterError: The file is missing or malformed.
        """
        try:
            return cls(RouterWeights.model_validate_json(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise RouterError(f"the router {path} cannot be read: {error}") from error
        except ValidationError as error:
            raise RouterError(f"the router {path} is malformed: {error}") from error
