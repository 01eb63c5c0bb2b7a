"""The fitted gate (``agents/methods/gate.py``): an answer has to be right with the probability that the gate asks for."""

import math
from collections.abc import Mapping
from functools import lru_cache

from pydantic import Field, field_validator

from agents.base.data_folder import data_path
from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.methods.gate import Gate
from agents.record import sureness
from agents.turn import Turn

_load = lru_cache(maxsize=8)(Gate.load)


class FittedGate(Rule):
    """The rule of last resort: it weighs all signals of a candidate that no other rule withholds."""

    class Options(RuleOptions):
        gate: str | None = Field(
            None,
            description="fitted gate (JSON of python -m evaluation.studies.calibrate), a path below the repository; None: no gate",
        )

        @field_validator("gate")
        @classmethod
        def _can_be_read(cls, path: str | None) -> str | None:
            """Read the gate at once: without it every turn would end as an abstention."""
            if path is not None:
                Gate.load(data_path(path))
            return path

    options: Options
    fitted = True

    @property
    def gate(self) -> Gate | None:
        """The gate of the preset; None without one."""
        return None if self.options.gate is None else _load(data_path(self.options.gate))

    def probability(self, signals: Mapping[str, float]) -> float | None:
        """Return how likely the answer is right, 0 to 1 or NaN; None without a gate."""
        gate = self.gate
        return None if gate is None else gate.probability(signals)

    def pulls(self, signals: Mapping[str, float]) -> dict[str, float]:
        """Return the pull of each signal (``Gate.pulls``), rounded for records; {} without a gate."""
        gate = self.gate
        pulls = {} if gate is None else gate.pulls(signals)
        return {name: round(pull, 3) for name, pull in pulls.items() if math.isfinite(pull)}

    def minimum(self, turn: Turn) -> float | None:
        """Return the probability that an answer needs; None without a gate."""
        gate = self.gate
        return None if gate is None else gate.minimum(egocentric=turn.egocentric)

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer that is not sure enough; a probability of NaN is not.

        A result computed by code from text in the photo is given: no model answered, so no signal says whether it is right.
        """
        if turn.candidate is not None and turn.candidate.computed:
            return None
        probability, minimum = self.probability(context.signals), self.minimum(turn)
        if probability is None or minimum is None or probability >= minimum:
            return None
        return sureness(probability, minimum)
