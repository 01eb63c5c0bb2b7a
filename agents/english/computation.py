"""Parses quantities and ranges in short answers, in units by pint, and computes with them."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, get_args

import pint

from agents.english.dates import NO_UNIT, Day, Span, is_date, move, parse_day
from agents.english.number_forms import replace_number_words
from agents.english.step_plans import DECIMAL_COMMA, Condition, Operation, parse_calculation
from agents.texts.text import has_words

Bound = Literal["low", "high", "middle"]
"""Which number of a range counts: of what is asked for at least, at most, or neither."""

_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
SCALE = rf"(?:{'|'.join(_SCALES)})\b"
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+,\d{1,2}(?!\d)|\d+(?:\.\d+)?|\.\d+"
_MINUS = r"(?:[-−](?=[\d.$€£])|minus\s)"
_UNIT = r"[A-Za-z°%µ²³/]+"
_QUANTITY = re.compile(
    rf"(?P<minus>(?<![\w)]){_MINUS})?(?P<sign>[$€£]\s?)?(?<![A-Za-z\d])(?<![A-Za-z]-)(?P<low>{_NUMBER})(?:\s?(?P<scale>{SCALE}))?"
    rf"(?:(?:-to-|\s?(?:-|–|—|to|and)\s?)(?P<high_minus>{_MINUS})?(?:[$€£]\s?)?(?P<high>{_NUMBER})(?:\s?(?P<high_scale>{SCALE}))?)?"
    rf"(?:(?:\+?\s?|-)(?P<unit>{_UNIT}(?:\s{_UNIT}){{0,3}}))?",
    re.IGNORECASE,
)
_UNREAD = re.compile(  # part of a number that says more than its figures
    r"\s?(?:[×⁄^/*±½¼¾'’\"′″]|e\d|\d|(?:st|nd|rd|th)\b|x\s?\d|(?:[a-z]+\s)?and\sa\b|[a-z°]{1,20}(?:\s[a-z°]{1,20})?\s?(?:to|–|—)\s?[-−]?\d|"
    r"(?P<unit>[a-z]+)\sand\s[\d,.]+\s(?P=unit)\b)",
    re.IGNORECASE,
)
_REST = re.compile(r"\.?[\s-](?:and\s)?(?P<number>\d+(?:\.\d+)?)[\s-]?(?P<unit>[A-Za-z]+)")  # "4 in" of "6 ft 4 in"
_NOTHING = re.compile(rf"in\b(?!\W*$)|(?!in\b){NO_UNIT}", re.IGNORECASE)  # at the end "in" is inches
_ONE_UNIT = re.compile(r"\S+$|(?:square|cubic|sq)\s|.*\sper\s", re.IGNORECASE)
_COUNTRY = re.compile(r"\b(?:U\.?S\.?|Canadian)\s+(?=dollars?\b|gal)", re.IGNORECASE)
_CURRENCIES = ("dollar = [dollar] = USD", "cent = dollar / 100", "euro = [euro] = EUR", "sterling = [sterling]")
_MONEY = {"$": "dollar", "€": "euro", "£": "sterling"}  # as pint is told of them
_MEANT = {  # otherwise than pint takes them
    **{"kilo": "kg", "kilos": "kg", "calorie": "kcal", "calories": "kcal", "ml": "ml", "fl": "fluid_ounce"},
    **{"degrees celsius": "degC", "degrees c": "degC", "degrees fahrenheit": "degF", "degrees f": "degF"},
}
_YES = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(("before", "less than"), operator.lt),
    **dict.fromkeys(("after", "more than"), operator.gt),
    **dict.fromkeys(("since", "at least"), operator.ge),
    **dict.fromkeys(("until", "at most"), operator.le),
}


class ComputationError(ValueError):
    """The facts lack what the operation needs; the message says what is missing."""


@dataclass(frozen=True)
class Quantity:
    """A number with its unit as pint knows it, with a word that is no unit ("eggs"), or with a sign of money."""

    value: float
    unit: str = ""
    exact: bool = field(default=False, compare=False)  # whether all digits are meant: of a sum, not of a ratio

    def __str__(self) -> str:
        """Format the quantity as an answer shows it."""
        if self.unit in _MONEY:
            return f"{self.unit}{self.value:,.2f}"
        return f"{_format_number(self.value, self.exact)} {self.unit}".rstrip()


def _format_number(value: float, exact: bool) -> str:
    """Format a number without an exponent: all digits if they are meant and at most ten, else four, or those before the point."""
    digits = f"{value:.10g}"
    if not exact or not math.isclose(float(digits), value, rel_tol=1e-13):
        digits = f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}" if abs(value) < 1e15 else f"{value:.10g}"
    return f"{Decimal(digits):,f}"


@lru_cache(maxsize=1)
def _units() -> pint.UnitRegistry[float]:
    registry: pint.UnitRegistry[float] = pint.UnitRegistry()
    for definition in _CURRENCIES:
        registry.define(definition)
    return registry


@lru_cache(maxsize=256)
def _find_unit(words: str) -> pint.Unit | None:
    """Return the unit that pint knows by these words; None for other words ("eggs", "points")."""
    name = _MEANT.get(words.lower()) or _MONEY.get(words, words)
    names = (name, name.lower()) if _ONE_UNIT.match(name) else ()  # blanks are products to pint: "m in" is none
    for each in (*names, name.replace(" ", "_")):
        try:
            return _units().Unit(each)
        except Exception:  # noqa: BLE001 - pint raises errors of a dozen kinds on words that are no units: "eggs", "fruits per"
            continue
    return None


def parse_quantity(text: str, bound: Bound = "middle") -> Quantity:
    """Parse the first quantity of a short answer.

    Args:
        text: The answer.
        bound: Which number of a range ("8-13 eggs") counts.

    Raises:
        ComputationError: The answer contains no number, or one that is written in a way that is not read.
    """
    plain = replace_number_words(_COUNTRY.sub("", text.replace("\u00a0", " ")))
    match = _QUANTITY.search(plain)
    if match is None:
        raise ComputationError(f"no number in {text!r}")
    if any(_UNREAD.match(plain, match.end(end)) for end in ("low", "scale", "high", "high_scale") if match[end]):
        raise ComputationError(f"a number that is not read in {text!r}")
    low, high = _parse_ends(match)
    value = {"low": min(low, high), "high": max(low, high), "middle": (low + high) / 2}[bound]
    is_noun = match["unit"] and not _NOTHING.match(plain, match.start("unit"))
    unit = (match["sign"] or "").strip() or (_choose_unit(match["unit"]) if is_noun else "")
    rest = _REST.match(plain, match.start("unit") + len(unit)) if unit and low == high else None
    if rest is not None and _find_unit(unit) is not None and _find_unit(rest["unit"]) is not None:
        value += _convert(Quantity(float(rest["number"]), rest["unit"]), Quantity(value, unit))
    return Quantity(value, unit)


def _parse_ends(match: re.Match[str]) -> tuple[float, float]:
    """Return the two ends of a range, alike for a single number; "7 to 8 million" says the scale of both."""
    low = _number(match["low"])
    scale, high_scale = (_SCALES.get((match[name] or "").lower(), 1.0) for name in ("scale", "high_scale"))
    high = _number(match["high"]) if match["high"] else low
    scale = high_scale if match["high"] and not match["scale"] and low < high else scale
    low, high = low * scale, high * (high_scale if match["high"] else scale)
    is_negative = match["high_minus"] if match["high"] else match["minus"]
    return -low if match["minus"] else low, -high if is_negative else high


def _number(text: str) -> float:
    return float(DECIMAL_COMMA.sub(".", text).replace(",", ""))


def _choose_unit(words: str) -> str:
    """Return as many words as pint knows as one unit, else the first of them, which may be a noun ("eggs")."""
    parts = words.split()
    names = (" ".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in names if _find_unit(name) is not None), parts[0])


def calculate(printed: str) -> Quantity:
    """Evaluate a printed calculation: "12 x 15 + 20" is 200.

    Raises:
        ComputationError: The text is no calculation, or it divides by zero.
    """
    signs = parse_calculation(printed)
    try:
        return Quantity(_evaluate(ast.parse(signs or "", mode="eval").body), exact=True)
    except (SyntaxError, ZeroDivisionError, OverflowError) as error:
        raise ComputationError(f"no calculation: {printed!r}") from error


_SIGNS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _evaluate(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _SIGNS:
        return _SIGNS[type(node.op)](_evaluate(node.left), _evaluate(node.right))
    raise SyntaxError("neither a number nor one of + - * /")


def compute_dates(operation: Operation, facts: Sequence[str]) -> tuple[Day, Day] | None:
    """Add durations to a date, or subtract them from it.

    Returns:
        The first and the last possible date; None unless the facts are one date and durations.

    Raises:
        ComputationError: The date does not give the day, month or year that it is moved by.
    """
    dates = [fact for fact in facts if is_date(fact)]
    durations = [fact for fact in facts if not is_date(fact)]
    if operation not in ("sum", "difference") or len(dates) != 1 or not durations:
        return None
    try:
        lengths = [(parse_quantity(fact, "low"), parse_quantity(fact, "high")) for fact in durations]
    except ComputationError:
        return None
    spans: list[Any] = [low.unit.lower().removesuffix("s") for low, _ in lengths]
    if not {*spans} <= {*get_args(Span)}:
        return None
    sign = 1 if operation == "sum" else -1
    try:
        ends = [parse_day(dates[0])] * 2
        for pair, span in zip(lengths, spans, strict=True):
            ends = [move(end, sign * length.value, span) for end, length in zip(ends, pair, strict=True)]
    except ValueError as error:
        raise ComputationError(str(error)) from error
    return min(ends), max(ends)


def select_facts(condition: Condition, facts: Sequence[str]) -> list[int]:
    """Return the indices of the facts that fulfil a condition.

    Raises:
        ComputationError: A fact does not tell, because it contains no date, number, yes or no, or one of another kind.
    """
    is_time = condition.test in ("before", "after", "since", "until")
    test = _meets_words if condition.test == "is" else _meets_date if is_time else _meets_number
    return [place for place, fact in enumerate(facts) if test(condition, fact)]


def _meets_date(condition: Condition, fact: str) -> bool:
    limit, value = _parse_date(condition.limit), _parse_date(fact)
    if value == limit[: len(value)] and len(value) < len(limit):
        raise ComputationError(f"{fact!r} does not say whether it is {condition}")
    return _ORDERS[condition.test](value[: len(limit)], limit[: len(value)])


def _parse_date(text: str) -> tuple[int, ...]:
    """Return the year, month and day that a date gives, without those that it does not."""
    try:
        day = parse_day(text)
    except ValueError as error:
        raise ComputationError(str(error)) from error
    if not day.year:
        raise ComputationError(f"no year in {text!r}")
    return (day.year, day.month, day.day)[: {"year": 1, "month": 2}.get(day.span, 3)]


def _meets_number(condition: Condition, fact: str) -> bool:
    limit = parse_quantity(condition.limit)
    return _ORDERS[condition.test](_convert(parse_quantity(fact), limit), limit.value)


def _meets_words(condition: Condition, fact: str) -> bool:
    limit = condition.limit.casefold()
    if limit in ("yes", "no"):
        match = _YES.match(fact)
        if match is None:
            raise ComputationError(f"neither yes nor no: {fact!r}")
        return match.group(1).casefold() == limit
    return has_words(fact.casefold(), limit)


def compute(operation: Operation, facts: Sequence[str], bound: Bound = "middle") -> Quantity:
    """Compute the sum, difference, product or ratio of quantities, in the unit of the first one that has a unit.

    Raises:
        ComputationError: A fact contains no number, the units do not match, or the divisor is zero.
    """
    quantities = [parse_quantity(fact, bound) for fact in facts]
    base = next((each for each in quantities if each.unit), quantities[0])
    if operation == "product":
        return Quantity(math.prod(each.value for each in quantities), base.unit, exact=True)
    values = [_convert(each, base) for each in quantities]
    if operation == "ratio":
        if len(values) != 2 or values[1] == 0:
            raise ComputationError("a ratio is of two numbers, the second not 0")
        return Quantity(values[0] / values[1])
    total = math.fsum(values) if operation == "sum" else abs(values[0] - math.fsum(values[1:]))
    return Quantity(total, base.unit, exact=values == [each.value for each in quantities])


def _convert(one: Quantity, other: Quantity) -> float:
    """Convert a quantity to the unit of another one.

    A number without a unit counts in that of the other one. Words that are no units ("eggs", "brown eggs") are counted together.

    Raises:
        ComputationError: The units are of different kinds, or one of them is known and the other is none ("443 m", "103 stories").
    """
    unit, other_unit = _find_unit(one.unit), _find_unit(other.unit)
    if not one.unit or not other.unit or (unit is None and other_unit is None):
        return one.value
    error = ComputationError(f"{one} and {other} are not of one kind")
    if unit is None or other_unit is None:
        raise error
    try:
        return float(_units().Quantity(one.value, unit).to(other_unit).magnitude)
    except Exception as cause:  # pint raises errors of a dozen kinds, of which an AssertionError is one
        raise error from cause


def rank_facts(operation: Operation, facts: Sequence[str]) -> list[int]:
    """Sort the indices of the facts: the one that is larger, smaller, earlier or later than all others first.

    Raises:
        ComputationError: A fact contains no number or date, the units do not match, or the first fact equals another one as far as both
            are known.
    """
    keys: list[tuple[float, ...]]
    if operation in ("earlier", "later"):
        keys = [_parse_date(fact) for fact in facts]
    else:
        quantities = [parse_quantity(fact) for fact in facts]
        keys = [(_convert(each, quantities[0]),) for each in quantities]
    best, *rest = sorted(range(len(facts)), key=lambda place: keys[place], reverse=operation in ("larger", "later"))
    if any(all(map(operator.eq, keys[best], keys[place])) for place in rest):  # 1939 may be after 3 September 1939
        raise ComputationError("they are alike")
    return [best, *rest]
