"""Rules for questions that take steps, questions about printed text, and printed calculations."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agents.english.bridging import has_bridge
from agents.english.dates import DATE
from agents.english.question_kinds import classify_question, is_about_several
from agents.english.step_plans import ComputeStep, Plan, parse_calculation
from agents.english.step_results import BOUNDED, BY_HOW_MUCH
from agents.texts.text import count_phrases

_COMPUTED = re.compile(rf"{DATE}[^?]{{0,300}}\b(?:when|which (?:date|day))\b", re.IGNORECASE)
_COMPUTED_PHRASES = ("how old was", "with the numbers", *BY_HOW_MUCH, *BOUNDED)
_PRINTED = (
    *"price prices cost costs pay label labels sign signs receipt number numbers total".split(),
    *("how much is", "how much are", "come to"),
)
_TO_BE_WORKED_OUT = re.compile(r"=\s*+\??\s*+$")


def needs_steps(question: str) -> bool:
    """Return whether the words of a question show that one fact about one thing cannot answer it."""
    return (
        is_about_several(question)
        or has_bridge(question)
        or count_phrases(question, _COMPUTED_PHRASES) > 0
        or _COMPUTED.search(question) is not None
    )


def mentions_printed_text(question: str) -> bool:
    """Return whether printed text of the photo may be part of the answer: prices, labels, numbers, a calculation."""
    kind = classify_question(question)
    return kind.text or kind.calculation or count_phrases(question, _PRINTED) > 0


def plan_calculation(lines: Sequence[str]) -> Plan | None:
    """Plan to work out the single calculation that a photo shows with nothing behind its "="; None if there is no such one."""
    calculations = [line for line in lines if _TO_BE_WORKED_OUT.search(line) and parse_calculation(line)]
    return Plan((ComputeStep("value", (calculations[0],)),)) if len(calculations) == 1 else None
