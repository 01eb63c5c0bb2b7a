"""Numbers with units in texts, compared across units with a tolerance. pint converts; ``units.toml`` has the spellings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pint

from evaluation.judge.plain_text import STOPWORDS, stem

RELATIVE_TOLERANCE = 0.01
"""Largest share by which two equal measured quantities differ: 330 m and 1,083 ft differ by 0.03%."""
EQUIVALENT_TOLERANCE = 0.05
"""Largest share by which a value and its conversion (often rounded) differ within one ground truth."""
ABSOLUTE_TOLERANCE = {"percentage": 0.5, "degC": 1.0, "degF": 1.8, "clock": 0.0}
LARGE_NUMBER = 10_000
"""Counts from here on (populations, prices) are compared with the relative tolerance, smaller ones exactly."""

_TABLES = tomllib.loads(Path(__file__).with_name("units.toml").read_text(encoding="utf-8"))
_UNITS = {spelling: unit for table in _TABLES.values() for unit, spellings in table.items() for spelling in spellings}
_SPELLINGS = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_UNIT = rf"(?!has\b)(?:{_SPELLINGS})(?:e?s)?(?![a-z0-9/])"
_VALUE = r"\d++(?:\.\d++)?+(?!(?:st|nd|rd|th|'?s)\b)"
_NUMBER = re.compile(
    rf"(?:\b(?P<bound>over|under) )?(?<![\w.])(?P<sign>[$€£¥₹])?\s?(?P<value>-?{_VALUE})(?:[ -]?(?P<unit>{_UNIT}))?(?![a-z])"
    r"(?:[ -](?P<noun>[a-z]+))?"
)
_RANGE = re.compile(rf"(?<![\w.])({_VALUE}),? ?(-|to|and|or) ?(?={_VALUE}[ -]?({_UNIT}))")
_FEET_AND_INCHES = re.compile(r"\b(\d+) ?(?:ft|foot|feet),? ?(?:and )?(\d+) ?inch(?:es)?\b")
_INCH = re.compile(r"(?<=\d)[ -]?in\b(?! (?!(?:to|tall|long|wide|high|deep|thick|across)\b|in diameter))")
_BOUNDS = (
    (re.compile(r"\b(?:no less than|(?:more|greater) than|at least|above|exceeding)(?= ?[$€£¥₹]?\d)"), "over"),
    (re.compile(r"\b(?:no more than|(?:less|fewer) than|at most|below)(?= ?[$€£¥₹]?\d)"), "under"),
    (re.compile(r"\bno (?:more|less) than\b"), ""),
)
_CLOCK = re.compile(r"(?<![\w.:])(\d{1,2})(?:[:.](\d{2}))?\s*([ap])\.?m\b\.?|(?<![\w.:])(\d{1,2}):(\d{2})(?![\d:])")


@dataclass(frozen=True)
class Quantity:
    """A number in a text with its unit and bound.

    Attributes:
        unit: A unit of pint or of ``units.toml``; None: a bare number.
        text: The number as it stands, with unit and bound.
        noun: Word after a bare number, stemmed ("4 towers"), or "".
        bound: "over", "under" or "".
    """

    value: float
    unit: str | None
    text: str
    noun: str = ""
    bound: str = ""

    @property
    def dimension(self) -> str:
        """Dimension; quantities of different dimensions neither agree nor contradict."""
        if self.unit is None:
            return "year" if 1000 <= self.value <= 2100 and self.value == int(self.value) else "number"
        return str(_registry().get_dimensionality(self.unit))


@cache
def _registry() -> Any:
    registry: Any = pint.UnitRegistry(cache_folder=None)
    for name in _TABLES["own"]:
        registry.define(f"{name} = [{name}_]")
    return registry


def normalise_quantities(plain_text: str) -> str:
    """Rewrite a plain text so that its quantities have one form.

    Times of day become minutes past midnight, feet and inches become inches, both ends of a range get a unit, and bounds are "over" or
    "under".
    """
    text = _INCH.sub(" inch", _CLOCK.sub(_to_minutes, plain_text))
    text = _FEET_AND_INCHES.sub(lambda match: f"{12 * int(match[1]) + int(match[2])} inch", text)
    for pattern, bound in _BOUNDS:
        text = pattern.sub(bound, text)
    return _RANGE.sub(lambda match: f"{match[1]} {match[3]} {match[2].replace('-', 'to')} ", text)


def _to_minutes(clock: re.Match[str]) -> str:
    hour, minute = int(clock[1] or clock[4]), int(clock[2] or clock[5] or 0)
    hour = hour % 12 + 12 * (clock[3] == "p") if clock[3] else hour
    return f"{hour * 60 + minute} minutes past midnight"


def find_quantities(regular_text: str) -> list[Quantity]:
    """Find the quantities of a ``normalise_quantities`` text, in order; ordinals and decades are words."""
    return [_parse_quantity(number) for number in _NUMBER.finditer(regular_text)]


def _parse_quantity(number: re.Match[str]) -> Quantity:
    spelling, noun = number["sign"] or number["unit"] or "", number["noun"] or ""
    forms = (spelling, spelling.removesuffix("s"), spelling.removesuffix("es"))
    unit = next((_UNITS[form] for form in forms if form in _UNITS), None)
    counted = "" if unit or noun in STOPWORDS else stem(noun)
    return Quantity(
        float(number["value"]), unit, number[0].removesuffix(noun).strip(" -"), counted, number["bound"] or ""
    )


def is_same_quantity(one: Quantity, other: Quantity, tolerance: float = RELATIVE_TOLERANCE) -> bool:
    """Return whether two quantities agree.

    A bare number may stand for a price ("4.80" on a receipt for "$4.80").
    """
    units = {one.unit, other.unit}
    if {one.bound, other.bound} == {"over", "under"}:
        return False
    if None in units and units & _TABLES["own"].keys() - {"percentage", "arc_degree", "clock"}:
        return one.value == other.value
    if one.dimension != other.dimension:
        return False
    value, exact = other.value, one.unit is None and min(abs(one.value), abs(other.value)) < LARGE_NUMBER
    if other.unit != one.unit:
        value = float(_registry().Quantity(value, other.unit).to(one.unit).magnitude)
    allowed = 0 if exact else tolerance * max(abs(one.value), abs(value))
    return abs(one.value - value) <= ABSOLUTE_TOLERANCE.get(str(one.unit), allowed)


def agrees_with_any(quantity: Quantity, others: Iterable[Quantity]) -> bool:
    """Return whether a quantity agrees with one of ``others``."""
    return any(is_same_quantity(quantity, other) for other in others)
