"""Plans of a question that takes several steps: each step asks one fact of one named thing, or computes from earlier answers.

Typed steps that name each thing, with code for the sums, answered 21 of 44 such questions of the mini set's validation by hand, a plan
written freely 15, one prompt 8 (lab/notes/steps.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from text_to_num import alpha2digit

from agents.english.dates import DATE, parse_day
from agents.english.plain_text import DECIMAL_COMMA
from agents.english.question_kinds import asks_yes_or_no
from agents.texts.text import FIGURE, count_phrases

Operation = Literal["sum", "difference", "product", "ratio", "larger", "smaller", "earlier", "later", "count", "value"]
Test = Literal["before", "after", "since", "until", "more than", "less than", "at least", "at most", "is"]
"""Conditions of a count: the first four for dates, the next four for quantities, the last for words."""

OPERATIONS: frozenset[str] = frozenset(get_args(Operation))
_NUMBERS = frozenset({"sum", "difference", "product", "ratio"})  # operations that end in a number
MAX_STEPS = 5
MAX_LEVELS = 3  # of steps that need each other's answers: each is a search and a call to the model

_BEFORE, _AFTER = r"[^\w\n]{0,4}\d{0,2}[.)]?[^\S\n]*+\**", r"\**[^\S\n]*:"  # of the word that a step begins with
_LINE = re.compile(  # an empty step goes on in the next line, unless that is a step itself
    rf"^{_BEFORE}(?P<kind>ask|compute){_AFTER}[^\S\n]*(?:\n\s*+(?!{_BEFORE}(?:ask|compute){_AFTER}))?(?P<rest>.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_REFERENCE = re.compile(r"\[(\d)\]")
_NUMBER = r"[$€£]?\d+(?:[.,]\d+)*"
_OPERAND = re.compile(rf"\[\d\]|{DATE}|\d+(?:\.\d+)?\s(?:day|week|month|year)s?\b|{_NUMBER}", re.IGNORECASE)
_COUNTED = re.compile(r"(?P<facts>(?:\[\d\][\s,;]*(?:and\s+)?)+)(?P<condition>\S.*)")
_TESTS: dict[Test, str] = {
    "before": "before",
    "after": "after",
    "since": "since",
    "until": "until",
    "at least": "at least|>=",
    "at most": "at most|<=",
    "more than": "more than|over|>",
    "less than": "less than|under|<",
    "is": "is",
}
_CONDITIONS = {
    test: re.compile(rf"(?:{words})(?:\s+|(?<=\W))(?P<limit>\S.*)", re.IGNORECASE) for test, words in _TESTS.items()
}
_MAX_LIMIT = 40  # characters of what facts are held against
_EXPRESSION = re.compile(r"[\d.()+\-*/ ]{3,60}")
_SIGNS = str.maketrans({"x": "*", "X": "*", "×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", ",": ""})
_PROPER = re.compile(r"(?<=[a-z,] )[a-z]?[A-Z]+[a-z\d]")  # the beginning of a name within a question
_SHORT_WORD = 3  # letters of a word that names nothing ("of", "the")
_ASK_CHOICE = frozenset("which who is are does do did was were has have".split())
_PREPOSITIONS = frozenset("on in of at for from with by to".split())
_ASKS_NUMBER = re.compile(r"\W*(?:by )?how (?:much|many)\b", re.IGNORECASE)
_LARGER = "heavi larg bigg tall long high fast wid deep strong great"
_SMALLER = "light small short low slow narrow weak few cheap"
_COMPARISONS: dict[Operation, tuple[str, ...]] = {
    "earlier": ("first", "earlier", "earliest", "older", "oldest"),
    "later": ("last", "later", "latest", "newer", "newest", "younger", "youngest"),
    "larger": (*(f"{word}{end}" for word in _LARGER.split() for end in ("er", "est")), "more", "most"),
    "smaller": (*(f"{word}{end}" for word in _SMALLER.split() for end in ("er", "est")), "less", "least"),
}
_POINTS = ("this", "these", "those", "the photo", "the picture", "the image", "left", "right", "middle")
_COMBINES = re.compile(
    r"\b(?:together|in total|altogether|twice|half|times|(?:than|at least|at most) (?:an? )?[\w$€£]*\d)", re.IGNORECASE
)
_OPPOSITES = re.compile(r"\b(?:before|more|[a-z]+er)(?: than)? or (?:\w+ )?(?:after|less|[a-z]+er)\b", re.IGNORECASE)
"""Two orders of which a question asks for the right one, so that neither yes nor no answers it."""


@dataclass(frozen=True)
class AskStep:
    """Question for one fact about one thing; ``[n]`` is the answer to step n."""

    question: str

    @property
    def needs(self) -> tuple[int, ...]:
        """Numbers of the steps whose answers the question contains."""
        return tuple(map(int, _REFERENCE.findall(self.question)))

    def about(self, answers: Sequence[str]) -> str:
        """Insert the answers (of steps 1, 2, ...) into the question."""
        return _REFERENCE.sub(lambda match: answers[int(match.group(1)) - 1], self.question)


@dataclass(frozen=True)
class Condition:
    """A test of a fact: ``before 1990``, ``more than 10 cents``, ``is yes``."""

    test: Test
    limit: str  # a date, a quantity or words, as the plan writes it

    def __str__(self) -> str:
        """Format the condition as a plan contains it."""
        return f"{self.test} {self.limit}"


@dataclass(frozen=True)
class ComputeStep:
    """An operation on answers to earlier steps, and on numbers and dates of the question or of the text in the photo."""

    operation: Operation
    operands: tuple[str, ...]  # ``[n]``, or a number or date as the plan writes it; of ``value`` a printed calculation
    condition: Condition | None = None  # of ``count``

    @property
    def needs(self) -> tuple[int, ...]:
        """Numbers of the steps that it is computed from."""
        return tuple(number for each in self.operands if (number := parse_reference(each)) is not None)


def parse_reference(operand: str) -> int | None:
    """Return the number of the step that an operand refers to; None for a number of the question."""
    match = _REFERENCE.fullmatch(operand)
    return int(match.group(1)) if match else None


Step = AskStep | ComputeStep


@dataclass(frozen=True)
class Plan:
    """The steps of a question, numbered from 1; a step needs only earlier steps.

    Attributes:
        is_partial: Whether a line of the model's plan is no step. The others may answer another question.
    """

    steps: tuple[Step, ...]
    is_partial: bool = False

    @property
    def asks(self) -> tuple[AskStep, ...]:
        """The steps that ask."""
        return tuple(step for step in self.steps if isinstance(step, AskStep))

    @property
    def independent(self) -> bool:
        """Whether no question needs the answer to another."""
        return not any(ask.needs for ask in self.asks)

    def levels(self) -> list[list[int]]:
        """Group the indices of the steps that ask: those that can be asked together share a list."""
        depth: dict[int, int] = {}
        for place, step in enumerate(self.steps):
            below = max((depth[number - 1] for number in step.needs), default=0)
            depth[place] = below + isinstance(step, AskStep)
        levels: dict[int, list[int]] = {}
        for place, step in enumerate(self.steps):
            if isinstance(step, AskStep):
                levels.setdefault(depth[place], []).append(place)
        return [levels[level] for level in sorted(levels)]

    def __str__(self) -> str:
        """Format the plan as the model writes it."""
        return "\n".join(f"{number}. {_format_step(step)}" for number, step in enumerate(self.steps, start=1))


def _format_step(step: Step) -> str:
    if isinstance(step, AskStep):
        return f"ask: {step.question}"
    text = f"compute: {step.operation} {' '.join(step.operands)}"
    return text if step.condition is None else f"{text} {step.condition}"


def parse_plan(text: str) -> Plan:
    """Parse the steps of a reply.

    Returns:
        A plan without the lines that are no step, need a missing step or exceed ``MAX_STEPS``; it is partial then.
    """
    steps: list[Step] = []
    lines = list(_LINE.finditer(text))
    for match in lines[:MAX_STEPS]:
        step = _step(match["kind"].lower(), match["rest"].strip())
        if step is not None and all(1 <= number <= len(steps) for number in step.needs):
            steps.append(step)
    return Plan(tuple(steps), is_partial=len(steps) < len(lines))


def _step(kind: str, rest: str) -> Step | None:
    if not rest:
        return None
    if kind == "ask":
        return AskStep(rest)
    operation, _, operands = rest.partition(" ")
    name = operation.lower().strip(":,")
    if name == "value":
        return ComputeStep("value", (operands.strip(),)) if parse_calculation(operands) else None
    if name == "count":
        return _count(operands.strip())
    parts = tuple(_OPERAND.findall(operands))
    alike = len(set(parts)) < 2 and any(parse_reference(part) for part in parts)
    if name not in OPERATIONS or len(parts) < 2 or alike:  # with one operand there is nothing to compute
        return None
    return ComputeStep(name, parts)  # type: ignore[arg-type]


def _count(count_text: str) -> ComputeStep | None:
    """Parse a count; None if it counts fewer than two facts or has no condition."""
    match = _COUNTED.fullmatch(count_text)
    condition = parse_condition(match["condition"]) if match is not None else None
    if match is None or condition is None:
        return None
    facts = tuple(dict.fromkeys(re.findall(r"\[\d\]", match["facts"])))
    return ComputeStep("count", facts, condition) if len(facts) > 1 else None


def parse_condition(text: str) -> Condition | None:
    """Parse a condition.

    Returns:
        None if the words are no condition, or compare a date or a number to something else.
    """
    for test, pattern in _CONDITIONS.items():
        if (match := pattern.fullmatch(text.strip(" .;,\n"))) is None:
            continue
        limit = match["limit"].strip(" \"'")
        if not limit or len(limit) > _MAX_LIMIT or "[" in limit:
            return None
        return Condition(test, limit) if _fits(test, limit) else None
    return None


def _fits(test: Test, limit: str) -> bool:
    """Return whether a limit suits its test: a date or a number where the test needs one."""
    if test in ("before", "after", "since", "until"):
        try:
            return parse_day(limit).year != 0
        except ValueError:
            return False
    return test == "is" or re.search(r"\d", limit) is not None


def parse_calculation(text: str) -> str | None:
    """Convert a printed calculation ("12 x 15 + 20 = ?") to Python's signs; None if the text is no calculation."""
    plain = " ".join(DECIMAL_COMMA.sub(".", text.partition("=")[0]).translate(_SIGNS).split())
    if _EXPRESSION.fullmatch(plain) is None or "**" in plain.replace(" ", "") or "//" in plain.replace(" ", ""):
        return None
    return plain if re.search(r"\d\s*\)*\s*[-+*/]\s*[(-]*\s*[\d.]", plain) else None


