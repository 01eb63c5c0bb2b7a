"""Numbers with units in answers, compared across units with a tolerance (pint converts)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pint

from evaluation.judge.plain_text import STOPWORDS, stem

RELATIVE_TOLERANCE = 0.01
"""Two measured quantities are the same when they differ by at most this share: 330 m and 1,083 ft differ by 0.03%."""

EQUIVALENT_TOLERANCE = 0.05
"""Within one ground truth, a value and its conversion (often rounded) may differ by this much."""

TEMPERATURE_TOLERANCE = 1.0
PERCENT_TOLERANCE = 0.5
LARGE_NUMBER = 10_000
"""Counts from here on (populations, prices) are compared with the relative tolerance, smaller ones exactly."""

_LENGTHS = {
    "mm": "millimetre", "cm": "centimetre", "m": "metre", "km": "kilometre", "in": "inch", "ft": "foot", "yd": "yard", "mi": "mile",
    "millimetre": "millimetre", "millimeter": "millimetre", "centimetre": "centimetre", "centimeter": "centimetre",
    "metre": "metre", "meter": "metre", "kilometre": "kilometre", "kilometer": "kilometre",
    "inch": "inch", "inche": "inch", "foot": "foot", "feet": "foot", "yard": "yard", "mile": "mile",
}  # fmt: skip
_UNITS = {
    **_LENGTHS,
    "nautical mile": "nautical_mile", "light year": "light_year", "hectare": "hectare", "ha": "hectare", "acre": "acre",
    "l": "litre", "litre": "litre", "liter": "litre", "ml": "millilitre", "millilitre": "millilitre", "milliliter": "millilitre",
    "cc": "cm**3", "gallon": "gallon", "pint": "pint", "cup": "cup", "fl oz": "fluid_ounce", "fluid ounce": "fluid_ounce",
    "mg": "milligram", "milligram": "milligram", "g": "gram", "gram": "gram", "gramme": "gram", "kg": "kilogram",
    "kilogram": "kilogram", "kilo": "kilogram", "t": "metric_ton", "tonne": "metric_ton", "ton": "metric_ton",
    "metric ton": "metric_ton", "lb": "pound", "pound": "pound", "oz": "ounce", "ounce": "ounce",
    "km/h": "km/hour", "kmh": "km/hour", "kph": "km/hour", "kilometre per hour": "km/hour", "kilometer per hour": "km/hour",
    "mph": "mile/hour", "mile per hour": "mile/hour", "m/s": "metre/second", "metre per second": "metre/second",
    "meter per second": "metre/second", "knot": "knot",
    "second": "second", "sec": "second", "minute": "minute", "min": "minute", "hour": "hour", "hr": "hour", "day": "day",
    "week": "week", "month": "month", "year": "year", "yr": "year", "decade": "decade", "century": "century",
    "°c": "degC", "degree celsiu": "degC", "degree centigrade": "degC", "celsiu": "degC", "°f": "degF",
    "degree fahrenheit": "degF", "fahrenheit": "degF", "degree": "degree", "°": "degree",
    "hp": "horsepower", "bhp": "horsepower", "horsepower": "horsepower", "kw": "kilowatt", "kilowatt": "kilowatt",
    "watt": "watt", "w": "watt", "mw": "megawatt", "megawatt": "megawatt", "kwh": "kilowatt_hour",
    "kcal": "kilocalorie", "calorie": "kilocalorie", "kj": "kilojoule", "gb": "gigabyte", "mb": "megabyte", "tb": "terabyte",
    "hz": "hertz", "khz": "kilohertz", "mhz": "megahertz", "ghz": "gigahertz", "psi": "psi", "bar": "bar", "kpa": "kilopascal",
    "v": "volt", "volt": "volt",
    **{f"{word} {name}": f"{unit}**2" for word in ("square", "sq") for name, unit in _LENGTHS.items()},
    **{f"cubic {name}": f"{unit}**3" for name, unit in _LENGTHS.items()},
    **{f"{name}2": f"{unit}**2" for name, unit in _LENGTHS.items()},
    **{f"{name}3": f"{unit}**3" for name, unit in _LENGTHS.items()},
}  # fmt: skip
_PLAIN_UNITS = {
    "%": "%", "percent": "%", "per cent": "%", "dollar": "USD", "us dollar": "USD", "usd": "USD", "euro": "EUR", "eur": "EUR",
    "pound sterling": "GBP", "gbp": "GBP", "yen": "JPY", "jpy": "JPY", "yuan": "CNY", "rmb": "CNY", "rupee": "INR", "cent": "cent",
}  # fmt: skip
_CURRENCIES = frozenset({"USD", "EUR", "GBP", "JPY", "CNY", "INR"})
_CURRENCY_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}

_CLOCK = re.compile(r"(?<![\w.:])(\d{1,2})(?:[:.](\d{2}))?\s*([ap])\.?m\b\.?|(?<![\w.:])(\d{1,2}):(\d{2})(?![\d:])")
_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>[$€£¥₹])?\s?(?P<value>-?\d+(?:\.\d+)?)(?:/(?P<under>\d+)(?!\d))?(?P<tail>(?:st|nd|rd|th)\b|'?s\b|[a-z]+\d*\b)?"
)
_UNIT_WORDS = re.compile(r"[ -]?(?:(?P<sign>%|°\s?[cf]?\b)|(?P<words>[a-z/]+[23]?(?:[ -][a-z/]+[23]?){0,2}))")
_INCH_FOLLOWS = re.compile(r"\s*(?:$|[).,;]|tall|long|wide|high|deep|thick|in diameter|across)")


@dataclass(frozen=True)
class Quantity:
    """A number in a text.

    Attributes:
        value: In units of ``unit``.
        unit: A pint unit, a currency code, ``%``, ``clock`` (minutes after midnight), or None for a bare number.
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
        if self.unit in _PLAIN_UNITS.values() or self.unit == "clock":
            return self.unit
        return str(_registry().get_dimensionality(self.unit)) + ("angle" if self.unit == "degree" else "")


