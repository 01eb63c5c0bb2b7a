"""Text in a photo, each figure with the label that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.models.base import TextLine

_FIGURE = re.compile(r"\W*\d[\d.,:/x]*\W*(?:each|(?:per|a|an|/)\s*\w+|[A-Za-z]{1,3})?\W*", re.IGNORECASE)


def attach_labels(lines: Sequence[TextLine]) -> list[str]:
    """Put each bare figure of a photo behind its label: left of it in its row, else the nearest above it."""
    labels = [line for line in lines if _FIGURE.fullmatch(line.text) is None]
    texts = {id(line): line.text for line in lines}
    for line in lines:
        owner = _find_label(line, labels) if _FIGURE.fullmatch(line.text) else None
        if owner is not None:
            texts[id(owner)] += f" {texts.pop(id(line))}"
    return [texts[id(line)] for line in lines if id(line) in texts]


def _find_label(figure: TextLine, labels: Sequence[TextLine]) -> TextLine | None:
    box = figure.box
    height = box.bottom - box.top
    row = [
        label
        for label in labels
        if min(box.bottom, label.box.bottom) - max(box.top, label.box.top) > 0.5 * height
        and label.box.right <= box.left + height
    ]
    if row:
        return max(row, key=lambda label: label.box.right)
    above = [
        label
        for label in labels
        if label.box.bottom <= box.top + 0.5 * height
        and min(box.right, label.box.right) > max(box.left, label.box.left)
    ]
    return max(above, key=lambda label: label.box.bottom, default=None)
