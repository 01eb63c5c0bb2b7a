"""The answer of a question that took several steps, computed from the answers of its steps."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import takewhile

from agents.english.computation import (
    Bound,
    ComputationError,
    Result,
    calculate,
    compute,
    compute_dates,
    rank_facts,
    select_facts,
)
from agents.english.dates import Day, Span, is_date, measure_span, parse_day
from agents.english.question_kinds import asks_yes_or_no
from agents.english.step_plans import AskStep, ComputeStep, Operation, Plan, parse_reference, remove_qualifier
from agents.texts.text import FIGURE, count_phrases

BOUNDED = ("at most", "at least", "at the very most", "at the very least")
BY_HOW_MUCH = ("by how much", "by how many")
_WHOLE = re.compile(r"\bhow many\b(?! times\b)", re.IGNORECASE)
_OF_TIME = re.compile(r"old|age\b|long|late|earl|young|before|after|since|between|time|year", re.IGNORECASE)
_COMPARED = re.compile(r"\b(?P<word>than|before|after)\b", re.IGNORECASE)
_ORDERS: dict[str, Operation] = {"before": "earlier", "after": "later"}
_SPANS: tuple[Span, ...] = ("year", "month", "week", "day")


def conclude(question: str, plan: Plan, texts: Sequence[str], things: Sequence[str]) -> str:
    """Compute the answer to a question from the answers of its steps, in words.

    Raises:
        ComputationError: The answers cannot be computed with.
    """
    values = list(texts)
    for place, step in enumerate(plan.steps):
        if isinstance(step, ComputeStep):
            values[place] = _compute(question, plan, step, values, things)
    return values[len(plan.steps) - 1]


def _compute(question: str, plan: Plan, step: ComputeStep, values: Sequence[str], things: Sequence[str]) -> str:
    facts = [_find_fact(plan, operand, values) for operand in step.operands]
    if step.operation == "value":
        return f"{facts[0].partition('=')[0].strip()} = {calculate(facts[0])}"
    if step.operation in ("sum", "difference", "product", "ratio"):
        return _compute_dates(question, step, facts) or str(_compute_quantity(question, step.operation, facts))
    names = [_find_thing(plan, step, operand, values, things) for operand in step.operands]
    if step.condition is not None:
        return _format_count([names[place] for place in select_facts(step.condition, facts)], len(facts))
    if len({name.lower() for name in names}) < len(names):
        raise ComputationError(f"several things are called {names[0]}")
    is_choice = not asks_yes_or_no(question) or re.search(r"\bor\b", question) is not None
    operation, subject = (step.operation, 0) if is_choice else _find_subject(question, step.operation, names)
    best, *rest = rank_facts(operation, facts)
    reference = parse_reference(step.operands[best])
    is_computed = reference is not None and isinstance(plan.steps[reference - 1], ComputeStep)
    if is_choice and is_computed:
        raise ComputationError(f"{facts[best]} has no name")
    text = facts[best] if is_computed else names[best]
    text = text if is_choice else f"{'Yes' if best == subject else 'No'}: {text}"
    if count_phrases(question, BY_HOW_MUCH):
        pair = [facts[best], facts[rest[0]]]
        dated = operation in ("earlier", "later")
        text += f", by {_measure_time(question, *map(parse_day, pair)) if dated else compute('difference', pair)}"
    return text


def _find_fact(plan: Plan, operand: str, values: Sequence[str]) -> str:
    """Return the meaning of an operand, without the figures that its question names: "A 747 weighs 183,500 kg"."""
    if (number := parse_reference(operand)) is None:
        return operand
    fact, step = values[number - 1], plan.steps[number - 1]
    figures = FIGURE.findall(step.about(values)) if isinstance(step, AskStep) and not is_date(fact) else []
    rest = re.sub(rf"(?<![\w.,])(?:{'|'.join(figures)})(?![\w.,]*\d)[\w-]*", "it", fact) if figures else fact
    return rest if re.search(r"\d", rest) else fact


def _find_subject(question: str, operation: Operation, names: Sequence[str]) -> tuple[Operation, int]:
    """Return the order that a question of yes or no asks for, and the index of the thing that it compares to the others.

    That is the only one that is not named behind "than", "before" or "after", else the first that is named before.

    Raises:
        ComputationError: The question orders events, and its words do not tell which is compared to the other.
    """
    words = list(_COMPARED.finditer(question))
    at = words[-1].span() if words else (len(question), len(question))
    named, named_behind = ([_names(part, name) for name in names] for part in (question[: at[0]], question[at[1] :]))
    if words and words[-1]["word"].lower() in _ORDERS and operation in _ORDERS.values():
        operation = _ORDERS[words[-1]["word"].lower()]
        if len(words) > 1 or named_behind.count(False) != 1:
            raise ComputationError("the question does not say which thing is before or after the other")
    if named_behind.count(False) == 1:
        return operation, named_behind.index(False)
    return operation, named.index(True) if True in named else 0


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE) is not None


def _format_count(names: Sequence[str], total: int) -> str:
    """Format a count with the names that it counts."""
    named = " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
    return f"{len(names)} of the {total}{f': {named}' if names else ''}"


def _compute_dates(question: str, step: ComputeStep, facts: Sequence[str]) -> str | None:
    """Compute a date from a date and a duration, or the time between two dates; None if the facts are numbers."""
    moved = compute_dates(step.operation, facts)
    if moved is not None:
        return " to ".join(dict.fromkeys(map(str, moved)))
    if step.operation != "difference" or len(facts) != 2 or not all(map(is_date, facts)):
        return None
    try:
        days = [parse_day(fact) for fact in facts]
    except ValueError as error:
        raise ComputationError(str(error)) from error
    if not _OF_TIME.search(question) and not any(day.month for day in days):
        return None  # two numbers that look like years
    return _measure_time(question, *days)


def _measure_time(question: str, first: Day, second: Day) -> str:
    """Measure the time between two dates, in the unit that the question names or in the largest that it fills."""
    named = [span for span in _SPANS if re.search(rf"\b{span}s?\b", question, re.IGNORECASE)]
    spans = named[:1] or (["year", "month", "day"] if first.day and second.day else ["year"])
    try:
        lengths = [(measure_span(first, second, span), span) for span in spans]
    except ValueError as error:
        raise ComputationError(str(error)) from error
    count, span = next((each for each in lengths if each[0]), lengths[-1])
    return f"{count:,} {span}{'' if count == 1 else 's'}"


def _compute_quantity(question: str, operation: Operation, facts: Sequence[str]) -> Result:
    bound: Bound = "high" if count_phrases(question, BOUNDED) else "middle"
    quantity = compute(operation, facts, bound)
    if operation == "ratio" and _WHOLE.search(question):
        return Result(float(math.ceil(round(quantity.value, 9))))  # as many as are needed are whole
    return quantity


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
