"""What the record of a stage says, as short text."""

from __future__ import annotations

import json
from typing import Any

from agents.asking.record import StageRecord

_MAX_CHARACTERS = 400  # of a note


def told(value: Any) -> str:
    """A check, a signal or a note in short."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        text = value
    elif isinstance(value, float):
        text = f"{value:.3g}"
    elif isinstance(value, dict) and all(isinstance(item, str | int | float) for item in value.values()):
        text = "; ".join(f"{name} {told(item)}" for name, item in value.items() if item != 0)  # zeros say little
    elif isinstance(value, list | tuple) and all(isinstance(item, dict) and "name" in item for item in value):
        text = ", ".join(
            f"{item['name']} {score:.2f}" if isinstance(score := item.get("score"), float) else str(item["name"])
            for item in value
        )
    elif isinstance(value, list | tuple) and all(isinstance(item, str | int | float) for item in value):
        text = "; ".join(map(str, value))
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def notes_of(stage: StageRecord) -> dict[str, str]:
    """What a stage found and noted, by name; boxes and evidence are shown elsewhere."""
    found: dict[str, Any] = {"entity": stage.entity, "queries": list(stage.queries)}
    found["pictures"] = [{"name": each.name, "score": each.score} for each in stage.pictures]
    found |= {f"answer ({basis})": said for basis, said in stage.answers.items()}
    found |= stage.checks
    found["decision"] = str(stage.decision or "")
    found["signals"] = {name: round(signal.value, 4) for name, signal in stage.signals.items()}
    found |= stage.notes
    return {name: told(value) for name, value in found.items() if value not in (None, [], "", {}, ())}