def complete_plan(plan: Plan, question: str, things: Sequence[str], lines: Sequence[str] = ()) -> Plan | None:
    """Return the completed plan, or None if one prompt does as well.

    A plan is refused if it has a single step, lost a step, asks for what no later step needs, asks the same twice, points ("this", "the
    left one"), names nothing, asks for a comparison instead of computing it, has to say which of two orders is right ("before or after"),
    ranks single facts where the question compares a sum, a multiple or a limit, or computes with a figure that neither the question nor
    the photo says.

    Args:
        plan: The plan as the model wrote it.
        question: The question that it answers.
        things: Names of the things in the photo.
        lines: Text in the photo.
    """
    if plan.is_partial or not _extract_figures(plan) <= _list_said_figures(" ".join((question, *lines))):
        return None
    if plan.steps and not plan.asks and lines:
        return plan if _needs_all(plan) else None
    if not plan.asks or any(
        count_phrases(ask.question, _POINTS) or not _names(ask, (*things, *lines)) for ask in plan.asks
    ):
        return None
    if len({ask.question.lower() for ask in plan.asks}) < len(plan.asks):
        return None
    if any(_needs_computed(plan, ask) for ask in plan.asks):  # everything is computed after the last answer
        return None
    computed = [step for step in plan.steps if isinstance(step, ComputeStep)]
    by_words = any(step.condition is not None and step.condition.test == "is" for step in computed)
    if computed and not by_words and any(asks_yes_or_no(ask.question) for ask in plan.asks):
        return None
    if computed and asks_yes_or_no(question) and _OPPOSITES.search(question):
        return None
    whole = _add_comparison(plan, question)
    last = whole.steps[-1]
    if _ranks(last) and not _needs_computed(whole, last) and _COMBINES.search(alpha2digit(question, "en", threshold=0)):
        return None
    is_short = len(whole.asks) <= MAX_STEPS and len(whole.levels()) <= MAX_LEVELS
    return whole if len(whole.steps) > 1 and is_short and _needs_all(whole) else None


