"""Computing with facts in words: quantities with units, ranges and dates out of short answers, and what is made of them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import pint

from agents.methods.step_plans import Operation

Bound = Literal["low", "high", "middle"]
"""Which number of a range counts: of what is asked for at least, at most, or neither."""

_NUMBER = r"\d{1,3}(?:[,\u202f ]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"
_MONEY = r"[$€£¥]"
_QUANTITY = re.compile(
    rf"(?P<sign>{_MONEY}\s?)?(?P<low>{_NUMBER})(?:\s?(?:-|–|—|to|and)\s?(?:{_MONEY}\s?)?(?P<high>{_NUMBER}))?"
    r"\s?(?P<unit>[A-Za-z°%/²³]+(?:\s(?:per|an?)\s[A-Za-z]+)?)?"
)
_YEAR = re.compile(r"\b(?P<year>1\d{3}|20\d{2})\b|\b(?P<early>\d{1,4})\s?(?P<era>BC|BCE|AD|CE)\b")
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ),
        1,
    )
    for name in (names, names[:3])
}
_MONTH = re.compile(rf"\b({'|'.join(_MONTHS)})\b", re.IGNORECASE)
_DAY = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)?\b(?!\d)")


class ComputationError(ValueError):
    """The facts do not hold what the operation needs; the message says what is missing."""


@dataclass(frozen=True)
class Quantity:
    """A number with its unit as pint knows it, or with a word that is no unit ("eggs"); ``money``: its sign."""

    value: float
    unit: str = ""
    money: str = ""

    def __str__(self) -> str:
        """As it is written in an answer."""
        number = (
            f"{self.value:,.2f}"
            if self.money
            else f"{self.value:,.4g}"
            if abs(self.value) < 1e4
            else f"{self.value:,.0f}"
        )
        return f"{self.money}{number}{f' {self.unit}' if self.unit else ''}"


@lru_cache(maxsize=1)
def _units() -> pint.UnitRegistry[float]:
    return pint.UnitRegistry()


def quantity(text: str, bound: Bound = "middle") -> Quantity:
    """The first quantity of a short answer; of a range ("8-13 eggs") the bound that counts.

    Raises:
        ComputationError: The answer holds no number.
    """
    found = next((each for each in _QUANTITY.finditer(text.replace("\u00a0", " "))), None)
    if found is None:
        raise ComputationError(f"no number in {text!r}")
    low = _number(found["low"])
    high = _number(found["high"]) if found["high"] else low
    value = {"low": min(low, high), "high": max(low, high), "middle": (low + high) / 2}[bound]
    unit = (found["unit"] or "").strip()
    if unit.lower() in ("to", "and", "or", "in", "at", "by", "from", "of", "years old"):
        unit = ""
    return Quantity(value, unit, (found["sign"] or "").strip())


def _number(text: str) -> float:
    return float(re.sub(r"[,\u202f ]", "", text))


def date_of(text: str) -> tuple[int, int, int]:
    """Year, month and day of a date, 0 for what it does not say; years before Christ are negative.

    Raises:
        ComputationError: There is no year.
    """
    found = _YEAR.search(text)
    if found is None:
        raise ComputationError(f"no year in {text!r}")
    year = int(found["year"] or found["early"])
    if found["era"] in ("BC", "BCE"):
        year = -year
    rest = text[: found.start()] + text[found.end() :]
    month = _MONTH.search(rest)
    day = _DAY.search(rest) if month else None
    return year, _MONTHS[month.group(1).lower()] if month else 0, int(day.group(1)) if day else 0


def arithmetic(operation: Operation, facts: Sequence[str], bound: Bound = "middle") -> Quantity:
    """Sum, difference, product or ratio of quantities, in the unit of the first one.

    Raises:
        ComputationError: A fact holds no number, the units do not go together, or it would be divided by zero.
    """
    quantities = [quantity(fact, bound) for fact in facts]
    first = quantities[0]
    money = next((each.money for each in quantities if each.money), "")
    if operation in ("sum", "difference"):
        values = [first.value, *(_in(each, first) for each in quantities[1:])]
        if operation == "sum":
            return Quantity(math.fsum(values), first.unit, money)
        return Quantity(abs(values[0] - math.fsum(values[1:])), first.unit, money)
    values = [each.value for each in quantities]
    if operation == "product":
        return Quantity(math.prod(values), next((each.unit for each in quantities if each.unit), ""), money)
    divisor = _in(quantities[1], first) if first.unit else quantities[1].value
    if len(values) != 2 or divisor == 0:
        raise ComputationError("a ratio is of two numbers, the second not 0")
    return Quantity(first.value / divisor)


def _in(one: Quantity, other: Quantity) -> float:
    """The value of a quantity in the unit of another; words that are no units count as they are."""
    if not one.unit or not other.unit or one.unit == other.unit:
        return one.value
    units = _units()
    try:
        return float(units.Quantity(one.value, one.unit).to(other.unit).magnitude)
    except pint.DimensionalityError as error:
        raise ComputationError(f"{one} and {other} are not of one kind") from error
    except Exception:  # noqa: BLE001 - pint raises errors of a dozen kinds on words that are no units: "eggs", "fruits per"
        return one.value


def ordered(operation: Operation, facts: Sequence[str]) -> list[int]:
    """Places of the facts, the one that is larger, smaller, earlier or later than all others first.

    Raises:
        ComputationError: A fact holds no number or date, units do not go together, or the first two are alike.
    """
    keys: list[tuple[float, ...]]
    if operation in ("earlier", "later"):
        keys = [tuple(map(float, date_of(fact))) for fact in facts]
    else:
        quantities = [quantity(fact) for fact in facts]
        keys = [(_in(each, quantities[0]),) for each in quantities]
    found = sorted(range(len(facts)), key=lambda place: keys[place], reverse=operation in ("larger", "later"))
    if keys[found[0]] == keys[found[1]]:
        raise ComputationError("they are alike")
    return found
