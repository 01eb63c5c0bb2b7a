"""Numbers with units in texts, compared across units with a tolerance. pint converts; ``units.toml`` has the spellings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pint

from agents.english.figure_spelling import format_decimal
from agents.english.plain_text import counts_nothing, stem

RELATIVE_TOLERANCE = 0.01
"""Largest share by which two equal measured quantities differ: 330 m and 1,083 ft differ by 0.03%."""
EQUIVALENT_TOLERANCE = 0.05
"""Largest share by which a value and its conversion (often rounded) differ within one ground truth."""
ABSOLUTE_TOLERANCE = {"percentage": 0.5, "degC": 1.0, "degF": 1.8, "clock": 0.0}
LARGE_NUMBER = 10_000
"""Counts from here on (populations, prices) are compared with the relative tolerance, smaller ones exactly."""
SIGNS = "$€£¥₹"
"""Signs of money, before a number."""

_TABLES = tomllib.loads(Path(__file__).with_name("units.toml").read_text(encoding="utf-8"))
_UNITS = {spelling: unit for table in _TABLES.values() for unit, spellings in table.items() for spelling in spellings}
_WORD = "[a-zμ°%][a-z/]*[23]?"
_VALUE = r"(?:\d++(?:\.\d++)?+|\.\d++)(?!(?:st|nd|rd|th|'?s)\b)"
_NUMBER = re.compile(
    rf"(?:\b(?P<bound>over|under) )?(?<![\w.])(?P<name>(?<=[a-z]-))?(?P<sign>[{SIGNS}])?\s?(?P<value>-?{_VALUE})\+?"
    rf"(?=(?:[ -]?(?P<words>{_WORD}(?: {_WORD}){{0,3}}))?)",
    re.IGNORECASE,
)
_RANGE = re.compile(
    rf"(?<![\w.])({_VALUE}),? ?(-|to|and|or) ?(?=-?{_VALUE}[ -]?({_WORD}(?: {_WORD}){{0,3}}))", re.IGNORECASE
)
_FEET_AND_INCHES = re.compile(r"\b(\d+) ?(?:ft|foot|feet),? ?(?:and )?(\d+) ?inch(?:es)?\b", re.IGNORECASE)
_INCH = re.compile(
    r"(?<=\d)[ -]?in\b(?! (?!(?:to|tall|long|wide|high|deep|thick|across)\b|in diameter))", re.IGNORECASE
)
_BOUNDS = {
    **dict.fromkeys(("no less than", "more than", "at least", "above"), "over"),
    **dict.fromkeys(("no more than", "less than", "fewer than", "at most", "below"), "under"),
}
_BOUND = re.compile(rf"\b({'|'.join(_BOUNDS)})(?: about)?(?= ?[{SIGNS}]?\d)", re.IGNORECASE)
_MINUS = re.compile(r"\bminus (?=[.\d])", re.IGNORECASE)
_FRACTION = re.compile(rf"(?<![\w./])(\d+)/(\d+)(?=[ -]?({_WORD}(?: {_WORD}){{0,3}}))", re.IGNORECASE)
_CLOCK = re.compile(
    r"(?<![\w.:])(\d{1,2})(?:[:.](\d{2}))?\s*([ap])\.?m\b\.?|(?<![\w.:])(\d{1,2}):(\d{2})(?![\d:])", re.IGNORECASE
)


@dataclass(frozen=True)
class Quantity:
    """A number in a text with its unit and bound.

    Attributes:
        unit: A unit of pint or of ``units.toml``; None: a bare number.
        text: The number as written, with unit and bound.
        words: Its unit as written, or the word after a bare number ("4 towers"), or "".
        bound: "over", "under" or "".
        start: Where ``text`` begins.
        end: Where it ends.
        is_in_name: Whether it follows a letter and a hyphen, as in "F-22".
        range_end: "low" or "high" for the ends of a range ("8-13 eggs"), else "".
    """

    value: float
    unit: str | None
    text: str
    words: str = ""
    bound: str = ""
    start: int = 0
    end: int = 0
    is_in_name: bool = False
    range_end: Literal["", "low", "high"] = ""

    @property
    def noun(self) -> str:
        """Noun that a bare number counts, stemmed, or ""."""
        return "" if self.unit else stem(self.words)

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
        registry.define("cent = USD / 100" if name == "cent" else f"{name} = [{name}_]")
    return registry


def normalise_quantities(plain_text: str) -> str:
    """Rewrite a plain text so that its quantities have one form.

    Fractions of a unit become decimals ("1/2 m", while "9/11" remains). Times of day become minutes past midnight, feet and inches become
    inches, both ends of a range get a unit, and bounds are "over" or "under".
    """
    text = _FRACTION.sub(_divide, _INCH.sub(" inches", _CLOCK.sub(_to_minutes, plain_text)))
    text = _FEET_AND_INCHES.sub(lambda match: f"{12 * int(match[1]) + int(match[2])} inches", text)
    text = _BOUND.sub(lambda match: _BOUNDS[match[1].lower()], text)
    text = _MINUS.sub("-", text)
    return _RANGE.sub(_repeat_unit, text)


def _divide(fraction: re.Match[str]) -> str:
    numerator, denominator = int(fraction[1]), int(fraction[2])
    proper = 0 < numerator < denominator and _find_unit(fraction[3])
    return format_decimal(numerator / denominator) if proper else fraction[0]


def _to_minutes(clock: re.Match[str]) -> str:
    hour, minute = int(clock[1] or clock[4]), int(clock[2] or clock[5] or 0)
    hour = hour % 12 + 12 * (clock[3].lower() == "p") if clock[3] else hour
    return f"{hour * 60 + minute} minutes past midnight"


def _repeat_unit(ends: re.Match[str]) -> str:
    """Write the unit of a range behind both of its ends: "2 m to 3 m"."""
    unit = _find_unit(ends[3])
    return f"{ends[1]} {unit} {ends[2].replace('-', 'to')} " if unit else ends[0]


def _find_unit(words: str) -> str:
    """Return the longest beginning of the words after a number that is a unit, or "".

    A unit has its plural too ("metres", "inches").
    """
    parts = words.split(" ")
    return next(
        (name for count in range(len(parts), 0, -1) if _get_unit(name := " ".join(parts[:count])) is not None), ""
    )


def _get_unit(spelling: str) -> str | None:
    """Return the unit of a spelling; None for other words."""
    lower = spelling.lower()
    forms = (spelling, lower, lower.removesuffix("s"), lower.removesuffix("es"))
    return None if lower == "has" else next((_UNITS[form] for form in forms if form in _UNITS), None)


def find_quantities(regular_text: str) -> list[Quantity]:
    """Find the quantities of a ``normalise_quantities`` text, in order; ordinals and decades are words."""
    parsed = (_parse_quantity(number) for number in _NUMBER.finditer(regular_text))
    quantities = [quantity for quantity in parsed if quantity is not None]
    for place, (low, high) in enumerate(pairwise(quantities)):
        between = regular_text[low.end : high.start].strip()
        is_between = between == "and" and "between" in regular_text[max(low.start - 20, 0) : low.start].lower()
        if is_between or between in ("-", "to", "-to-"):
            quantities[place : place + 2] = replace(low, range_end="low"), replace(high, range_end="high")
    return quantities


def _parse_quantity(number: re.Match[str]) -> Quantity | None:
    """Parse a number; None if it is the beginning of a word ("3d")."""
    words, end = number["words"] or "", number.end()
    unit_words = _find_unit(words)
    if words and number.start("words") == end and not unit_words:
        return None
    noun = words.partition(" ")[0]
    counted = noun if noun.isalpha() and not counts_nothing(noun.lower()) else ""
    spelling = number["sign"] or unit_words
    if unit_words:
        end = number.start("words") + len(unit_words)
    value = float(number["value"])
    unit, text = _get_unit(spelling) if spelling else None, number.string[number.start() : end].strip(" -")
    return Quantity(
        value,
        unit,
        text,
        spelling or counted,
        (number["bound"] or "").lower(),
        number.start(),
        end,
        is_in_name=number["name"] is not None,
    )


def convert(quantity: Quantity, unit: str | None) -> float | None:
    """Convert a quantity to a unit; None if the unit is of another dimension."""
    if quantity.unit == unit:
        return quantity.value
    registry = _registry()
    if None in (quantity.unit, unit) or registry.get_dimensionality(unit) != registry.get_dimensionality(quantity.unit):
        return None
    return float(registry.Quantity(quantity.value, quantity.unit).to(unit).magnitude)


def is_same_quantity(one: Quantity, other: Quantity, tolerance: float = RELATIVE_TOLERANCE) -> bool:
    """Return whether two quantities agree.

    A bare number may be a price ("4.80" on a receipt for "$4.80").
    """
    units = {one.unit, other.unit}
    if {one.bound, other.bound} == {"over", "under"}:
        return False
    if None in units and units & _TABLES["own"].keys() - {"percentage", "arc_degree", "clock"}:
        return one.value == other.value
    value = convert(other, one.unit)
    if value is None or one.dimension != other.dimension:
        return False
    exact = one.unit is None and min(abs(one.value), abs(value)) < LARGE_NUMBER
    allowed = 0 if exact else tolerance * max(abs(one.value), abs(value))
    return abs(one.value - value) <= ABSOLUTE_TOLERANCE.get(str(one.unit), allowed)


def agrees_with_any(quantity: Quantity, others: Iterable[Quantity]) -> bool:
    """Return whether a quantity agrees with one of ``others``."""
    return any(is_same_quantity(quantity, other) for other in others)
