"""Whether a stage runs whole, reduced or not at all, decided before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agents.latency.estimates import Estimates
from agents.stage import Stage

Way = Literal["whole", "reduced", "skipped"]

ANSWERING = frozenset({"answer", "cited_answer", "dual_answer", "entry_answer", "four_steps"})
"""Stages without which there is nothing to give: what comes before them leaves them their least."""

VERIFYING = frozenset({"verify", "consistency", "chain_of_verification", "cite"})
"""Stages without which a preset's rule may not let the answer pass: a share of every call is kept for them."""


_MOST_FOR_ANSWERING = 0.5  # of a call: what once hung may not keep everything before it from running


@dataclass(frozen=True)
class Plan:
    """How a stage is to be run.

    Attributes:
        way: Whole, reduced or skipped.
        reserve: Seconds that the stage has to leave to later ones.
        reason: Why it is not run whole.
    """

    way: Way
    reserve: float = 0.0
    reason: str | None = None


class Budget:
    """Plans the stages of one preset.

    Args:
        stages: In their order.
        estimates: What is known of their times.
        verification_share: Of the seconds of a call, kept for verification at most.
    """

    def __init__(self, stages: Sequence[Stage], estimates: Estimates, verification_share: float) -> None:
        self._stages = list(stages)
        self._estimates = estimates
        self._share = verification_share

    def plan(self, stage: Stage, turns: int, left: float, whole_call: float) -> Plan:
        """How to run a stage for so many turns.

        A stage that needs no time at least (it takes next to none, or can do without its models) is never skipped.

        Args:
            left: Seconds until the deadline of the call.
            whole_call: Seconds that the call had at its beginning.
        """
        reserve = self.reserve(stage, turns, whole_call)
        has = left - reserve
        wanted = self._need(stage, turns, stage.wanted_seconds)
        if has >= wanted:
            return Plan("whole", reserve)
        least = self._estimates.seconds(stage.name, turns, reduced=True)
        least = min(stage.least_seconds, wanted) if least is None else min(least, wanted)
        kept = f" and {reserve:.2f} s kept for later stages" if reserve > 0 else ""
        said = f"{max(0.0, left):.2f} s left{kept}"
        if stage.least_seconds <= 0 or has >= least:
            return Plan("reduced", reserve, f"{said}, would like {wanted:.2f} s")
        return Plan("skipped", reserve, f"{said}, needs {least:.2f} s")

    def reserve(self, stage: Stage, turns: int, whole_call: float) -> float:
        """Seconds to keep for the stages after this one that answer and verify."""
        names = [other.name for other in self._stages]
        later = self._stages[names.index(stage.name) + 1 :] if stage.name in names else []
        answering = sum(self._least(other, turns) for other in later if other.name in ANSWERING)
        verifying = sum(self._least(other, turns) for other in later if other.name in VERIFYING)
        share = self._share * whole_call if whole_call != float("inf") else verifying
        return min(answering, _MOST_FOR_ANSWERING * whole_call) + min(verifying, share)

    def _least(self, stage: Stage, turns: int) -> float:
        return self._need(stage, turns, stage.least_seconds)

    def _need(self, stage: Stage, turns: int, declared: float) -> float:
        known = self._estimates.seconds(stage.name, turns)
        return declared if known is None else known
