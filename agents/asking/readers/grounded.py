"""Replies of a model that answers from photo and evidence, or names missing facts, and its choice between proposed answers."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Literal

from agents.asking.ask import ReplyForm
from agents.asking.readers.answers import read_candidate
from agents.english.computation import ComputationError, calculate
from agents.models.base import ChatReply
from agents.texts.replies import strings
from agents.turn import Candidate

MAX_MISSING = 3
"""Queries for missing facts, as the prompt says."""

_SEARCH = re.compile(r"^\W{0,3}search\W{0,2}:(?P<queries>[^\n]*)", re.IGNORECASE | re.MULTILINE)
_CALCULATION = re.compile(r"\[\[([^\[\]]{1,80})\]\]")
_NUMBER = re.compile(r"[\d.,\s]+")
_SOURCE = re.compile(r"(?<!\s)\s*+\[(?:(?P<photo>photo)|(?P<numbers>\d{1,2}(?:, ?\d{1,2})*))\]", re.IGNORECASE)
_CHOSEN = re.compile(r"\W{0,4}(?:answer )?(?P<choice>[ab]|none|neither|no)\b", re.IGNORECASE)


@dataclass(frozen=True)
class GroundedReply:
    """An answer with its sources, or queries for missing facts.

    Attributes:
        candidate: The answer without marks of its sources, its calculations computed; None if there is none.
        queries: Queries for missing facts; then there is no answer.
        chunks: Numbers of the chunks that the answer names, from 1.
        from_photo: Whether it names the photo.
        fault: Why a calculation cannot be computed, else "".
    """

    candidate: Candidate | None = None
    queries: tuple[str, ...] = ()
    chunks: tuple[int, ...] = ()
    from_photo: bool = False
    fault: str = ""


def read_grounded(reply: ChatReply) -> GroundedReply:
    """Read an answer with marks of its sources and with calculations, or queries for missing facts."""
    search = _SEARCH.search(reply.text)
    if search is not None and reply.finish_reason != "error":
        queries = [query.strip(" \"'") for query in search["queries"].split(";")]
        return GroundedReply(queries=tuple(strings(queries, MAX_MISSING)))
    candidate = read_candidate(reply)
    if candidate is None:
        return GroundedReply()
    try:
        text, calculations = _CALCULATION.subn(lambda match: _compute(match[1]), candidate.text)
    except ComputationError as error:
        return GroundedReply(fault=str(error))
    marks = list(_SOURCE.finditer(text))
    numbers = [int(number) for mark in marks if mark["numbers"] for number in mark["numbers"].split(",")]
    plain = _SOURCE.sub("", text).strip()
    if not plain:
        return GroundedReply()
    return GroundedReply(
        dataclasses.replace(candidate, text=plain, origin="computed" if calculations else None),
        chunks=tuple(dict.fromkeys(numbers)),
        from_photo=any(mark["photo"] for mark in marks),
    )


def _compute(calculation: str) -> str:
    """Compute a calculation, and write its result without separators of thousands: it may be a year. A mere number is its own result."""
    return calculation.strip() if _NUMBER.fullmatch(calculation) else str(calculate(calculation)).replace(",", "")


Choice = Literal["A", "B", "none"]


@dataclass(frozen=True)
class ChosenAnswer:
    """Which of the proposed answers is right; ``probability``: of that choice against the others, where alternatives are given."""

    choice: Choice | None = None
    probability: float | None = None


def read_choice(reply: ChatReply) -> ChosenAnswer:
    """Read a reply of one letter, or none."""
    match = _CHOSEN.match(reply.text) if reply.finish_reason != "error" else None
    if match is None:
        return ChosenAnswer()
    choice = _name_choice(match["choice"])
    shares: dict[Choice, float] = {}
    for token, probability in (reply.first_token_probs or {}).items():
        named = _CHOSEN.match(token.strip() + " ")
        if named is not None:
            other = _name_choice(named["choice"])
            shares[other] = shares.get(other, 0.0) + probability
    total = sum(shares.values())
    return ChosenAnswer(choice, shares.get(choice, 0.0) / total if total else None)


def _name_choice(word: str) -> Choice:
    letter = word.upper()
    return "A" if letter == "A" else "B" if letter == "B" else "none"


GROUNDED = ReplyForm("grounded answer", read_grounded, lambda said, _: said.candidate is not None or bool(said.queries))
CHOICE = ReplyForm("choice of an answer", read_choice, lambda said, _: said.choice is not None)
