"""Computes with the quantities, ranges and dates of short answers."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, get_args

from agents.english.dates import Day, Span, is_date, move, parse_day
from agents.english.plain_text import normalise_spelling
from agents.english.quantities import SIGNS, Quantity, convert, find_quantities, normalise_quantities
from agents.english.step_plans import Condition, Operation, parse_calculation
from agents.texts.text import has_words

Bound = Literal["low", "high", "middle"]
"""Which number of a range counts: of what is asked for at least, at most, or neither."""

_UNREAD = re.compile(r"\s?(?:[×⁄^/±'′\"]|\d|x\s?\d|(?:[a-z]+\s)?and\sa\b)", re.IGNORECASE)
"""Part of a number that says more than its figures: "3 x 10", "5 and a half"."""
_FIGURE = re.compile(r"(?<![\w.-])\d")  # not that of a name: "A380"
_PARTS = ("half", "halves", "third", "quarter", "fifth")  # of a number: "two thirds", "half a million"
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
class Result:
    """A computed number with its unit, or the noun that it counts, in the words of the facts.

    Attributes:
        exact: Whether all digits are meant: those of a sum, not those of a ratio.
    """

    value: float
    words: str = ""
    exact: bool = False

    def __str__(self) -> str:
        """Format the number as an answer shows it."""
        if self.words and self.words in SIGNS:
            return f"{self.words}{self.value:,.2f}"
        return f"{_format_number(self.value, self.exact)} {self.words}".rstrip()


def _format_number(value: float, exact: bool) -> str:
    """Format a number without an exponent: all digits if they are meant and at most ten, else four, or those before the point."""
    digits = f"{value:.10g}"
    if not exact or not math.isclose(float(digits), value, rel_tol=1e-13):
        digits = f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}" if abs(value) < 1e15 else f"{value:.10g}"
    return f"{Decimal(digits):,f}"


def parse_quantity(text: str, bound: Bound = "middle") -> Quantity:
    """Parse the first quantity of a short answer.

    Args:
        text: The answer.
        bound: Which number of a range ("8-13 eggs") counts.

    Raises:
        ComputationError: The answer contains no number, or one in an unknown notation.
    """
    for number_words in (False, True):  # "one quetzal is 100 centavos"
        plain = normalise_quantities(normalise_spelling(text, number_words=number_words))
        quantities = [each for each in find_quantities(plain) if not each.is_in_name]
        if quantities:
            return _combine(plain, quantities, bound)
    raise ComputationError(f"no number in {text!r}")


def _combine(text: str, quantities: Sequence[Quantity], bound: Bound) -> Quantity:
    """Return the first quantity of a text, with the end of its range or the rest in a smaller unit ("8 h 56 min").

    Raises:
        ComputationError: Its notation is unknown.
    """
    first, second = quantities[0], quantities[1] if len(quantities) > 1 else None
    unread = ComputationError(f"a number that is not read in {text!r}")
    if _FIGURE.search(text[: first.start]) or _is_unread(text, first):
        raise unread
    between = text[first.end : second.start].strip() if second else None
    if second and first.range_end:
        if _is_unread(text, second):
            raise unread
        ends = sorted((first.value, _convert(second, first)))
        value = {"low": ends[0], "high": ends[1], "middle": sum(ends) / 2}[bound]
        return replace(first if first.unit else second, value=value)
    if second and first.unit and between in ("", "and"):
        rest = convert(second, first.unit)
        if rest is None or rest >= 1:
            raise unread
        return replace(first, value=first.value + rest)
    return first


def _is_unread(text: str, quantity: Quantity) -> bool:
    """Return whether a quantity is a part of what its text says: "3/4", "5 and a half", "two thirds"."""
    is_unit = quantity.unit is not None and quantity.words not in SIGNS
    return (
        quantity.unit == "clock"
        or quantity.words.lower().startswith(_PARTS)
        or text[: quantity.start].rstrip().lower().endswith(("half a", "half"))
        or _UNREAD.match(text, quantity.end - len(quantity.words) if is_unit else quantity.end) is not None
    )


def calculate(printed: str) -> Result:
    """Evaluate a printed calculation: "12 x 15 + 20" is 200.

    Raises:
        ComputationError: The text is no calculation, or it divides by zero.
    """
    signs = parse_calculation(printed)
    try:
        return Result(_evaluate(ast.parse(signs or "", mode="eval").body), exact=True)
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
    spans: list[Any] = [low.unit for low, _ in lengths]
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


def compute(operation: Operation, facts: Sequence[str], bound: Bound = "middle") -> Result:
    """Compute the sum, difference, product or ratio of quantities, in the unit of the first one that has a unit.

    Raises:
        ComputationError: A fact contains no number, the units do not match, or the divisor is zero.
    """
    quantities = [parse_quantity(fact, bound) for fact in facts]
    base = next((each for each in quantities if each.words), quantities[0])
    if operation == "product":
        return Result(math.prod(each.value for each in quantities), base.words, exact=True)
    values = [_convert(each, base) for each in quantities]
    if operation == "ratio":
        if len(values) != 2 or values[1] == 0:
            raise ComputationError("a ratio is of two numbers, the second not 0")
        return Result(values[0] / values[1])
    total = math.fsum(values) if operation == "sum" else abs(values[0] - math.fsum(values[1:]))
    return Result(total, base.words, exact=values == [each.value for each in quantities])


def _convert(one: Quantity, other: Quantity) -> float:
    """Convert a quantity to the unit of another one.

    A number without a unit counts in that of the other one. Words other than units ("eggs", "brown eggs") are counted together.

    Raises:
        ComputationError: The units are of different kinds, or one of them is known and the other is none ("443 m", "103 stories").
    """
    if not one.words or not other.words or (one.unit is None and other.unit is None):
        return one.value
    value = convert(one, other.unit)
    if value is None:
        raise ComputationError(f"{one.text} and {other.text} are not of one kind")
    return value


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
