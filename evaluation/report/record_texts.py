"""Short texts of a stage's record for the report."""

from __future__ import annotations

import json
from typing import Any

from agents.record import Exchange, StageRecord

_MAX_CHARACTERS = 400  # longest note
_MAX_EXCHANGES = 3  # shown of a stage; one that asks about each chunk has a dozen


def format_value(value: Any) -> str:
    """Format a check, a signal or a note in short."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        text = value
    elif isinstance(value, float):
        text = f"{value:.3g}"
    elif isinstance(value, dict) and all(isinstance(item, str | int | float) for item in value.values()):
        text = "; ".join(
            f"{name} {format_value(item)}" for name, item in value.items() if item != 0
        )  # zeros say little
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


def collect_notes(stage: StageRecord) -> dict[str, str]:
    """Collect the findings and notes of a stage by name; boxes and evidence are shown elsewhere."""
    notes: dict[str, Any] = {"entity": stage.entity, "queries": list(stage.queries)}
    notes["not recognised; nearest"] = [vars(stage.nearest)] if stage.nearest is not None else []
    notes["left out, because"] = stage.nearest.left_out if stage.nearest is not None else ""
    notes["pictures"] = [{"name": each.name, "score": each.score} for each in stage.pictures]
    notes |= {f"answer ({basis})": answer for basis, answer in stage.answers.items()}
    notes |= stage.checks
    notes["decision"] = str(stage.decision or "")
    notes["signals"] = {name: round(signal.value, 4) for name, signal in stage.signals.items()}
    for number, exchange in enumerate(stage.exchanges[:_MAX_EXCHANGES], start=1):
        notes[f"reply {number} to {exchange.prompt}"] = format_reply(exchange)
    if len(stage.exchanges) > _MAX_EXCHANGES:
        notes["further replies"] = len(stage.exchanges) - _MAX_EXCHANGES
    notes |= stage.notes
    return {name: format_value(value) for name, value in notes.items() if value not in (None, [], "", {}, ())}


def format_reply(exchange: Exchange) -> str:
    """Format a model's reply with its probabilities, time and other details."""
    about = [f"{exchange.seconds:.2f} s"]
    if exchange.mean_probability is not None:
        about.append(f"mean probability {exchange.mean_probability:.2f}")
    if exchange.cached:
        about.append("from the cache")
    if exchange.finish_reason != "stop":
        about.append(exchange.error or f"ended by {exchange.finish_reason}")
    if not exchange.readable:
        about.append("cannot be read")
    return f"{exchange.reply} ({', '.join(about)})".strip()
