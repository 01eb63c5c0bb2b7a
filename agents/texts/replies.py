"""One tolerant parser for what chat models reply: JSON, labelled lines, yes or no, a number.

Engines that can constrain a reply to a schema give clean JSON; others wrap it in prose and fences, leave out quotes or stop in the
middle. Every function returns None rather than raise: what cannot be read was not said.
"""

from __future__ import annotations

import re
from typing import Any

import json_repair

_MOST_CHARACTERS = 20_000  # of a reply; an endless one must not cost endless time
_MOST_JSON = 8_000  # no prompt allows a reply of more than some hundred tokens
_MOST_OPEN = 200  # brackets; the time that mending takes grows with the square of their depth
_WORD = re.compile(r"[a-z]+")
_NUMBER = re.compile(r"(?<![\w.])(?:\d+(?:\.\d+)?|\.\d+)(?![\w])")


def json_object(reply: str) -> dict[str, Any] | None:
    """The first JSON object of a reply, mended where it is torn; None where it opens more than ``_MOST_OPEN`` brackets."""
    start = reply.find("{", 0, _MOST_CHARACTERS)
    if start < 0:
        return None
    text = reply[start : min(start + _MOST_JSON, _MOST_CHARACTERS)]
    text = text[: text.rfind("}") + 1] or text
    if sum(map(text.count, "{[(")) > _MOST_OPEN:
        return None
    try:
        found = json_repair.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, list):  # several objects in one reply: the first is the answer, the rest is chatter
        found = next((item for item in found if isinstance(item, dict)), None)
    return found if isinstance(found, dict) else None


def yes_or_no(reply: str) -> bool | None:
    """Whether a reply begins with yes or no (or says correct, incorrect, true, false); None where it says neither."""
    for word in _WORD.findall(reply[:200].lower()):
        if word in ("yes", "true", "correct", "supported", "consistent"):
            return True
        if word in ("no", "false", "incorrect", "unsupported", "inconsistent", "not"):
            return False
    return None


def labelled(reply: str, label: str) -> str | None:
    """What follows ``label:`` in a reply, up to the next line that begins with a label of its own; markdown stars are ignored."""
    text = reply[:_MOST_CHARACTERS].replace("*", "")
    found = re.search(rf"^\W{{0,4}}{re.escape(label)}[ \t]*:[ \t]*", text, re.IGNORECASE | re.MULTILINE)
    if found is None:
        return None
    rest = text[found.end() :]
    end = re.search(r"^\W{0,4}[A-Za-z][A-Za-z -]{1,30}[ \t]*:", rest, re.MULTILINE)
    value = (rest[: end.start()] if end else rest).strip()
    return value or None


def number(text: str | None, least: float, most: float) -> float | None:
    """The first number of a text, where it lies between two bounds; None otherwise."""
    found = _NUMBER.search((text or "")[:_MOST_CHARACTERS])
    if found is None:
        return None
    value = float(found.group())
    return value if least <= value <= most else None


def strings(value: Any, most: int) -> list[str]:
    """The non-empty strings of what should be a list of strings, each once, at most ``most``."""
    items = value if isinstance(value, list) else [value]
    cleaned = (" ".join(item.split()) for item in items if isinstance(item, str))
    return list(dict.fromkeys(item for item in cleaned if item))[:most]
