"""Styles of Word: which of them are headings, and which count."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree

_HEADING = re.compile(r"heading ?([1-9])|title|subtitle", re.IGNORECASE)
_MAX_BASES = 20
_MAX_LEVEL = 6


class Styles:
    """Paragraph styles by id.

    Args:
        part: The part styles.xml without namespaces, or None.
    """

    def __init__(self, part: etree._Element | None) -> None:
        self._styles = {} if part is None else {each.get("styleId", ""): each for each in part.iterchildren("style")}

    def find_level(self, properties: etree._Element | None, style: str) -> int:
        """Return the level of a paragraph as a heading, from 1; 0 for other text."""
        if (level := _outline(properties)) is not None:
            return level
        for each in self._chain(style):
            name = each.find("name")
            if name is not None and (level := _name_level(name.get("val", ""))):
                return level
            if (level := _outline(each.find("pPr"))) is not None:
                return level
        return _name_level(style) if style not in self._styles else 0

    def find_list(self, properties: etree._Element | None, style: str) -> tuple[str, int]:
        """Return the list that a paragraph is an item of, and its depth from 0; "" for none."""
        for part in (properties, *(each.find("pPr") for each in self._chain(style))):
            numbers = None if part is None else part.find("numPr")
            if numbers is not None and (key := numbers.find("numId")) is not None:
                depth = numbers.find("ilvl")
                text = "" if depth is None else depth.get("val", "")
                found = key.get("val", "")
                return ("" if found == "0" else found), int(text) if text in set("012345678") - {""} else 0
        return "", 0

    def _chain(self, style: str) -> Iterator[etree._Element]:
        """Yield a style and those that it is based on."""
        for _ in range(_MAX_BASES):
            if (found := self._styles.get(style)) is None:
                return
            yield found
            base = found.find("basedOn")
            style = "" if base is None else base.get("val", "")


def _outline(properties: etree._Element | None) -> int | None:
    outline = None if properties is None else properties.find("outlineLvl")
    value = "" if outline is None else outline.get("val", "")
    return None if not value.isdecimal() else 0 if value == "9" else min(int(value) + 1, _MAX_LEVEL)


def _name_level(name: str) -> int:
    match = _HEADING.fullmatch(name)
    if match is None:
        return 0
    return min(int(match[1]), _MAX_LEVEL) if match[1] else 1 if name.lower() == "title" else 2
