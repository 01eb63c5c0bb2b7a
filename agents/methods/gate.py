"""The gate: how likely a candidate answer is right, by a linear head over signals that cost no call.

A right answer scores 1, a wrong one -1, an abstention 0, so an answer is worth giving where it is more likely right than wrong.
``python -m evaluation.studies.calibrate`` fits a gate on a validation run of one preset and profile.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, ValidationInfo, model_validator

from agents.base.files import write_whole
from agents.base.linear_head import LinearHead

CLASSES = ("wrong", "right")

_COLUMNS = {"coefficients": "weight", "mean": "mean", "scale": "scale"}
"""Fields of the head, and their names in a signal's entry of the file."""


class Gate(LinearHead):
    """A head whose ``features`` are names of signals and whose second class is a right answer.

    Its file has a table by signal: weight (log-odds of one standard deviation), mean and standard deviation (``scale``) on the turns that
    it was fitted on. A missing signal counts as its mean and adds nothing.
    ``threshold_egocentric`` is the threshold of photos of smart glasses (``Turn.egocentric``), if they have one of their own.
    """

    kind_name: ClassVar[str] = "gate"
    remedy: ClassVar[str] = "fit one with python -m evaluation.studies.calibrate"

    classes: tuple[str, ...] = CLASSES
    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    threshold_egocentric: float | None = Field(None, ge=0, le=1)

    def minimum(self, *, egocentric: bool) -> float:
        """Return the probability from which an answer about such a photo is given."""
        return self.threshold if self.threshold_egocentric is None or not egocentric else self.threshold_egocentric

    @model_validator(mode="before")
    @classmethod
    def _read_table(cls, content: Any, info: ValidationInfo) -> Any:
        """Convert the table by signal of a file to the columns of the head."""
        if info.mode != "json" or not isinstance(content, Mapping):
            return content
        numbers, table = {*_COLUMNS.values()}, content.get("signals")
        if not isinstance(table, Mapping) or not all(
            isinstance(entry, Mapping) and entry.keys() == numbers for entry in table.values()
        ):
            raise ValueError(f"signals needs a table of {', '.join(_COLUMNS.values())} for each name, and nothing else")
        columns = {field: [entry[number] for entry in table.values()] for field, number in _COLUMNS.items()}
        rest = {name: value for name, value in content.items() if name not in ("signals", "intercept")}
        if twice := sorted({"features", *_COLUMNS} & rest.keys()):
            raise ValueError(f"signals and {', '.join(twice)} say the same; keep signals")
        weights = [columns.pop("coefficients")]
        named = {**columns, "features": list(table), "coefficients": weights}
        return {**rest, **named, "intercept": [content.get("intercept")]}

    @model_validator(mode="after")
    def _has_two_classes(self) -> Self:
        if self.classes != CLASSES:
            raise ValueError(
                f"the classes of a gate are {', '.join(CLASSES)} in this order, not {', '.join(self.classes)}"
            )
        if len(self.coefficients) != 1:
            raise ValueError("a gate has one row of coefficients, the log-odds of a right answer")
        return self

    def probability(self, signals: Mapping[str, float | None]) -> float:
        """Compute how likely the answer is right, 0 to 1.

        A missing or non-finite signal counts as its mean.

        Returns:
            NaN if coefficients are so large that their sum overflows.
        """
        row = [math.nan if (value := signals.get(name)) is None else value for name in self.features]
        return float(self.probabilities(np.array([row], dtype=np.float64))[0, 1])

    def pulls(self, signals: Mapping[str, float | None]) -> dict[str, float]:
        """Return how far each known signal moves the log-odds of a right answer away from those of a mean turn, strongest first."""
        pulls = {
            name: weight * (value - mean) / scale
            for name, weight, mean, scale in zip(
                self.features, self.coefficients[0], self.mean, self.scale, strict=True
            )
            if (value := signals.get(name)) is not None and math.isfinite(value)
        }
        return dict(sorted(pulls.items(), key=lambda item: -abs(item[1])))

    def save(self, path: Path) -> None:
        """Write the gate as JSON, one signal a line."""
        numbers = zip(self.features, self.coefficients[0], self.mean, self.scale, strict=True)
        signals = [
            f"{json.dumps(name)}: {json.dumps(dict(zip(_COLUMNS.values(), row, strict=True)))}"
            for name, *row in numbers
        ]
        excluded_fields = {"features", *_COLUMNS, "classes", "intercept"}
        fields = {
            "intercept": self.intercept[0],
            **self.model_dump(mode="json", exclude_none=True, exclude=excluded_fields),
        }
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items() if value != {}]
        table = ",\n    ".join(signals)
        write_whole(path, "{\n  " + ",\n  ".join([f'"signals": {{\n    {table}\n  }}', *lines]) + "\n}\n")
