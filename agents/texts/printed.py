"""Text read in a picture as evidence: rows put together from the pieces that OCR finds, and entries like ``TOTAL 4.80``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.models.base import TextLine

_ENTRY = re.compile(
    r"^(?P<key>[A-Za-z][A-Za-z .&'/-]{1,40}?)(?:\s*[:=]\s*|\s+)(?P<value>(?:[$€£¥]\s?)?\d[\w.,:%/ $€£¥-]*|[A-Z][\w .'-]*)$"
)
_COLON = re.compile(r"^(?P<key>[^:]{1,39}[^:\d])\s*[:=]\s*(?P<value>\S.*)$")


def rows(lines: Sequence[TextLine]) -> list[str]:
    """The lines that stand side by side, joined from left to right, from the top of the picture to its bottom."""
    found: list[list[TextLine]] = []
    for line in sorted(lines, key=lambda line: (line.box.top + line.box.bottom) / 2):
        row = next((row for row in reversed(found) if _side_by_side(row[-1], line)), None)
        if row is None:
            found.append([line])
        else:
            row.append(line)
    return [" ".join(line.text.strip() for line in sorted(row, key=lambda line: line.box.left)) for row in found]


def _side_by_side(one: TextLine, other: TextLine) -> bool:
    """Whether two lines share more than half of the lower one's height and do not lie over each other."""
    shared = min(one.box.bottom, other.box.bottom) - max(one.box.top, other.box.top)
    least = min(one.box.bottom - one.box.top, other.box.bottom - other.box.top)
    apart = other.box.left >= one.box.right or one.box.left >= other.box.right
    return apart and least > 0 and shared > 0.5 * least


def entry(row: str) -> tuple[str, str] | None:
    """Key and value of a printed entry: ``TOTAL 4.80`` -> (total, 4.80); None for a row that is none."""
    found = _COLON.match(row) or (_ENTRY.match(row) if any(ch.isdigit() for ch in row) else None)
    if found is None:
        return None
    return found.group("key").strip(" .").lower(), found.group("value").strip()
