"""A linear classifier over numbers, kept as one JSON file: domain heads, the search router and the gate are such heads."""

import json
from codecs import BOM_UTF8
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agents.base.files import first_fault, shorten_name, write_whole

Floats = npt.NDArray[np.floating[Any]]
Row = tuple[float, ...]


class HeadError(ValueError):
    """A head's file is missing or malformed, or the head is given features of another number; the message says what to do."""


class LinearHead(BaseModel):
    """A logistic regression: ``coefficients @ (x - mean) / scale + intercept``, then a softmax."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    kind_name: ClassVar[str] = "head"
    """Name of the kind of head in error messages."""
    remedy: ClassVar[str] = "fit it again with python -m training.domain_router"
    """Command that error messages recommend."""

    classes: tuple[str, ...] = Field(min_length=2)  # names of the classes
    # A row for each class, a column for each feature; two classes may have one row, the log-odds of the second
    coefficients: tuple[Row, ...] = Field(min_length=1)
    intercept: Row  # one number for each row
    features: tuple[str, ...] | None = None  # names of the columns, where they have names
    extractor: str | None = None  # name of the model that makes the features, where a model does
    mean: Row | None = None  # subtracted from each feature, and imputed for a missing one; None for no centring
    scale: Row | None = None  # divisor of each feature then; None for 1
    threshold: float = Field(0.5, ge=0, le=1)  # of two classes: minimum probability at which the second is chosen
    fitted_on: dict[str, Any] = {}  # its training: data, examples, their hash, commit and the like
    accuracy: dict[str, float] = {}  # held-out accuracies by measurement, 0 to 1

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if len(set(self.classes)) != len(self.classes):
            raise ValueError("a class is given twice; keep it once")
        rows, columns = len(self.coefficients), len(self.coefficients[0])
        if (rows != len(self.classes) and (rows, len(self.classes)) != (1, 2)) or len(self.intercept) != rows:
            raise ValueError(
                f"{len(self.classes)} classes, {rows} rows of coefficients, {len(self.intercept)} intercepts"
            )
        for name, row in (("features", self.features), ("mean", self.mean), ("scale", self.scale)):
            if row is not None and len(row) != columns:
                raise ValueError(f"{columns} columns of coefficients, but {len(row)} in {name}")
        if self.features is not None and len(set(self.features)) != columns:
            raise ValueError("a feature is given twice; keep it once")
        if any(len(row) != columns for row in self.coefficients):
            raise ValueError(f"each row of coefficients needs {columns} numbers, one a feature")
        if self.scale is not None and min(self.scale) <= 0:
            raise ValueError("each scale has to be above 0")
        return self

    def probabilities(self, values: Floats) -> Floats:
        """Probabilities, shape (rows, classes), of features, shape (rows, features), in their precision; HeadError for another number.

        Where the head has means, a value other than a finite number counts as its mean.
        """
        weights, intercept = self._weights
        if values.shape[1] != weights.shape[1]:
            raise HeadError(f"the {self.kind_name} takes {weights.shape[1]} features, {values.shape[1]} were given")
        if self.mean is not None or self.scale is not None:
            values = (values - np.asarray(self.mean or 0.0)) / np.asarray(self.scale or 1.0)
        if self.mean is not None:
            values = np.where(np.isfinite(values), values, 0.0)
        scores = values @ weights.T.astype(values.dtype) + intercept.astype(values.dtype)
        if scores.shape[1] == 1:
            scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
        return softmax(scores)

    def predict(self, values: Floats) -> list[str]:
        """Return the most probable class of each row of features; see ``probabilities``."""
        return [self.classes[best] for best in self.probabilities(values).argmax(axis=1)]

    def save(self, path: Path) -> None:
        """Write the head as JSON, a field or a row of coefficients a line."""
        fields = self.model_dump(mode="json", exclude_none=True)
        rows = ",\n    ".join(json.dumps(row) for row in fields["coefficients"])
        texts = {name: json.dumps(value) for name, value in fields.items() if value != {}}
        texts["coefficients"] = f"[\n    {rows}\n  ]"
        lines = [f'"{name}": {value}' for name, value in texts.items()]
        write_whole(path, "{\n  " + ",\n  ".join(lines) + "\n}\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that ``save`` wrote.

        Raises:
            HeadError: The file is missing or malformed; the message names it and says what to do.
        """
        try:
            return cls.model_validate_json(path.read_bytes().removeprefix(BOM_UTF8))
        except OSError as error:
            raise HeadError(
                f"the {cls.kind_name} {shorten_name(path)} cannot be read ({error.strerror}); {cls.remedy}"
            ) from error
        except ValidationError as error:
            raise HeadError(f"the {cls.kind_name} {path} is malformed: {first_fault(error)}; {cls.remedy}") from error

    @cached_property
    def _weights(self) -> tuple[Floats, Floats]:
        return np.asarray(self.coefficients, dtype=np.float64), np.asarray(self.intercept, dtype=np.float64)


def softmax(scores: Floats) -> Floats:
    """Softmax over the last axis, in the precision of the scores."""
    shifted = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
    probabilities: Floats = (shifted / shifted.sum(axis=-1, keepdims=True)).astype(scores.dtype)
    return probabilities


def convert_rows(matrix: Floats) -> tuple[Row, ...]:
    """Convert a matrix to rows of Python numbers.

    Each number has the shortest form that its precision needs (a float32 has 9 digits).
    """
    return tuple(tuple(float(str(value)) for value in row) for row in matrix)


def known_names(names: Sequence[str], choices: Sequence[str], noun: str) -> None:
    """Raise ValueError if a name is unknown."""
    unknown = sorted(set(names) - set(choices))
    if unknown:
        raise ValueError(f"unknown {noun}: {', '.join(unknown)}; known: {', '.join(choices)}")
