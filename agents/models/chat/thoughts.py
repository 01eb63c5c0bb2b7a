"""Separates what a reasoning model thinks from what it replies, where the server leaves both in one text."""

import re

_NAMES = "think|thinking|thought|thoughts|reasoning"
_OPEN = re.compile(rf"\s*(?:<(?:{_NAMES})>|\[THINK\])", re.IGNORECASE)
_CLOSE = re.compile(rf"(?:</(?:{_NAMES})>|\[/THINK\])", re.IGNORECASE)
"""Tags around thoughts. Some chat templates open the tag in the prompt, so that a reply may hold the closing tag alone."""


def reply_start(text: str) -> int:
    """Return where the reply begins behind the thoughts: 0 without thoughts, ``len(text)`` if they never end."""
    ends = [match.end() for match in _CLOSE.finditer(text)]
    if ends:
        return ends[-1]
    return len(text) if _OPEN.match(text) else 0
