"""Numbers with units in texts, compared across units with a tolerance; pint converts, ``units.toml`` has the spellings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pint

from evaluation.judge.plain_text import STOPWORDS, stem

RELATIVE_TOLERANCE = 0.01
"""Two measured quantities are the same when they differ by at most this share: 330 m and 1,083 ft differ by 0.03%."""
EQUIVALENT_TOLERANCE = 0.05
"""Within one ground truth, a value and its conversion (often rounded) may differ by this much."""
ABSOLUTE_TOLERANCE = {"percentage": 0.5, "degC": 1.0, "degF": 1.8, "clock": 0.0}
LARGE_NUMBER = 10_000
"""Counts from here on (populations, prices) are compared with the relative tolerance, smaller ones exactly."""

_TABLES = tomllib.loads(Path(__file__).with_name("units.toml").read_text(encoding="utf-8"))
_UNITS = {spelling: unit for table in _TABLES.values() for unit, spellings in table.items() for spelling in spellings}
_SPELLED = rf"(?:{'|'.join(sorted(map(re.escape, _UNITS), key=len, reverse=True))})(?:e?s)?(?![a-z])"
_CLOCK = re.compile(r"(?<![\w.:])(\d{1,2})(?:[:.](\d{2}))?\s*([ap])\.?m\b\.?|(?<![\w.:])(\d{1,2}):(\d{2})(?![\d:])")
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<sign>[$€£¥₹])?\s?(?P<value>-?\d++(?:\.\d++)?+)(?:/(?P<under>[1-9]\d*+))?+(?!(?:st|nd|rd|th|'?s)\b)"
    rf"(?:[ -]?(?P<power>square |sq |cubic )?(?!in (?!tall|long|wide|high|deep|thick|in diameter|across))(?P<unit>{_SPELLED})"
    rf"(?P<exponent>[23]\b)?(?: ?(?:/|\bper\b) ?(?P<per>{_SPELLED}))?)?(?![a-z])(?:[ -](?P<noun>[a-z]+))?"
)


@dataclass(frozen=True)
class Quantity:
    """A number in a text.

    Attributes:
        value: In units of ``unit``.
        unit: A pint unit or one of ``units.toml``'s own; ``clock`` counts minutes after midnight; None for a bare number.
        start: Where it begins in the text, in characters.
        end: Where it and its unit end.
        noun: The word after it, stemmed, for a bare number ("4 towers"); "" where there is none.
    """

    value: float
    unit: str | None
    start: int
    end: int
    noun: str = ""

    @property
    def dimension(self) -> str:
        """What may be compared with it: quantities of other dimensions neither agree nor contradict."""
        if self.unit is None:
            return "year" if 1000 <= self.value <= 2100 and self.value == int(self.value) else "number"
        return str(_registry().get_dimensionality(self.unit))

    def to(self, unit: str | None) -> float:
        """The value in another unit of its dimension."""
        return (
            self.value if unit == self.unit else float(_registry().Quantity(self.value, self.unit).to(unit).magnitude)
        )


@cache
def _registry() -> Any:
    registry: Any = pint.UnitRegistry(cache_folder=None)
    for name in _TABLES["own"]:
        registry.define(f"{name} = [{name}_]")
    return registry


def find(plain_text: str) -> list[Quantity]:
    """The quantities of a text that went through ``plain_text.plain``, in order; ordinals and decades are words, not quantities."""
    found = []
    for clock in _CLOCK.finditer(plain_text):
        hour, minute = int(clock[1] or clock[4]), int(clock[2] or clock[5] or 0)
        if hour <= 24 and minute < 60:
            hour = hour % 12 + 12 * (clock[3] == "p") if clock[3] else hour
            found.append(Quantity(hour * 60 + minute, "clock", *clock.span()))
    rest = _CLOCK.sub(lambda match: "_" * len(match[0]), plain_text)
    found += [_quantity(number) for number in _NUMBER.finditer(rest)]
    made: list[Quantity] = []
    for quantity in sorted(found, key=lambda quantity: -quantity.start):
        after = made.pop() if made else None
        made += [quantity] if after is None else _joined(quantity, after, plain_text[quantity.end : after.start])
    return made[::-1]


def _quantity(number: re.Match[str]) -> Quantity:
    unit = _UNITS[number["sign"]] if number["sign"] else _unit(number["unit"])
    if number["power"] or number["exponent"]:
        unit = f"({unit})**{number['exponent'] or (3 if number['power'] == 'cubic ' else 2)}"
    if number["per"]:
        unit = f"{unit}/({_unit(number['per'])})"
    word = number["noun"] if unit is None and number["noun"] not in STOPWORDS else None
    end = number.end() if number["noun"] is None else number.start("noun") - 1
    value = float(number["value"]) / float(number["under"] or 1)
    return Quantity(value, unit, number.start("sign" if number["sign"] else "value"), end, stem(word or ""))


def _unit(spelling: str | None) -> str | None:
    forms = (spelling or "", (spelling or "").removesuffix("s"), (spelling or "").removesuffix("es"))
    return next((_UNITS[form] for form in forms if form in _UNITS), None)


def _joined(one: Quantity, after: Quantity, between: str) -> list[Quantity]:
    """Two neighbours, the later first: one for "5 ft 10 in" and "2 hours and 30 minutes", the same unit for "10-15 years"."""
    if after.unit not in (None, "clock") and re.fullmatch(r",? ?(?:-|to|and|or)? ?", between):
        if one.unit is None and between.strip(", "):
            one = replace(one, unit=after.unit, noun="")
        elif one.unit not in (None, after.unit) and one.dimension == after.dimension and 0 < after.to(one.unit) < 1:
            return [replace(one, value=one.value + after.to(one.unit), end=after.end)]
    return [after, one]


def same(one: Quantity, other: Quantity, tolerance: float = RELATIVE_TOLERANCE) -> bool:
    """Whether two quantities agree; a bare number may stand for a price ("4.80" on a receipt for "$4.80")."""
    units = {one.unit, other.unit}
    if None in units and units & _TABLES["own"].keys() - {"percentage", "arc_degree", "clock"}:
        return one.value == other.value
    if one.dimension != other.dimension:
        return False
    difference, largest = abs(one.value - other.to(one.unit)), max(abs(one.value), abs(other.to(one.unit)))
    if one.unit is None and min(abs(one.value), abs(other.value)) < LARGE_NUMBER:
        return difference == 0
    return difference <= ABSOLUTE_TOLERANCE.get(str(one.unit), tolerance * largest)


def agrees_with_any(quantity: Quantity, others: Iterable[Quantity]) -> bool:
    """Whether a quantity agrees with one of ``others``."""
    return any(same(quantity, other) for other in others)
