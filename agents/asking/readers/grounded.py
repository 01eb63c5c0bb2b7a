"""Replies of a model that answers from photo and evidence, or asks for more, and its choice between proposed answers."""

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

_REQUEST = re.compile(r"^\W{0,3}(?P<what>search|open|look)\W{0,2}:(?P<words>[^\n]*)", re.IGNORECASE | re.MULTILINE)
_MAX_PART = 60  # characters of the phrase for a part of the photo
_CALCULATION = re.compile(r"\[\[([^\[\]]{1,80})\]\]")
_NUMBER = re.compile(r"[\d.,\s]+")
_SOURCES = re.compile(r"(?<!\s)\s*+\[(?P<names>(?:photo|own|\d{1,2})(?:, ?(?:photo|own|\d{1,2}))*)\]", re.IGNORECASE)
_CHOSEN = re.compile(r"\W{0,4}(?:answer )?(?P<choice>[ab]|none|neither|no)\b", re.IGNORECASE)


@dataclass(frozen=True)
class GroundedReply:
    """An answer with its sources, or a request for more, which is no answer.

    Attributes:
        candidate: The answer without marks of its sources, its calculations computed; None if there is none.
        queries: Queries for missing facts.
        pages: Numbers of the chunks whose whole pages it wants to read, from 1.
        part: Phrase for a part of the photo that it wants to see enlarged and searched for, else "".
        chunks: Numbers of the chunks that the answer names, from 1.
        from_photo: Whether it names the photo.
        is_own: Whether it says that it rests on the model's own knowledge.
        fault: Why a calculation cannot be computed, else "".
    """

    candidate: Candidate | None = None
    queries: tuple[str, ...] = ()
    pages: tuple[int, ...] = ()
    part: str = ""
    chunks: tuple[int, ...] = ()
    from_photo: bool = False
    is_own: bool = False
    fault: str = ""

    @property
    def asks_for_more(self) -> bool:
        """Whether the model asks for more instead of answering."""
        return bool(self.queries or self.pages or self.part)


def read_grounded(reply: ChatReply) -> GroundedReply:
    """Read an answer with marks of its sources and with calculations, or a request for more."""
    requests = {match["what"].lower(): match["words"] for match in _REQUEST.finditer(reply.text)}
    if requests and reply.finish_reason != "error":
        queries = [query.strip(" \"'") for query in requests.get("search", "").split(";")]
        return GroundedReply(
            queries=tuple(strings(queries, MAX_MISSING)),
            pages=tuple(map(int, re.findall(r"\b\d{1,2}\b", requests.get("open", ""))))[:MAX_MISSING],
            part=requests.get("look", "").strip(" .\"'")[:_MAX_PART],
        )
    candidate = read_candidate(reply)
    if candidate is None:
        return GroundedReply()
    try:
        text, calculations = _CALCULATION.subn(lambda match: _compute(match[1]), candidate.text)
    except ComputationError as error:
        return GroundedReply(fault=str(error))
    sources = [name.strip().lower() for mark in _SOURCES.finditer(text) for name in mark["names"].split(",")]
    plain = _SOURCES.sub("", text).strip()
    if not plain:
        return GroundedReply()
    return GroundedReply(
        dataclasses.replace(candidate, text=plain, origin="computed" if calculations else None),
        chunks=tuple(dict.fromkeys(int(name) for name in sources if name.isdigit())),
        from_photo="photo" in sources,
        is_own="own" in sources,
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


GROUNDED = ReplyForm("grounded answer", read_grounded, lambda said, _: said.candidate is not None or said.asks_for_more)
CHOICE = ReplyForm("choice of an answer", read_choice, lambda said, _: said.choice is not None)