@cache
def _registry() -> Any:
    return pint.UnitRegistry(cache_folder=None)


def find(plain_text: str) -> list[Quantity]:
    """The quantities of a text that went through ``plain_text.plain``, in order; ordinals and decades are words, not quantities."""
    found = []
    taken: list[tuple[int, int]] = []
    for clock in _CLOCK.finditer(plain_text):
        hour, minute = int(clock[1] or clock[4]), int(clock[2] or clock[5] or 0)
        if clock[3]:
            hour = hour % 12 + (12 if clock[3] == "p" else 0)
        if hour <= 24 and minute < 60:
            found.append(Quantity(hour * 60 + minute, "clock", *clock.span()))
            taken.append(clock.span())
    for number in _NUMBER.finditer(plain_text):
        if any(start < number.end() and number.start() < end for start, end in taken):
            continue
        quantity = _quantity(plain_text, number)
        if quantity is not None:
            found.append(quantity)
    return _merge_compounds(_share_units(sorted(found, key=lambda quantity: quantity.start), plain_text), plain_text)


def _share_units(quantities: Sequence[Quantity], text: str) -> list[Quantity]:
    """Give the unit of a range to its first number: 10-15 years, between 3 and 5 kg."""
    shared: list[Quantity] = []
    for quantity in reversed(quantities):
        after = shared[-1] if shared else None
        if (
            after is not None
            and quantity.unit is None
            and after.unit not in (None, "clock")
            and re.fullmatch(r" ?(?:-|to|and|or) ?", text[quantity.end : after.start])
        ):
            quantity = replace(quantity, unit=after.unit, noun="")
        shared.append(quantity)
    return shared[::-1]


