"""Composes the answer to a question from the answers of its steps."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import takewhile

from agents.methods.computation import (
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
from agents.methods.dates import Day, Span, is_date, measure_span, parse_day
from agents.methods.question_kinds import asks_yes_or_no
from agents.methods.step_plans import (
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
_ORDER = re.compile(r"\bthan\b|\b(?P<order>before|after)\b(?!.*\bthan\b)", re.IGNORECASE | re.DOTALL)
"""What stands between the thing that a question is about and those that it is compared to."""
_ORDERS: dict[str, Operation] = {"before": "earlier", "after": "later"}
_NAMED_UNIT = re.compile(r"\bhow many (?:more |fewer )?(?P<unit>.+)", re.IGNORECASE)
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
    operation = _choose_ranking(question, step.operation)
    best, *rest = rank_facts(operation, facts)
    reference = parse_reference(step.operands[best])
    is_computed = reference is not None and isinstance(plan.steps[reference - 1], ComputeStep)
    text = facts[best] if is_computed else names[best]
    if asks_yes_or_no(question):
        text = f"{'Yes' if best == _find_subject(question, names) else 'No'}: {text}"
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


def _choose_ranking(question: str, operation: Operation) -> Operation:
    """Return the operation that a plan ranks by, or that of "before" or "after" if the question asks by them alone."""
    match = _ORDER.search(question)
    asks_order = asks_yes_or_no(question) and find_comparison(question) is None
    if operation not in _ORDERS.values() or not asks_order or match is None or not match["order"]:
        return operation
    return _ORDERS[match["order"].lower()]


def _find_subject(question: str, names: Sequence[str]) -> int:
    """Return the index of the thing that a question compares to the others, the first if its words do not tell.

    It is named before the others, or it is the one that is pointed at: "Is this heavier than the tiger?".
    """
    order = _ORDER.search(question)
    ends = (len(question), len(question)) if order is None else order.span()
    subject, others = question[: ends[0]].lower(), question[ends[1] :].lower()
    patterns = [rf"\b{re.escape(name.lower())}\b" for name in names]
    named = {place: match.start() for place, each in enumerate(patterns) if (match := re.search(each, subject))}
    if named:
        return min(named, key=lambda place: named[place])
    return next((place for place, each in enumerate(patterns) if re.search(each, others) is None), 0)


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

    It is A for "What does A weigh?" beside "What does B weigh?".
    """
    words, *others = (each.rstrip(" ?").split() for each in (own_question, *other_questions))
    alike = [zip(words[::way], *(other[::way] for other in others), strict=False) for way in (1, -1)]
    start, end = (len(list(takewhile(lambda at: len(set(at)) == 1, each))) for each in alike)
    own = words[start : len(words) - end] if others else []
    return " ".join(own or words)


def _choose_bound(question: str) -> Bound:
    return "high" if BOUNDED.search(question) else "middle"