def _ranks(step: Step) -> bool:
    """Return whether a step says which of several facts is the larger, smaller, earlier or later one."""
    return isinstance(step, ComputeStep) and step.operation in _COMPARISONS


def _needs_all(plan: Plan) -> bool:
    """Return whether every step but the last is needed by another one, or repeats the last."""
    needed = {number for step in plan.steps for number in step.needs}
    return all(number in needed or step == plan.steps[-1] for number, step in enumerate(plan.steps[:-1], start=1))


def _needs_computed(plan: Plan, step: Step) -> bool:
    """Return whether a step needs the result of a computation."""
    return any(isinstance(plan.steps[number - 1], ComputeStep) for number in step.needs)


def _extract_figures(plan: Plan) -> set[str]:
    """Return the figures that a plan computes with, without references."""
    operands = (operand for step in plan.steps if isinstance(step, ComputeStep) for operand in step.operands)
    return {figure for operand in operands if parse_reference(operand) is None for figure in FIGURE.findall(operand)}


def _list_said_figures(text: str) -> set[str]:
    """Return the figures of a text, with those that it says in words ("two kilos")."""
    return {*FIGURE.findall(text), *FIGURE.findall(alpha2digit(text, "en", threshold=0))}


def remove_qualifier(thing: str) -> str:
    """Return a name as a sentence contains it: "Mercury (planet)" is Mercury."""
    return thing.partition(" (")[0]


