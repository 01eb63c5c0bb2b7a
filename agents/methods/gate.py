"""The gate: how likely a candidate answer is right, by a logistic regression over signals that cost no call, kept as plain JSON.

A right answer scores 1, a wrong one -1, an abstention 0, so an answer is worth giving where it is more likely right than wrong.
``python -m evaluation.studies.calibrate`` fits a gate on a validation run of one preset and profile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator


class GateError(ValueError):
    """A gate's file is missing or malformed; the message names it and says what to do."""


@dataclass(frozen=True)
class GateSignals:
    """What is known of a candidate without another call; None where the preset or the engine does not say it.

    Attributes:
        p_idk: Probability that the reply would have begun with "I don't know", 0 to 1.
        p_yes: Probability of the verdict's yes against its no, 0 to 1.
        least_probability: Least probability of the answer's tokens, 0 to 1.
        mean_probability: Their mean.
        agreement: 1 where answers with and without evidence agree, 0 where they do not.
        chain_confidence: What the chain of verification says of the answer, 0 to 1.
        evidence_score: Best score of a chunk after reranking.
        no_evidence: 1 where there is no chunk to answer from, else 0.
        entity_score: Cosine of the picture that named the entity.
        entity_margin: That less the best cosine of a picture of another entity; negative where the choice was not the nearest.
        no_entity: 1 where the question is about the picture and no entity was recognised, else 0.
    """

    p_idk: float | None = None
    p_yes: float | None = None
    least_probability: float | None = None
    mean_probability: float | None = None
    agreement: float | None = None
    chain_confidence: float | None = None
    evidence_score: float | None = None
    no_evidence: float | None = None
    entity_score: float | None = None
    entity_margin: float | None = None
    no_entity: float | None = None

    def known(self) -> dict[str, float]:
        """The signals that say something, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None and math.isfinite(value)}


SIGNALS: tuple[str, ...] = tuple(field.name for field in fields(GateSignals))
DOUBTS = frozenset({"p_idk", "no_evidence", "no_entity"})
"""Signals of which a higher value speaks against the answer; of all others it speaks for it."""


class SignalWeight(BaseModel):
    """One signal of a fitted gate: ``weight * (value - mean) / scale`` is added to the log-odds.

    Attributes:
        mean: Of the turns it was fitted on; stands in for a missing value, which therefore adds nothing.
        scale: Their standard deviation.
        weight: Log-odds a standard deviation.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    mean: float
    scale: float = Field(gt=0)
    weight: float


class Gate(BaseModel):
    """A fitted gate.

    Attributes:
        signals: The signals it looks at.
        bias: Log-odds of a right answer where every signal has its mean.
        threshold: Least probability of being right at which an answer is given.
        fitted_on: Run, turns, sessions, split, commit and judge of the fit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    signals: dict[str, SignalWeight] = Field(min_length=1)
    bias: float
    threshold: float = Field(0.5, ge=0, le=1)
    fitted_on: dict[str, Any] = {}

    @field_validator("signals")
    @classmethod
    def _known(cls, signals: dict[str, SignalWeight]) -> dict[str, SignalWeight]:
        unknown = sorted(set(signals) - set(SIGNALS))
        if unknown:
            raise ValueError(f"unknown signals: {', '.join(unknown)}; known: {', '.join(SIGNALS)}")
        return signals

    def probability(self, signals: GateSignals | Mapping[str, float]) -> float:
        """How likely the answer is right, 0 to 1; a signal that is missing or no finite number counts as its mean."""
        values = signals.known() if isinstance(signals, GateSignals) else signals
        odds = self.bias
        for name, fitted in self.signals.items():
            value = values.get(name)
            if value is not None and math.isfinite(value):
                odds += fitted.weight * (value - fitted.mean) / fitted.scale
        return _sigmoid(odds)

    def save(self, path: Path) -> None:
        """Write the gate as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Gate:
        """Read what ``save`` wrote.

        Raises:
            GateError: The file is missing or malformed, or names a signal that does not exist.
        """
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise GateError(
                f"the gate {path} cannot be read ({error}); fit one with python -m evaluation.studies.calibrate"
            ) from error
        except ValidationError as error:
            raise GateError(
                f"the gate {path} is malformed: {error}; fit it anew with python -m evaluation.studies.calibrate"
            ) from error


def _sigmoid(odds: float) -> float:
    if odds < 0:  # either way the exponential stays small
        return math.exp(max(odds, -700.0)) / (1 + math.exp(max(odds, -700.0)))
    return 1 / (1 + math.exp(-odds))
