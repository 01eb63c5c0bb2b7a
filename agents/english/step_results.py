"""Composes the answer to a question from the answers of its steps."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from agents.english.computation import (
    Bound,
    ComputationError,
    Quantity,
    calculate,
    compute,
    compute_dates,
    convert,
    rank_facts,
    select_facts,
)
from agents.english.dates import Day, Span, is_date, measure_span, parse_day
from agents.english.question_kinds import asks_yes_or_no
from agents.english.step_plans import (
    AskStep,
    ComputeStep,
    Operation,
    Plan,
    find_comparison,
    parse_reference,
    remove_qualifier,
)

BOUNDED = re.compile(r"\b(?:at most|up to|maximum|at the very least|at least)\b", re.IGNORECASE)
_BY_HOW_MUCH = re.compile(r"\bby how (?:much|many)\b", re.IGNORECASE)
_WHOLE = re.compile(r"\bhow many\b(?! times\b)|\bhow many times\b[^?]*\b(?:need|have|has|must)\b", re.IGNORECASE)
_FIGURES = re.compile(r"\b[A-Za-z]*\d[\w.,]*\b")
_ALL = re.compile(r"\b(?:all|both|each|every)\b", re.IGNORECASE)
_WHICH = re.compile(r"\W*(?:and )?which\b", re.IGNORECASE)
_EARLIEST = re.compile(r"\b(?:earliest|soonest|at least)\b", re.IGNORECASE)
_LATEST = re.compile(r"\b(?:latest|at most)\b", re.IGNORECASE)
_OF_TIME = re.compile(
    r"\b(?:old|older|age|long|longer|late|later|early|earlier|young|younger|before|after|ago|since|between|time|years?|months?|weeks?|days?)\b",
    re.IGNORECASE,
)
_THAN = re.compile(r"\bthan\b", re.IGNORECASE)
_ORDER = re.compile(
    r"\b(?:(?:named|called|modell?ed|look(?:s|ed|ing)?|day)\s+after|(?P<order>before|after))\b", re.IGNORECASE
)
"""A word that orders two events; the group is unset where "after" orders nothing ("named after")."""
_ORDERS: dict[str, Operation] = {"before": "earlier", "after": "later"}
_POINTER = re.compile(r"\W*(?:this\b(?!(?: [\w-]+){0,3}['’])|it\b(?!['’]| (?:\w+ ){1,2}that\b))", re.IGNORECASE)
"""The beginning of a clause about what is pointed at, not about what belongs to it ("this tower's architect") or "it is true that"."""
_TAIL = re.compile(rf",? ?(?:and )?{_BY_HOW_MUCH.pattern}.*", re.IGNORECASE | re.DOTALL)
_RELATIVE = re.compile(r"\b(?:who|whose)\b", re.IGNORECASE)
_CHOICE = re.compile(r"\bor\b(?! (?:not|so|more|less|fewer)\b)", re.IGNORECASE)
_NAMED_UNIT = re.compile(
    r"\bhow many (?:(?:more|fewer|total|additional|extra) )*+(?!\w+ and\b)(?P<unit>.+)", re.IGNORECASE
)
_SPANS: tuple[Span, ...] = ("year", "month", "week", "day")


def conclude(question: str, plan: Plan, texts: Sequence[str], things: Sequence[str]) -> str:
    """Compute the answer to a question from the answers of its steps, in words.

    Raises:
        ComputationError: The answers cannot be computed with.
    """
    last = plan.steps[-1]
    if isinstance(last, AskStep):
        return texts[len(plan.steps) - 1]
    values = list(texts)
    for place, step in enumerate(plan.steps):
        if isinstance(step, ComputeStep):
            values[place] = _compute(question, plan, step, values, things)
    return values[len(plan.steps) - 1]


def _compute(question: str, plan: Plan, step: ComputeStep, values: Sequence[str], things: Sequence[str]) -> str:
    facts = [_find_fact(plan, operand, values) for operand in step.operands]
    if step.operation == "value":
        return f"{step.operands[0].partition('=')[0].strip()} = {calculate(step.operands[0])}"
    if step.operation in ("sum", "difference", "product", "ratio"):
        return _compute_dates(question, step, facts) or _compute_numbers(question, step, facts)
    names = [_find_thing(plan, step, operand, values, things) for operand in step.operands]
    if step.condition is not None:
        return _format_count(question, [names[place] for place in select_facts(step.condition, facts)], len(facts))
    if len({name.lower() for name in names}) < len(names):
        raise ComputationError(f"several things are called {names[0]}")
    comparison = _split_comparison(question, names, things)
    operation = comparison.operation if comparison.operation and step.operation in _ORDERS.values() else step.operation
    best, *rest = rank_facts(operation, facts)
    reference = parse_reference(step.operands[best])
    is_computed = reference is not None and isinstance(plan.steps[reference - 1], ComputeStep)
    text = facts[best] if is_computed else names[best]
    if asks_yes_or_no(question) and (comparison.others or not _CHOICE.search(question)):
        text = f"{'Yes' if best == _find_subject(comparison, names, things) else 'No'}: {text}"
    elif is_computed:
        raise ComputationError(f"{text} has no name")
    if _BY_HOW_MUCH.search(question):
        pair = [facts[best], facts[rest[0]]]
        dated = operation in ("earlier", "later")
        text += f", by {_measure_time(question, *map(parse_day, pair)) if dated else _compute_quantity(question, 'difference', pair)}"
    return text


def _find_fact(plan: Plan, operand: str, values: Sequence[str]) -> str:
    """Return what an operand stands for, without the figures of its own subject: "A 747 weighs 183,500 kg"."""
    if (number := parse_reference(operand)) is None:
        return operand
    fact, step = values[number - 1], plan.steps[number - 1]
    figures = _FIGURES.findall(step.about(values)) if isinstance(step, AskStep) and not is_date(fact) else []
    rest = (
        re.sub(rf"(?<![\w.,])(?:{'|'.join(map(re.escape, figures))})(?![\w.,]*\d)[\w-]*", "", fact) if figures else fact
    )
    return rest if re.search(r"\d", rest) else fact


@dataclass(frozen=True)
class _Comparison:
    """A question of yes or no, parted at the word that compares; without such a word all of it is about the subject."""

    subject: str
    others: str = ""
    operation: Operation | None = None  # that of "before" or "after"
    is_strict: bool = False  # whether it orders events, which may be of things that it does not name


def _split_comparison(question: str, names: Sequence[str], things: Sequence[str]) -> _Comparison:
    """Part a question at "than", or at its "before" or "after" if it has no other comparison.

    Of several such words one counts that a thing follows, else one whose words up to the end name no thing.

    Raises:
        ComputationError: No such word counts, or both do.
    """
    clause = _TAIL.sub("", question.strip().partition(" ")[2])  # without the auxiliary verb
    if (than := _THAN.search(clause)) is not None:
        return _Comparison(clause[: than.start()], clause[than.end() :])
    if not asks_yes_or_no(question) or find_comparison(question) is not None or not _ORDER.search(clause):
        return _Comparison(clause)
    orders = [match for match in _ORDER.finditer(clause) if match["order"]]
    if not orders:
        return _Comparison(clause, is_strict=True)
    before_things = [each for each in orders if _find_head(clause[each.end() :], names, things) is not None]
    at_end = [each for each in orders if "," not in (rest := clause[each.end() :]) and not _list_named(rest, names)]
    operations = {_ORDERS[each["order"].lower()]: each for each in (before_things or at_end)}
    if len(operations) != 1:
        raise ComputationError("the question does not say whether it asks by before or after")
    [(operation, order)] = operations.items()
    return _Comparison(clause[: order.start()], clause[order.end() :], operation, is_strict=True)


def _find_subject(comparison: _Comparison, names: Sequence[str], things: Sequence[str]) -> int:
    """Return the index of the thing that a question compares to the others.

    Raises:
        ComputationError: The question orders events, and its words do not tell.
    """
    head, other = (_find_head(clause, names, things) for clause in (comparison.subject, comparison.others))
    named, named_others = (_list_named(clause, names) for clause in (comparison.subject, comparison.others))
    is_sure = other is not None or not _RELATIVE.search(comparison.subject)
    if head is not None and head != other and {*named} <= {head} and is_sure:
        return head
    unnamed = [place for place in range(len(names)) if place not in (other, *named_others)]
    if head is None and len(unnamed) == 1 and (other is not None or named == unnamed):
        return unnamed[0]
    if comparison.is_strict:
        raise ComputationError("the question does not say which thing is before or after the other")
    return next(iter((*named, *unnamed)), 0)


def _find_head(clause: str, names: Sequence[str], things: Sequence[str]) -> int | None:
    """Return the index of the thing that a clause begins with; "this" or "it" is the only one of them in the photo."""
    named = _list_named(clause, names)
    if named and re.match(
        rf"\W*(?:that of\s+)?(?:(?:the|an?)\s+)?{re.escape(names[named[0]])}\b(?!['’])", clause, re.IGNORECASE
    ):
        return named[0]
    shown = {remove_qualifier(thing).lower() for thing in things} if _POINTER.match(clause) else set()
    pointed = [place for place, name in enumerate(names) if name.lower() in shown]
    return pointed[0] if len(pointed) == 1 else None


def _list_named(clause: str, names: Sequence[str]) -> list[int]:
    """List the indices of the things that a clause names, in its order."""
    longest_first = sorted(range(len(names)), key=lambda place: -len(names[place]))  # "Henry Ford" does not name Ford
    pattern = "|".join(rf"(\b{re.escape(names[place])}\b)" for place in longest_first)
    matches = re.finditer(pattern, clause, re.IGNORECASE)
    return list(dict.fromkeys(longest_first[(match.lastindex or 1) - 1] for match in matches))


def _format_count(question: str, names: Sequence[str], total: int) -> str:
    """Format a count with the names that it counts, led by yes or no, or as names alone, as the question asks."""
    named = " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
    if _WHICH.match(question):
        return named or f"None of the {total}"
    text = f"{len(names)} of the {total}{f': {named}' if names else ''}"
    if not asks_yes_or_no(question):
        return text
    holds = len(names) == total if _ALL.search(question) else bool(names)
    return f"{'Yes' if holds else 'No'}: {text}"


def _compute_dates(question: str, step: ComputeStep, facts: Sequence[str]) -> str | None:
    """Compute a date from a date and a duration, or the time between two dates; None if the facts are numbers."""
    moved = compute_dates(step.operation, facts)
    if moved is not None:
        first, last, about = moved
        first, last = (
            (first, first)
            if _EARLIEST.search(question)
            else (last, last)
            if _LATEST.search(question)
            else (first, last)
        )
        text = str(first) if first == last else f"{first} to {last}"
        return f"about {text}" if about and first == last else text
    if step.operation != "difference" or len(facts) != 2 or not all(map(is_date, facts)):
        return None
    try:
        first, second = map(parse_day, facts)
    except ValueError as error:
        raise ComputationError(str(error)) from error
    if not _OF_TIME.search(question) and not (first.month or second.month):
        return None  # two numbers that look like years
    return _measure_time(question, first, second)


def _measure_time(question: str, first: Day, second: Day) -> str:
    """Measure the time between two dates, in the unit that the question names or in the largest that it fills."""
    unit = next((span for span in _SPANS if re.search(rf"\b{span}s?\b", question, re.IGNORECASE)), None)
    try:
        if unit is not None:
            return _format_span(measure_span(first, second, unit), unit)
        spans: tuple[Span, ...] = ("year", "month", "day") if first.day and second.day else ("year",)
        lengths = [(measure_span(first, second, span), span) for span in spans]
    except ValueError as error:
        raise ComputationError(str(error)) from error
    return _format_span(*next((each for each in lengths if each[0]), lengths[-1]))


def _format_span(count: int, span: Span) -> str:
    return f"{count:,} {span}{'' if count == 1 else 's'}"


def _compute_numbers(question: str, step: ComputeStep, facts: Sequence[str]) -> str:
    quantity = _compute_quantity(question, step.operation, facts)
    if step.operation == "ratio" and _WHOLE.search(question):
        quantity = Quantity(float(math.ceil(round(quantity.value, 9))))  # as many as are needed are whole
    return str(quantity)


def _compute_quantity(question: str, operation: Operation, facts: Sequence[str]) -> Quantity:
    """Compute a quantity in the unit that the question asks for by "how many", if it can be converted."""
    quantity, match = compute(operation, facts, _choose_bound(question)), _NAMED_UNIT.search(question)
    return quantity if match is None else convert(quantity, match["unit"])


def _find_thing(plan: Plan, step: ComputeStep, operand: str, values: Sequence[str], things: Sequence[str]) -> str:
    """Return the name of the thing that a fact of a computation is about.

    It is the earlier answer that its question alone asks about, else the thing of the photo that the question names, else the part
    of the question that no other question of the computation shares. What no question asks for is its own name.
    """
    number = parse_reference(operand)
    ask = None if number is None else plan.steps[number - 1]
    if not isinstance(ask, AskStep):
        return operand
    others = [each for each in _list_asks(plan, step) if each != ask]
    own_needs = set(ask.needs).difference(*(each.needs for each in others))
    if len(own_needs) == 1:
        return values[own_needs.pop() - 1]
    named = [name for name in map(remove_qualifier, things) if name.lower() in ask.question.lower()]
    own_words = _find_own_words(ask.question, [each.question for each in others])
    return max(named, key=len) if named else AskStep(own_words).about(values)


def _list_asks(plan: Plan, step: ComputeStep) -> list[AskStep]:
    """List the questions whose answers a step computes with, itself or through other computations."""
    needed = [plan.steps[number - 1] for number in step.needs]
    return [ask for each in needed for ask in ([each] if isinstance(each, AskStep) else _list_asks(plan, each))]


def _find_own_words(own_question: str, other_questions: Sequence[str]) -> str:
    """Return the words of a question that similar questions do not share.

    It is A for "What does A weigh?" beside "What does B weigh?", with the words of a name that both begin or end with ("iPhone 15").
    """
    words, *others = (each.rstrip(" ?").split() for each in (own_question, *other_questions))
    alike = [zip(words[::way], *(other[::way] for other in others), strict=False) for way in (1, -1)]
    start, end = (len(list(takewhile(lambda at: len(set(at)) == 1, each))) for each in alike)
    while start > 1 and not words[start - 1].islower():
        start -= 1
    while end and not words[-end].islower():
        end -= 1
    own = words[start : len(words) - end] if others else []
    return " ".join(own or words)


def _choose_bound(question: str) -> Bound:
    return "high" if BOUNDED.search(question) else "middle"
