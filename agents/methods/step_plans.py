"""Plans of a question that takes several steps: each step asks one fact of one named thing, or computes from earlier answers.

Typed steps that name each thing, with code for the sums, answered 21 of 44 such questions of the mini set's validation by hand, a plan
written freely 15, one prompt 8 (docs/steps.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from agents.methods.question_kinds import asks_yes_or_no, named_number

Operation = Literal["sum", "difference", "product", "ratio", "larger", "smaller", "earlier", "later"]

OPERATIONS: frozenset[str] = frozenset(get_args(Operation))
MAX_STEPS = 5
MAX_LEVELS = 3  # of steps that need each other's answers: each is a search and a call to the model

_LINE = re.compile(
    r"^\W{0,4}\d{0,2}[.)]?\s*\**(?P<kind>ask|compute)\**\s*:\s*(?P<rest>\S.*)$", re.IGNORECASE | re.MULTILINE
)
_REFERENCE = re.compile(r"\[(\d)\]")
_OPERAND = re.compile(r"\[\d\]|[$€£]?\d+(?:[.,]\d+)*")
_PROPER = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
_SHORT_WORD = 3  # letters of a word that names nothing ("of", "the")
_CHOICE = re.compile(r"\W*(?:which|who|is|are|does|do|did|was|were|has|have)\b|.*\b(?:or|than)\b", re.IGNORECASE)
_COMPARISONS: dict[Operation, re.Pattern[str]] = {
    "earlier": re.compile(r"\b(?:first|earlier|earliest|older|oldest)\b", re.IGNORECASE),
    "later": re.compile(r"\b(?:last|later|latest|newer|newest|younger|youngest)\b", re.IGNORECASE),
    "larger": re.compile(
        r"\b(?:heavier|heaviest|larger|largest|bigger|biggest|taller|tallest|longer|longest|higher|highest|faster|fastest|wider|widest|"
        r"deeper|deepest|more|most|greater|greatest)\b",
        re.IGNORECASE,
    ),
    "smaller": re.compile(
        r"\b(?:lighter|lightest|smaller|smallest|shorter|shortest|lower|lowest|slower|slowest|narrower|less|least|fewer|fewest|cheaper|"
        r"cheapest)\b",
        re.IGNORECASE,
    ),
}
_POINTS = re.compile(r"\b(?:this|these|those|the photo|the picture|the image|left|right|middle)\b", re.IGNORECASE)


@dataclass(frozen=True)
class AskStep:
    """One fact about one thing; ``[n]`` in the question stands for the answer to step n."""

    question: str

    @property
    def needs(self) -> tuple[int, ...]:
        """Numbers of the steps whose answers stand in the question."""
        return tuple(map(int, _REFERENCE.findall(self.question)))

    def about(self, answers: Sequence[str]) -> str:
        """The question with answers (of steps 1, 2, ...) in their places."""
        return _REFERENCE.sub(lambda found: answers[int(found.group(1)) - 1], self.question)


@dataclass(frozen=True)
class ComputeStep:
    """An operation on answers to earlier steps and on numbers of the question."""

    operation: Operation
    operands: tuple[str, ...]  # ``[n]``, or a number as the plan writes it

    @property
    def needs(self) -> tuple[int, ...]:
        """Numbers of the steps that it is computed from."""
        return tuple(number for each in self.operands if (number := reference(each)) is not None)


def reference(operand: str) -> int | None:
    """The number of the step that an operand refers to; None for a number of the question."""
    found = _REFERENCE.fullmatch(operand)
    return int(found.group(1)) if found else None


def _all_steps(count: int) -> tuple[str, ...]:
    """References to so many steps, as operands."""
    return tuple(f"[{number}]" for number in range(1, count + 1))


Step = AskStep | ComputeStep


@dataclass(frozen=True)
class Plan:
    """The steps of a question, numbered from 1; a step needs only steps before it."""

    steps: tuple[Step, ...]

    @property
    def asks(self) -> tuple[AskStep, ...]:
        """The steps that ask."""
        return tuple(step for step in self.steps if isinstance(step, AskStep))

    @property
    def independent(self) -> bool:
        """Whether no question needs the answer to another."""
        return not any(ask.needs for ask in self.asks)

    def levels(self) -> list[list[int]]:
        """Places (from 0) of the steps that ask, those that can be asked together in one list."""
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
        """As the model writes it."""
        return "\n".join(f"{number}. {_written(step)}" for number, step in enumerate(self.steps, start=1))


def _written(step: Step) -> str:
    if isinstance(step, AskStep):
        return f"ask: {step.question}"
    return f"compute: {step.operation} {' '.join(step.operands)}"


def parse_plan(text: str) -> Plan:
    """The steps of a reply as far as they are steps; one that needs a step which is not there before it is left out, with what needs it."""
    steps: list[Step] = []
    number_of: dict[int, int] = {}  # as written to as kept
    for written, found in enumerate(_LINE.finditer(text), start=1):
        step = _step(found["kind"].lower(), found["rest"].strip(), number_of)
        if step is not None and len(steps) < MAX_STEPS:
            steps.append(step)
            number_of[written] = len(steps)
    return Plan(tuple(steps))


def _step(kind: str, rest: str, number_of: dict[int, int]) -> Step | None:
    if not {int(number) for number in _REFERENCE.findall(rest)} <= number_of.keys():
        return None
    rest = _REFERENCE.sub(lambda found: f"[{number_of[int(found.group(1))]}]", rest)
    if kind == "ask":
        return AskStep(rest)
    operation, _, operands = rest.partition(" ")
    name = operation.lower().strip(":,")
    parts = tuple(_OPERAND.findall(operands))
    if name not in OPERATIONS or len(set(parts)) < 2:  # with one operand there is nothing to compute
        return None
    return ComputeStep(name, parts)  # type: ignore[arg-type]


def usable(plan: Plan, question: str, things: Sequence[str]) -> Plan | None:
    """The plan made whole, or None where it is no better than one prompt.

    Refused are plans of a single step, those that ask the same twice, point ("this", "the left one") or name nothing, and those that
    ask for a comparison instead of computing it. Where a question counts more things than were asked about, the same is asked of them.

    Args:
        things: Names of what the photo shows.
    """
    if not plan.asks or any(_POINTS.search(ask.question) or not _names(ask, things) for ask in plan.asks):
        return None
    if len({ask.question.lower() for ask in plan.asks}) < len(plan.asks):
        return None
    computes = any(isinstance(step, ComputeStep) for step in plan.steps)
    if computes and any(asks_yes_or_no(ask.question) for ask in plan.asks):
        return None
    whole = _of_all(_compared(plan, question), question, things)
    whole = Plan(whole.steps[:MAX_STEPS])
    return whole if len(whole.steps) > 1 and len(whole.levels()) <= MAX_LEVELS else None


def bare_name(thing: str) -> str:
    """A name as it stands in a sentence: "Mercury (planet)" is Mercury."""
    return thing.partition(" (")[0]


def _names(ask: AskStep, things: Sequence[str]) -> bool:
    """Whether a step says what it is about: a thing of the photo, an earlier answer, or a name of its own."""
    words = {word for thing in things for word in thing.lower().split() if len(word) > _SHORT_WORD}
    asked = ask.question.lower().replace("?", " ").split()
    return bool(ask.needs or words & set(asked) or _PROPER.search(ask.question) or not things)


def _compared(plan: Plan, question: str) -> Plan:
    """The plan with the comparison that the words of the question ask for, where it lacks one or takes a difference instead."""
    wanted = comparison(question)
    last = plan.steps[-1]
    if wanted is None:
        return plan
    if isinstance(last, ComputeStep):
        return Plan((*plan.steps[:-1], replace(last, operation=wanted))) if last.operation == "difference" else plan
    if len(plan.asks) > 1 and plan.independent:
        return Plan((*plan.steps, ComputeStep(wanted, _all_steps(len(plan.steps)))))
    return plan


def comparison(question: str) -> Operation | None:
    """What a question compares several things by, by its words; None where it compares nothing."""
    if _CHOICE.match(question) is None:
        return None
    return next((operation for operation, pattern in _COMPARISONS.items() if pattern.search(question)), None)


def _of_all(plan: Plan, question: str, things: Sequence[str]) -> Plan:
    """The plan with the fact asked of every thing that the question counts, where it computes and asks it of some of them."""
    last = plan.steps[-1]
    if (
        not isinstance(last, ComputeStep)
        or named_number(question) != len(things)
        or len(plan.steps) - 1 != len(plan.asks)
        or not plan.independent
    ):
        return plan
    bare = [bare_name(thing) for thing in things]
    named = {thing: ask for thing in bare for ask in plan.asks if thing.lower() in ask.question.lower()}
    missing = [thing for thing in bare if thing not in named]
    if not missing or not named:
        return plan
    thing, pattern = next(iter(named.items()))
    at = pattern.question.lower().index(thing.lower())
    before, after = pattern.question[:at], pattern.question[at + len(thing) :]
    asks = [*plan.asks, *(AskStep(f"{before}{other}{after}") for other in missing)]
    return Plan((*asks, ComputeStep(last.operation, _all_steps(len(asks)))))
