"""The gate: how likely a candidate answer is right, by a linear head over signals that cost no call.

A right answer scores 1, a wrong one -1, an abstention 0, so an answer is worth giving where it is more likely right than wrong.
``python -m evaluation.studies.calibrate`` fits a gate on a validation run of one preset and profile.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from agents.base.linear_head import LinearHead, known_names
from agents.record import Signal


@dataclass(frozen=True)
class GateSignals:
    """What is known of a candidate without another call; None where the preset or the engine does not say it."""

    p_idk: float | None = None  # probability that the reply would have begun with "I don't know", 0 to 1
    p_yes: float | None = None  # probability of the verdict's yes against its no, 0 to 1
    min_probability: float | None = None  # lowest probability of the answer's tokens, 0 to 1
    mean_probability: float | None = None  # their mean
    agreement: float | None = (
        None  # 1 where answers with and without evidence agree (``consistency``, or a draft), else 0
    )
    chain_confidence: float | None = None  # what the chain of verification says of the answer, 0 to 1
    evidence_score: float | None = None  # best score of a chunk after reranking
    no_evidence: float | None = None  # 1 where there is no chunk to answer from, else 0
    entity_score: float | None = None  # cosine of the picture that named the entity
    # Margin of ``entity_score`` over the best other entity; negative where the chosen entity was not the nearest
    entity_margin: float | None = None
    # 1 where the question is about the picture and no entity was recognised (``select_entity.min_score``), else 0
    no_entity: float | None = None
    # 1 where the entity was sure enough to be named in a web query (``queries.min_score``), else 0
    entity_named: float | None = None
    # 1 where the evidence came with the call, else 0. It was found with the whole picture and the bare question and tells no cosines, so
    # that ``entity_score``, ``entity_margin`` and ``entity_named`` are not known then
    provided_evidence: float | None = None

    def finite(self) -> dict[str, float]:
        """The signals that say something, by name."""
        return {name: value for name, value in vars(self).items() if value is not None and math.isfinite(value)}

    def to_record(self) -> dict[str, Signal]:
        """The same as the record of a turn holds them."""
        return {name: Signal(round(value, 6), name in NEGATIVE_SIGNALS) for name, value in self.finite().items()}


SIGNALS: tuple[str, ...] = tuple(field.name for field in fields(GateSignals))
NEGATIVE_SIGNALS = frozenset({"p_idk", "no_evidence", "no_entity", "provided_evidence"})
"""Signals that are higher for wrong answers; all others are higher for correct ones."""


FOREIGN = "."
"""Marks the name of a signal that is not one of ``SIGNALS`` but emitted by a stage of the preset (``Turn.record``): ``STAGE.NAME``."""

CLASSES = ("wrong", "right")


class Gate(LinearHead):
    """A head whose ``features`` are signals and whose second class is a right answer.

    ``mean`` and ``scale`` are the mean and the standard deviation of each signal on the turns that it was fitted on: a missing signal
    counts as its mean and adds nothing, and a coefficient is the log-odds of one standard deviation. ``threshold_egocentric`` is that of
    photos of smart glasses (``Turn.egocentric``), where these have one of their own.
    """

    what: ClassVar[str] = "gate"
    how: ClassVar[str] = "fit one with python -m evaluation.studies.calibrate"

    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    threshold_egocentric: float | None = Field(None, ge=0, le=1)

    def minimum(self, *, egocentric: bool) -> float:
        """The probability from which an answer about such a photo is given."""
        return self.threshold if self.threshold_egocentric is None or not egocentric else self.threshold_egocentric

    @model_validator(mode="after")
    def _known(self) -> Self:
        known_names([name for name in self.features if FOREIGN not in name], SIGNALS, "signals")
        if self.classes != CLASSES:
            raise ValueError(
                f"the classes of a gate are {', '.join(CLASSES)} in this order, not {', '.join(self.classes)}"
            )
        return self

    def probability(self, signals: GateSignals | Mapping[str, float]) -> float:
        """How likely the answer is right, 0 to 1; a signal that is missing or no finite number counts as its mean.

        NaN where coefficients are so large that their sum overflows.
        """
        values = signals.finite() if isinstance(signals, GateSignals) else signals
        row = [math.nan if (value := values.get(name)) is None else value for name in self.features]
        return float(self.probabilities(np.array([row], dtype=np.float64))[0, 1])
