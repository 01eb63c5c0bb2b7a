"""Stages that fail as a whole, whatever they use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.stage import Stage
from agents.turn import Turn
from tests.support.fault_plan import MARK, Fault, Plan, fail

_SLOW_SHARE = 0.4  # of a call

Before = Callable[[Plan, Sequence[Turn]], object]


@dataclass(frozen=True)
class StageFault:
    """What happens before a stage runs; the rest as in ``Fault``."""

    before: Before
    says: str
    one_turn: bool = False


def _raises_for_one(_: Plan, turns: Sequence[Turn]) -> None:
    if any(MARK in turn.query for turn in turns):
        raise KeyError(MARK)


STAGE_FAULTS: dict[str, StageFault] = {
    "slow": StageFault(lambda plan, _: plan.pause(_SLOW_SHARE * plan.call_seconds), " s left"),
    "hangs": StageFault(lambda plan, _: plan.hang(), "hung|still hangs"),
    "raises": StageFault(lambda *_: fail(RuntimeError("out of order")), "out of order"),
    "raises for one turn": StageFault(_raises_for_one, f"KeyError.*{MARK}", one_turn=True),
}
"""By what the stage does."""


def in_stage(name: str, kind: str) -> Fault:
    """The fault of one stage."""
    stage_fault = STAGE_FAULTS[kind]

    def spoil(plan: Plan) -> None:
        def spoil_stage(stage: Stage) -> None:
            if stage.name == name:
                run = stage.run

                def spoilt(turns: Sequence[Turn], context: Any) -> None:
                    stage_fault.before(plan, turns)
                    run(turns, context)

                stage.run = spoilt  # type: ignore[method-assign]

        plan.spoil_stage = spoil_stage

    return Fault(spoil, stage_fault.says, stage_fault.one_turn)
