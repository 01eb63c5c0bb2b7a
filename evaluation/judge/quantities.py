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
_SPELLINGS = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_UNIT = rf"(?!in (?!tall|long|wide|high|deep|thick|in diameter|across))(?:{_SPELLINGS})(?:e?s)?(?![a-z0-9/])"
_VALUE = r"\d++(?:\.\d++)?+(?!(?:st|nd|rd|th|'?s)\b)"
_NUMBER = re.compile(
    rf"(?<![\w.])(?P<sign>[$€£¥₹])?\s?(?P<value>-?{_VALUE})(?:[ -]?(?P<unit>{_UNIT}))?(?![a-z])(?:[ -](?P<noun>[a-z]+))?"
)
_RANGE = re.compile(rf"(?<![\w.])({_VALUE}),? ?(-|to|and|or) ?(?={_VALUE}[ -]?({_UNIT}))")
_CLOCK = re.compile(r"(?<![\w.:])(\d{1,2})(?:[:.](\d{2}))?\s*([ap])\.?m\b\.?|(?<![\w.:])(\d{1,2}):(\d{2})(?![\d:])")


@dataclass(frozen=True)
class Quantity:
    """A number in a text.

    Attributes:
        value: In units of ``unit``.
        unit: A pint unit or one of ``units.toml``'s own; None for a bare number.
        text: The number and its unit as they stand.
        noun: The word after a bare number, stemmed ("4 towers"); "" where there is none.
    """

    value: float
    unit: str | None
    text: str
    noun: str = ""

    @property
    def dimension(self) -> str:
        """What may be compared with it: quantities of other dimensions neither agree nor contradict."""
        if self.unit is None:
            return "year" if 1000 <= self.value <= 2100 and self.value == int(self.value) else "number"
        return str(_registry().get_dimensionality(self.unit))

    def to(self, unit: str | None) -> float:
        """The value in another unit of its dimension."""
        if unit == self.unit:
            return self.value
        return float(_registry().Quantity(self.value, self.unit).to(unit).magnitude)

    def is_part_of(self, whole: Quantity) -> bool:
        """Whether it is less than one unit of ``whole``: the inches of "5 ft 10 in"."""
        units = {self.unit, whole.unit} - {None, "clock"}
        return len(units) == 2 and self.dimension == whole.dimension and 0 < self.to(whole.unit) < 1


@cache
def _registry() -> Any:
    registry: Any = pint.UnitRegistry(cache_folder=None)
    for name in _TABLES["own"]:
        registry.define(f"{name} = [{name}_]")
    return registry


def regular(plain_text: str) -> str:
    """The text with times of day in minutes past midnight, and with a unit at both ends of a range: "10 years to 15 years"."""
    return _RANGE.sub(lambda m: f"{m[1]} {m[3]} {m[2].replace('-', 'to')} ", _CLOCK.sub(_minutes, plain_text))


def _minutes(clock: re.Match[str]) -> str:
    hour, minute = int(clock[1] or clock[4]), int(clock[2] or clock[5] or 0)
    hour = hour % 12 + 12 * (clock[3] == "p") if clock[3] else hour
    return f"{hour * 60 + minute} minutes past midnight" if hour <= 24 and minute < 60 else clock[0]


def find(regular_text: str) -> list[Quantity]:
    """The quantities of a ``regular`` text in order, "5 ft 10 in" as one; ordinals and decades are words, not quantities."""
    found: list[Quantity] = []
    end = 0
    for number in _NUMBER.finditer(regular_text):
        unit = _UNITS[number["sign"]] if number["sign"] else number["unit"] and _pint_name(number["unit"])
        noun = stem(number["noun"]) if number["noun"] and not unit and number["noun"] not in STOPWORDS else ""
        quantity = Quantity(float(number["value"]), unit, number[0].removesuffix(number["noun"] or "").strip(" -"), noun)
        if found and re.fullmatch(r",? ?(?:and )?", regular_text[end : number.start()]) and quantity.is_part_of(found[-1]):
            whole = found.pop()
            quantity = replace(whole, value=whole.value + quantity.to(whole.unit), text=f"{whole.text} {quantity.text}")
        found.append(quantity)
        end = max(number.end("unit"), number.end("value"))
    return found


def _pint_name(spelling: str) -> str:
    forms = (spelling, spelling.removesuffix("s"), spelling.removesuffix("es"))
    return next(_UNITS[form] for form in forms if form in _UNITS)


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
