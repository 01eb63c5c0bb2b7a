"""Numbers of lists and headings in Word: the file holds how to count, not the numbers that people see."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lxml import etree

_PLACE = re.compile(r"%(\d)")
_ROMAN = dict(
    zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), "m cm d cd c xc l xl x ix v iv i".split(), strict=True)
)
_BULLET = "- "
_MAX_FOLLOWED = 10  # styles that refer to lists that refer to styles


@dataclass(frozen=True)
class _Level:
    start: int
    form: str
    text: str


def to_letters(number: int) -> str:
    """Return a number as Word counts in letters: a ... z, aa, bb ..."""
    return chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, 10)


def to_roman(number: int) -> str:
    """Return a small Roman number."""
    text = ""
    for value, letters in _ROMAN.items():
        count, number = divmod(number, value)
        text += letters * min(count, 10)
    return text


_FORMS: Mapping[str, Callable[[int], str]] = {
    "lowerLetter": to_letters,
    "upperLetter": lambda number: to_letters(number).upper(),
    "lowerRoman": to_roman,
    "upperRoman": lambda number: to_roman(number).upper(),
    "decimalZero": lambda number: f"{number:02}",
    "none": lambda _: "",
}


class Numbering:
    """Counts the items of a document's lists.

    Args:
        part: The part numbering.xml without namespaces, or None.
        list_of_style: Returns the list of a style by the style's id, or "".
    """

    def __init__(self, part: etree._Element | None, list_of_style: Callable[[str], str]) -> None:
        abstract = (
            {} if part is None else {each.get("abstractNumId", ""): each for each in part.iterchildren("abstractNum")}
        )
        self._abstract: dict[str, str] = {}
        self._levels: dict[str, dict[int, _Level]] = {}
        self._restarts: dict[str, dict[int, int]] = {}
        for each in () if part is None else part.iterchildren("num"):
            key = each.get("numId", "")
            reference = each.find("abstractNumId")
            self._abstract[key] = name = "" if reference is None else reference.get("val", "")
            self._levels[key] = _read_levels(abstract.get(name))
            self._restarts[key] = {}
            for override in each.iterchildren("lvlOverride"):
                self._levels[key] |= _read_levels(override)
                if (start := override.find("startOverride")) is not None:
                    self._restarts[key][_to_int(override.get("ilvl"))] = _to_int(start.get("val"), 1)
        self._links = {
            key: link.get("val", "")
            for key, each in abstract.items()
            if (link := each.find("numStyleLink")) is not None
        }
        self._list_of_style = list_of_style
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)

    def count(self, key: str, depth: int) -> str:
        """Return the label of the next item of a list at a depth from 0, such as "2.1 ", "- " or ""."""
        for _ in range(_MAX_FOLLOWED):
            if (link := self._links.get(self._abstract.get(key, ""))) is None:
                break
            key = self._list_of_style(link)
        levels = self._levels.get(key, {})
        if depth not in levels:
            return ""
        counts = self._counts[self._abstract[key]]
        if depth in self._restarts[key]:
            counts[depth] = self._restarts[key].pop(depth)
        else:
            counts[depth] = counts[depth] + 1 if depth in counts else levels[depth].start
        for deeper in [each for each in counts if each > depth]:
            del counts[deeper]
        for above in range(depth):
            counts.setdefault(above, levels[above].start if above in levels else 1)
        level = levels[depth]
        if level.form == "bullet":
            return _BULLET
        text = _PLACE.sub(lambda match: self._write(levels, counts, int(match[1]) - 1), level.text).strip()
        return f"{text} " if text else ""

    @staticmethod
    def _write(levels: Mapping[int, _Level], counts: Mapping[int, int], depth: int) -> str:
        form = levels[depth].form if depth in levels else "decimal"
        number = counts.get(depth, 1)
        return _FORMS.get(form, str)(number) if number > 0 else str(number)


def _read_levels(part: etree._Element | None) -> dict[int, _Level]:
    levels = {}
    for each in () if part is None else part.iterchildren("lvl"):
        start, form, text = (
            default if (found := each.find(name)) is None else found.get("val", default)
            for name, default in (("start", "1"), ("numFmt", "decimal"), ("lvlText", ""))
        )
        levels[_to_int(each.get("ilvl"))] = _Level(_to_int(start, 1), form, text)
    return levels


def _to_int(text: str | None, default: int = 0) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 9 else default