def _quantity(text: str, number: re.Match[str]) -> Quantity | None:
    value = float(number["value"])
    if number["under"] and float(number["under"]):
        value /= float(number["under"])
    tail = number["tail"] or ""
    if tail in {"st", "nd", "rd", "th", "s", "'s"}:
        return None
    end = number.end() - len(tail)
    unit, unit_end = _unit_after(text, end)
    if tail and unit is None:
        return None  # a name such as 4x4 or 3d
    if number["sign"]:
        unit, unit_end = _CURRENCY_SIGNS[number["sign"]], max(end, unit_end if unit in _PLAIN_UNITS.values() else end)
    noun = ""
    if unit is None:
        following = re.match(r"[ -]([a-z]+)", text[end:])
        noun = stem(following[1]) if following and following[1] not in STOPWORDS else ""
    return Quantity(value, unit, number.start("sign") if number["sign"] else number.start("value"), unit_end, noun)


def _unit_after(text: str, position: int) -> tuple[str | None, int]:
    match = _UNIT_WORDS.match(text, position)
    if match is None:
        return None, position
    if match["sign"]:
        sign = match["sign"].replace(" ", "")
        return _PLAIN_UNITS.get(sign) or _UNITS.get(sign), match.end()
    words = re.split(r"[ -]", match["words"])
    for count in range(len(words), 0, -1):
        name = " ".join([*words[: count - 1], _stem(words[count - 1])])
        first_stemmed = " ".join([_stem(words[0]), *words[1:count]])  # miles per hour
        each_stemmed = " ".join(_stem(word) for word in words[:count])  # degrees celsius
        spellings = (name, first_stemmed, each_stemmed)
        unit = next((found for key in spellings if (found := _UNITS.get(key) or _PLAIN_UNITS.get(key))), None)
        if unit is None:
            continue
        end = match.start("words") + len(" ".join(words[:count]))
        if name == "in" and not _INCH_FOLLOWS.match(text, end):
            continue
        return unit, end
    return None, position


def _stem(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word


def _merge_compounds(quantities: Sequence[Quantity], text: str) -> list[Quantity]:
    """Add up "5 ft 10 in", "2 hours and 30 minutes"."""
    merged: list[Quantity] = []
    for quantity in quantities:
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.unit not in (None, "clock", quantity.unit)
            and quantity.unit not in (None, "degC", "degF")
            and last.dimension == quantity.dimension
            and re.fullmatch(r",? ?(?:and )?", text[last.end : quantity.start])
            and quantity.value > 0
        ):
            extra = _convert(quantity, str(last.unit))
            if 0 < extra < 1:
                merged[-1] = Quantity(last.value + extra, last.unit, last.start, quantity.end)
                continue
        merged.append(quantity)
    return merged


def _convert(quantity: Quantity, unit: str) -> float:
    return float(_registry().Quantity(quantity.value, quantity.unit).to(unit).magnitude)


def same(one: Quantity, other: Quantity, tolerance: float = RELATIVE_TOLERANCE) -> bool:
    """Whether two quantities agree; a bare number may stand for a price ("4.80" on a receipt for "$4.80")."""
    if (one.unit is None) != (other.unit is None) and (one.unit or other.unit) in _CURRENCIES:
        return one.value == other.value
    if one.dimension != other.dimension:
        return False
    if one.unit is None:
        if min(abs(one.value), abs(other.value)) < LARGE_NUMBER:
            return one.value == other.value
    elif one.unit == "clock":
        return one.value == other.value
    elif one.unit == "%":
        return abs(one.value - other.value) <= PERCENT_TOLERANCE
    elif one.unit in {"degC", "degF"}:
        return abs(_convert(one, "degC") - _convert(other, "degC")) <= TEMPERATURE_TOLERANCE
    value = _convert(other, one.unit) if one.unit is not None and one.unit != other.unit else other.value
    return abs(one.value - value) <= tolerance * max(abs(one.value), abs(value))


def agrees_with_any(quantity: Quantity, others: Iterable[Quantity]) -> bool:
    """Whether a quantity agrees with one of ``others``."""
    return any(same(quantity, other) for other in others)
