"""Parses quantities, ranges and dates in short answers, and computes with them."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Literal

import pint

from agents.english.dates import Day, Span, is_date, move, parse_day
from agents.english.number_forms import SCORE, replace_number_words, rewrite_numbers
from agents.english.step_plans import DECIMAL_COMMA, Condition, Operation, parse_calculation

Bound = Literal["low", "high", "middle"]
"""Which number of a range counts: of what is asked for at least, at most, or neither."""

_NUMBER = r"\d{1,3}(?:[,\u202f ]\d{3})+(?:\.\d+)?|\d+,\d{1,2}(?!\d)|\d+(?:\.\d+)?|\.\d+"
_MONEY = r"[$€£¥]"
_MINUS = r"(?:[-–−](?=[\d.$€£¥])|minus\s)"
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
SCALE = rf"(?:{'|'.join(_SCALES)})\b"
_IN_A_NAME = r"(?<![A-Za-z\d])(?<!\d[.,])(?<![A-Za-z\d][-–−])"  # the figures of "A380" and "B-52" count nothing
_UNIT = (
    r"(?:(?:square|cubic|sq\.?|cu\.?)\s[A-Za-z]+|(?:metric|long|short)\s(?:tons?|tonnes?)\b|nautical\smiles?\b|light[\s-]years?\b"
    r"|(?:fluid|troy)\sounces?\b|fl\.?\s?oz\b|degrees?\s(?:celsius|fahrenheit|[CF]\b)|[A-Za-z°%/²³¢]+)"
    r"(?:\s(?:per|an?)\s(?:(?:square|cubic)\s)?[A-Za-z]+)?"
)
_TO = r"(?:\s?(?:-|–|—|to|and)\s?|-to-)"
_QUANTITY = re.compile(
    rf"(?P<minus>(?<![\w)]){_MINUS})?(?P<sign>{_MONEY}\s?)?{_IN_A_NAME}(?P<low>{_NUMBER})(?:\s?(?P<scale>{SCALE}))?"
    rf"(?:{_TO}(?P<high_minus>{_MINUS})?(?:{_MONEY}\s?)?(?P<high>{_NUMBER})(?:\s?(?P<high_scale>{SCALE}))?)?"
    rf"(?:(?:\+?\s?|-)(?P<unit>{SCORE}|{_UNIT}))?",
    re.IGNORECASE,
)
_REPEATED_UNIT = re.compile(  # "kg" after 25 in "25 kg to 36 kg"
    rf"(?P<low>\d(?:\s?{SCALE})?+)[\s-]?(?P<unit>{_UNIT})"
    rf"(?={_TO}{_MINUS}?(?:{_NUMBER})(?:\s?{SCALE})?[\s-]?(?P=unit)(?:e?s)?(?!\w))",
    re.IGNORECASE,
)
_UNREAD = re.compile(  # part of a number that says more than its figures
    r"\)?\s?(?:[×⁄^]|(?:\d{1,2}\s?)?[/x*]\s?\d|(?:[a-z]+\s)?and\s(?:an?|one|two|three)\s(?:half|thirds?|quarters?)\b"
    rf"|(?!{SCALE})[a-z°]+(?:\s\d+\s[a-z]+)?\s?(?:to|–|—)\s?\d)",  # "500 g to 1 kg"
    re.IGNORECASE,
)
_REST = re.compile(  # "4 in" of "6 ft 4 in"
    r"(?:\.?,?[\s-](?:and\s)?)?(?P<number>\d+(?:\.\d+)?)[\s-]?(?P<unit>[A-Za-z]+)"
)
_PINT_UNITS = tuple(
    (re.compile(words, re.IGNORECASE), unit)
    for words, unit in (
        (r"\bmetric ton(?:s|nes?)?\b", "tonne"),
        (r"\b(long|short) tons?\b", r"\1_ton"),
        (r"\bnautical miles?\b", "nautical_mile"),
        (r"\blight[ -]years?\b", "light_year"),
        (r"\b(fluid|troy) ounces?\b", r"\1_ounce"),
        (r"\bfl\.? ?oz\b", "fluid_ounce"),
        (r"\bdegrees? c(?:elsius)?\b", "degC"),
        (r"\bdegrees? f(?:ahrenheit)?\b", "degF"),
        (r"\bsq\.? ", "square "),
        (r"\bcu\.? ", "cubic "),
        (r"\bmpg\b", "miles per gallon"),
        (r"\bkmh\b", "km/h"),
        (r"\bbhp\b", "hp"),
        (r"\bkarats?\b", "carat"),
        (r"\bkilos?\b", "kg"),
        (r"\bcalories?\b", "kcal"),  # as a label means them
        (r"\b(?:dpi|dots per inch)\b", "ppi"),  # "dpi" are dry pints to pint
        (r"(?-i:\bML\b)", "ml"),  # on a label, where pint reads megalitres
        (r" an? ", " per "),  # "kilometres an hour"
    )
)
_NO_UNITS = frozenset(
    "to and or in at by from of on is are was were with for as if when than each about total altogether after before since during but "
    "per out".split()
)
_INCHES = re.compile(r"\s?(?:[.,;()]|$|(?:tall|long|wide|high|deep|thick|across|in diameter)\b)", re.IGNORECASE)
_NOUNS = re.compile(  # Pint takes these for units (a "unit" is a micronit). Hands and bars stay units, of horses and of pressure.
    r"\b(?:(?:act|bag|barn|candle|cat|chain|circle|count|dot|fin|gill|grade|hat|link|mat|molecule|perch|pin|point|pole|pond|rat|rod|section"
    r"|shot|slug|toe|turn|unit)s?|per bar)\b",
    re.IGNORECASE,
)
_RATE = re.compile(r"\s(?:per|an?)\s(?P<base>.+)", re.IGNORECASE)
_COUNTRY = re.compile(r"\b(?:U\.?\s?S\.?|American|Canadian|Australian)\s+(?=dollars?\b|cents?\b)", re.IGNORECASE)
_CENTS = {
    **dict.fromkeys(("cent", "cents", "¢"), ""),  # of any currency
    **dict.fromkeys(("eurocent", "eurocents"), "€"),
    **dict.fromkeys(("p", "penny", "pence"), "£"),
}
_WHOLE_MONEY = {
    **dict.fromkeys(("dollar", "dollars", "usd", "cad"), "$"),
    **dict.fromkeys(("euro", "euros", "eur"), "€"),
}
_TON = re.compile(r"tons?\b", re.IGNORECASE)  # metric, long or short
_POUNDS = frozenset(("pound", "pounds"))  # money beside "£", else a weight
_SPAN = re.compile(r"(?P<span>day|week|month|year)s?\b", re.IGNORECASE)
_ABOUT = re.compile(r"\b(?:about|around|approximately|roughly|average|circa|usually)\b|~", re.IGNORECASE)
_YES = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


class ComputationError(ValueError):
    """The facts lack what the operation needs; the message says what is missing."""


@dataclass(frozen=True)
class Quantity:
    """A number with its unit as pint knows it, or with a word that is no unit ("eggs"); ``money``: its sign."""

    value: float
    unit: str = ""
    money: str = ""
    exact: bool = field(
        default=False, compare=False
    )  # whether its digits are meant: of a sum, not of a ratio or a converted unit

    def __str__(self) -> str:
        """Format the quantity as an answer shows it."""
        number = f"{self.value:,.2f}" if self.money else _format_number(self.value, self.exact)
        return f"{self.money}{number}{f' {self.unit}' if self.unit else ''}"


def _format_number(value: float, exact: bool) -> str:
    """Format a number without an exponent.

    Returns:
        All digits if they are meant and at most ten, else four significant ones, or those before the point if they are more.
    """
    digits = f"{value:.10g}"
    if not exact or not math.isclose(float(digits), value, rel_tol=1e-13):
        digits = f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}" if abs(value) < 1e15 else f"{value:.10g}"
    return f"{Decimal(digits):,f}"


@lru_cache(maxsize=1)
def _units() -> pint.UnitRegistry[float]:
    return pint.UnitRegistry()


def parse_quantity(text: str, bound: Bound = "middle") -> Quantity:
    """Parse the first quantity of a short answer.

    Args:
        text: The answer.
        bound: Which number of a range ("8-13 eggs") counts.

    Raises:
        ComputationError: The answer contains no number, or one that is written in a way that is not read.
    """
    plain = rewrite_numbers(replace_number_words(_COUNTRY.sub("", text.replace("\u00a0", " "))))
    plain = _REPEATED_UNIT.sub(r"\g<low>", plain)
    match = _QUANTITY.search(plain)
    if match is None:
        raise ComputationError(f"no number in {text!r}")
    if any(_UNREAD.match(plain, match.end(end)) for end in ("low", "high") if match[end]):
        raise ComputationError(f"a number that is not read in {text!r}")
    low, high = _parse_ends(match)
    value = {"low": min(low, high), "high": max(low, high), "middle": (low + high) / 2}[bound]
    unit = (match["unit"] or "").strip()
    if unit.lower() in _NO_UNITS and not (unit == "in" and _INCHES.match(plain, match.end())):
        unit = ""
    quantity = Quantity(value, unit, (match["sign"] or "").strip())
    rest = _REST.match(plain, match.end()) if unit and low == high else None
    return quantity if rest is None else _add_rest(quantity, rest["number"], rest["unit"])


def _parse_ends(match: re.Match[str]) -> tuple[float, float]:
    """Return the two ends of a range, alike for a single number; "7 to 8 million" says the scale of both."""
    low = _number(match["low"])
    scale, high_scale = (_SCALES.get((match[name] or "").lower(), 1.0) for name in ("scale", "high_scale"))
    high = _number(match["high"]) if match["high"] else low
    shared = match["high"] and not match["scale"] and low < high
    low *= (high_scale if shared else scale) * (-1 if match["minus"] else 1)
    return low, high * high_scale * (-1 if match["high_minus"] else 1) if match["high"] else low


def _add_rest(first: Quantity, number: str, unit: str) -> Quantity:
    """Add the second part of a quantity in two units ("6 ft 4 in": 76 in), if so many of its unit make one of the first."""
    one, other = Quantity(1, first.unit), Quantity(1, unit)
    if not all(_is_money(each) or _is_unit(each.unit) for each in (one, other)):
        return first
    try:
        parts = _convert(one, other)
    except ComputationError:
        return first
    whole = first.value.is_integer() and math.isclose(parts, round(parts))
    return Quantity(first.value * round(parts) + float(number), unit) if whole and float(number) < parts else first


def _number(text: str) -> float:
    return float(re.sub(r"[,\u202f ]", "", DECIMAL_COMMA.sub(".", text)))


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


def parse_duration(text: str) -> tuple[float, float, Span]:
    """Parse a duration in words ("28 to 35 days") into its least and greatest length, and its unit.

    Raises:
        ComputationError: The text is no duration.
    """
    low, high = parse_quantity(text, "low"), parse_quantity(text, "high")
    match = _SPAN.fullmatch(low.unit)
    if match is None:
        raise ComputationError(f"no time in days, weeks, months or years: {text!r}")
    span: Span = match["span"].lower()  # type: ignore[assignment]
    return low.value, high.value, span


def compute_dates(operation: Operation, facts: Sequence[str]) -> tuple[Day, Day, bool] | None:
    """Add durations to a date, or subtract them from it.

    Returns:
        The first and the last possible date, and whether a fact says "about"; None unless the facts are one date and durations.

    Raises:
        ComputationError: The date does not give the day, month or year that it is moved by.
    """
    dates = [fact for fact in facts if is_date(fact)]
    durations = [fact for fact in facts if not is_date(fact)]
    if operation not in ("sum", "difference") or len(dates) != 1 or not durations:
        return None
    try:
        spans = [parse_duration(fact) for fact in durations]
    except ComputationError:
        return None
    sign = 1 if operation == "sum" else -1
    try:
        ends = [parse_day(dates[0])] * 2
        for low, high, span in spans:
            ends = [move(end, sign * count, span) for end, count in zip(ends, (low, high), strict=True)]
    except ValueError as error:
        raise ComputationError(str(error)) from error
    first, last = ends if sign == 1 else ends[::-1]
    return first, last, any(map(_ABOUT.search, facts))


def select_facts(condition: Condition, facts: Sequence[str]) -> list[int]:
    """Return the indices of the facts that fulfil a condition.

    Raises:
        ComputationError: A fact does not tell, because it contains no date, number, yes or no, or one of another kind or scale.
    """
    holds = {
        "before": _meets_date,
        "after": _meets_date,
        "since": _meets_date,
        "until": _meets_date,
        "is": _meets_words,
    }
    test = holds.get(condition.test, _meets_number)
    if test is _meets_number:
        _parse_facts(facts)
    return [place for place, fact in enumerate(facts) if test(condition, fact)]


def _meets_date(condition: Condition, fact: str) -> bool:
    fine, coarse = _parse_date(condition.limit), _parse_date(fact)
    num_parts = min(_count_parts(fine), _count_parts(coarse))
    limit, value = (_parts(fine)[:num_parts], _parts(coarse)[:num_parts])
    if limit == value and _count_parts(coarse) < _count_parts(fine):
        raise ComputationError(f"{fact!r} does not say whether it is {condition}")
    return {"before": value < limit, "after": value > limit, "since": value >= limit, "until": value <= limit}[
        condition.test
    ]


def _parse_date(text: str) -> Day:
    try:
        day = parse_day(text)
    except ValueError as error:
        raise ComputationError(str(error)) from error
    if not day.year:
        raise ComputationError(f"no year in {text!r}")
    return day


def _parts(day: Day) -> tuple[int, int, int]:
    return day.year, day.month, day.day


def _count_parts(day: Day) -> int:
    """Count how many of year, month and day a date gives."""
    return {"year": 1, "month": 2, "day": 3}[day.span]


def _meets_number(condition: Condition, fact: str) -> bool:
    one, limit = parse_quantity(fact), parse_quantity(condition.limit)
    if not _is_bare(limit):  # "more than 8" counts on the scale of the fact
        one, limit = _parse_facts((fact, condition.limit))
    value = _convert(one, limit)
    return {
        "more than": value > limit.value,
        "less than": value < limit.value,
        "at least": value >= limit.value,
        "at most": value <= limit.value,
    }[condition.test]


def _meets_words(condition: Condition, fact: str) -> bool:
    limit = condition.limit.casefold()
    if limit in ("yes", "no"):
        match = _YES.match(fact)
        if match is None:
            raise ComputationError(f"neither yes nor no: {fact!r}")
        return match.group(1).casefold() == limit
    return re.search(rf"(?<!\w){re.escape(limit)}(?!\w)", fact.casefold()) is not None


def _parse_facts(facts: Sequence[str], bound: Bound = "middle") -> list[Quantity]:
    """Parse the quantities of facts that are computed with together; "pounds" beside "£" are money.

    Raises:
        ComputationError: A fact contains no number, or some facts are scores and not all are on one scale.
    """
    quantities = [parse_quantity(fact, bound) for fact in facts]
    scales = {each.unit.lower() if re.fullmatch(SCORE, each.unit, re.IGNORECASE) else "" for each in quantities}
    if len(scales) > 1:
        raise ComputationError(f"{' and '.join(map(str, quantities))} are not on one scale")
    if any(_is_money(each) and _get_currency(each) == "£" for each in quantities):
        return [replace(each, unit="", money="£") if each.unit.lower() in _POUNDS else each for each in quantities]
    return quantities


def compute(operation: Operation, facts: Sequence[str], bound: Bound = "middle") -> Quantity:
    """Compute the sum, difference, product or ratio of quantities, in the unit of the first one.

    Raises:
        ComputationError: A fact contains no number, the units do not match, or the divisor is zero.
    """
    quantities = _parse_facts(facts, bound)
    first = quantities[0]
    money = next((each.money for each in quantities if each.money), "")
    if operation in ("sum", "difference"):
        base = next((each for each in quantities if each.money or each.unit.lower() in _WHOLE_MONEY), first)
        base = base if all(map(_is_money, quantities)) else first  # dollars where some are cents
        values = [_convert(each, base) for each in quantities]
        exact = values == [each.value for each in quantities]
        total = math.fsum(values) if operation == "sum" else abs(values[0] - math.fsum(values[1:]))
        return Quantity(total, base.unit, money, exact)
    values = [each.value for each in quantities]
    if operation == "product":
        unit = next((each.unit for each in quantities if each.unit), "")
        return Quantity(math.prod(values), unit, money, exact=True)
    divisor = _convert(quantities[1], first)
    if len(values) != 2 or divisor == 0:
        raise ComputationError("a ratio is of two numbers, the second not 0")
    return Quantity(first.value / divisor)


def convert(one: Quantity, unit_words: str) -> Quantity:
    """Convert a quantity to the unit that a text begins with ("feet taller"); return it as it is if that is none of its kind.

    Degrees stay as they are: a difference in temperature is not converted like a temperature. So do tons, which are of several weights.
    """
    try:
        other = parse_quantity(f"1 {unit_words}")
        if _is_same_unit(one, other) or _convert(replace(one, value=0), other) != 0:
            return one
        sign = _WHOLE_MONEY.get(other.unit.lower(), "")
        return Quantity(_convert(one, other), "" if sign else other.unit, sign)
    except ComputationError:
        return one


def _is_same_unit(one: Quantity, other: Quantity) -> bool:
    """Return whether two quantities need no conversion, or get none because one of them has no unit or may be of several."""
    if _is_money(one) and _is_money(other):
        return _worth(one) == _worth(other)
    is_unclear = any(not each.unit or _TON.match(each.unit) for each in (one, other))
    return is_unclear or _find_unit(one.unit) == _find_unit(other.unit)


def _convert(one: Quantity, other: Quantity) -> float:
    """Convert a quantity to the unit of another one.

    A number without a unit counts in that of the other one. Words that are no units ("eggs", "brown eggs") are counted together.

    Raises:
        ComputationError: The units are of different kinds, or one of them is known and the other is none ("443 m", "103 stories").
    """
    error = ComputationError(f"{one} and {other} are not of one kind")
    (one, rate), (other, other_rate) = _split_rate(one), _split_rate(other)
    if rate and other_rate and rate != other_rate and any(map(_is_unit, (rate, other_rate))):  # a day and a week
        raise error
    if _is_money(one) and _is_money(other):  # 25 cents and $0.25
        if len({_get_currency(one), _get_currency(other)} - {""}) > 1:
            raise ComputationError(f"{one} and {other} are not of one currency")
        return one.value * _worth(one) / _worth(other)
    if _is_bare(one) or _is_bare(other) or (one.unit, one.money) == (other.unit, other.money):
        return one.value
    if _is_money(one) or _is_money(other):
        raise error
    unit, other_unit = _find_unit(one.unit), _find_unit(other.unit)
    if unit is None and other_unit is None:
        return one.value
    if unit is None or other_unit is None:
        raise error
    try:
        return float(_units().Quantity(one.value, unit).to(other_unit).magnitude)
    except Exception as cause:  # pint raises errors of a dozen kinds, of which an AssertionError is one
        raise error from cause


def _split_rate(one: Quantity) -> tuple[Quantity, str]:
    """Split "39 g per can" into 39 g and "can"; a rate that is a unit ("km per hour") stays whole."""
    match = None if _is_unit(one.unit) else _RATE.search(one.unit)
    return (one, "") if match is None else (replace(one, unit=one.unit[: match.start()]), match["base"].lower())


@lru_cache(maxsize=256)
def _find_unit(words: str) -> pint.Unit | None:
    """Return the unit that pint knows by these words; None for other words ("eggs", "points")."""
    for pattern, name in _PINT_UNITS:
        words = pattern.sub(name, words)
    if _NOUNS.search(words):
        return None
    for name in (words, words.lower()):
        try:
            return _units().Unit(name)
        except Exception:  # noqa: BLE001 - pint raises errors of a dozen kinds on words that are no units: "eggs", "fruits per"
            continue
    return None


def _is_unit(words: str) -> bool:
    return _find_unit(words) is not None


def _is_bare(one: Quantity) -> bool:
    return not one.unit and not one.money


def _is_money(one: Quantity) -> bool:
    return bool(one.money) or one.unit.lower() in _CENTS | _WHOLE_MONEY


def _get_currency(one: Quantity) -> str:
    return one.money or (_CENTS | _WHOLE_MONEY)[one.unit.lower()]


def _worth(one: Quantity) -> float:
    return 0.01 if one.unit.lower() in _CENTS else 1.0


def rank_facts(operation: Operation, facts: Sequence[str]) -> list[int]:
    """Sort the indices of the facts: the one that is larger, smaller, earlier or later than all others first.

    Raises:
        ComputationError: A fact contains no number or date, the units do not match, or the first fact equals another one as far as both
            are known.
    """
    keys: list[tuple[float, ...]]
    if operation in ("earlier", "later"):
        days = [_parse_date(fact) for fact in facts]
        keys = [_parts(day)[: _count_parts(day)] for day in days]
    else:
        quantities = _parse_facts(facts)
        keys = [(_convert(each, quantities[0]),) for each in quantities]
    best, *rest = sorted(range(len(facts)), key=lambda place: keys[place], reverse=operation in ("larger", "later"))
    if any(
        all(map(operator.eq, keys[best], keys[place])) for place in rest
    ):  # 1939 may be before 3 September 1939 or after it
        raise ComputationError("they are alike")
    return [best, *rest]