def _names(ask: AskStep, things: Sequence[str]) -> bool:
    """Return whether a step names its subject: a thing or text of the photo, an earlier answer, or a proper name."""
    words = {word for thing in things for word in thing.lower().split() if len(word) > _SHORT_WORD}
    question_words = ask.question.lower().replace("?", " ").split()
    return bool(ask.needs or words & set(question_words) or _PROPER.search(ask.question))


def _add_comparison(plan: Plan, question: str) -> Plan:
    """Add the comparison that the question asks for if the plan lacks it, or computes a number in its place."""
    comparison = find_comparison(question)
    if comparison is None:
        return plan
    last = plan.steps[-1]
    if isinstance(last, ComputeStep) and last.operation in _NUMBERS:
        return Plan((*plan.steps[:-1], replace(last, operation=comparison)))
    if len(plan.steps) == len(plan.asks) > 1 and plan.independent:
        references = tuple(f"[{number}]" for number in range(1, len(plan.steps) + 1))
        return Plan((*plan.steps, ComputeStep(comparison, references)))
    return plan


def find_comparison(question: str) -> Operation | None:
    """Return the operation by which a question compares several things; None if it compares nothing or asks by how much."""
    if not _is_choice(question) or _ASKS_NUMBER.match(question):
        return None
    return next((operation for operation, words in _COMPARISONS.items() if count_phrases(question, words)), None)


def _is_choice(question: str) -> bool:
    words = re.findall(r"\w+", question.lower())
    first = words[words[0] in _PREPOSITIONS :][:1] if words else []
    return not _ASK_CHOICE.isdisjoint(first) or not {"or", "than"}.isdisjoint(words)
