"""Where the traces of two runs of one question part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_NOT_COMPARED = frozenset({"stage", "seconds"})
_WHETHER = frozenset({"skipped", "reduced"})
"""Notes that quote how much time was left: only whether they are there is compared."""

_DIGITS = 3
"""Decimals of scores that are compared: the last bits depend on what else was in the batch."""


@dataclass(frozen=True)
class Difference:
    """The first stage in which two traces differ.

    Attributes:
        stage: Its name; "(answer)" where all stages noted the same.
        what: The notes that differ, or which trace alone has the stage.
    """

    stage: str
    what: str


def first_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> Difference:
    """The first stage of both traces with other notes; else the first that one trace alone has.

    Runs of different presets have different stages in every turn, which says little of one turn: what both have is
    compared first, in the order of the first trace. A stage that was skipped counts as one that noted nothing.

    Args:
        one: A line of trace.jsonl.
        other: Another.
    """
    before, after = _stages(one), _stages(other)
    for name, notes in before.items():
        if name in after and notes != after[name]:
            changed = sorted(key for key in {*notes, *after[name]} if notes.get(key) != after[name].get(key))
            return Difference(name, ", ".join(changed))
    for there, here, which in ((before, after, "first"), (after, before, "second")):
        for name, notes in there.items():
            if name not in here and not notes.get("skipped"):
                return Difference(name, f"in the {which} run alone")
    return Difference("(answer)", "all stages noted the same")


def _stages(record: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    stages = record.get("stages")
    if not isinstance(stages, list):
        return {}
    return {str(stage["stage"]): _notes(stage) for stage in stages if isinstance(stage, dict) and "stage" in stage}


def _notes(stage: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: bool(value) if name in _WHETHER else _rounded(value)
        for name, value in stage.items()
        if name not in _NOT_COMPARED and value not in (None, [], "", {})
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, Mapping):
        return {str(name): _rounded(inner) for name, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list | tuple) else value
