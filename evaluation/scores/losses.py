"""How far the right answer of a turn came, and why the turn was lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from agents.english.plain_text import normalise_text, tokenise
from agents.english.quantities import normalise_quantities
from agents.record import EvidenceFound, StageRecord, TurnRecord, Unanswered
from agents.texts.refusals import refuses
from agents.unanswered import why_unanswered
from evaluation.records import JudgedTurn

_POLARITY = {("yes",), ("no",)}

Source = tuple[str, str]
"""Name and text of an indexed source."""


class Loss(StrEnum):
    """Why a turn was lost, which means neither answered right nor rightly declined: the first place where its right answer was missing."""

    NOT_INDEXED = "not indexed"
    NOT_SEARCHED = "not searched"
    CUT = "cut"
    NOT_PICTURED = "not pictured"
    NOT_RECOGNISED = "not recognised"
    NOT_FOUND = "not found"
    NOT_SHOWN = "not shown"
    NOT_USED = "not used"
    WITHHELD = "withheld"
    DECLINED = "declined"
    WRONG = "wrong"
    UNJUDGED = "unjudged"
    ERROR = "error"


LOSSES: Final[Mapping[Loss, str]] = {
    Loss.NOT_INDEXED: "nothing that was indexed holds the answer",
    Loss.NOT_SEARCHED: "nothing was searched for",
    Loss.CUT: "a page that holds the answer was found, and the prompt shows other parts of it",
    Loss.NOT_PICTURED: "no picture that was found shows the thing",
    Loss.NOT_RECOGNISED: "the thing in the photo was not recognised",
    Loss.NOT_FOUND: "no evidence holds the answer",
    Loss.NOT_SHOWN: "the answer was found, and no prompt showed it",
    Loss.NOT_USED: "a prompt showed the answer, and the model did not give it",
    Loss.WITHHELD: "the right answer was held back by a rule or the gate",
    Loss.DECLINED: "the model declined, and nobody knows whether it was shown the answer",
    Loss.WRONG: "the answer is wrong, or none was to be given",
    Loss.UNJUDGED: "the judge gave no verdict",
    Loss.ERROR: "something failed",
}
"""The losses for people."""


@dataclass(frozen=True)
class Way:
    """How far the right answer of a lost turn came; None: nobody knows.

    Attributes:
        is_declined: Whether the answer is "I don't know".
        is_withheld: Whether there was a candidate that is right, or may be for all that is known.
    """

    is_error: bool = False
    is_unjudged: bool = False
    is_declined: bool = False
    is_answerable: bool = True
    is_withheld: bool = False
    is_pictured: bool | None = None
    is_recognised: bool | None = None
    is_indexed: bool | None = None
    is_searched: bool | None = None
    is_cut: bool | None = None
    is_found: bool | None = None
    is_shown: bool | None = None


def find_loss(way: Way) -> Loss:
    """Return why a turn was lost."""
    if way.is_error:
        return Loss.ERROR
    if way.is_unjudged:
        return Loss.UNJUDGED
    if not way.is_answerable:
        return Loss.WRONG
    if way.is_declined and way.is_withheld:
        return Loss.WITHHELD
    if way.is_shown:
        return Loss.NOT_USED
    if way.is_cut:
        return Loss.CUT
    if way.is_found:
        return Loss.NOT_SHOWN
    if way.is_indexed is False:
        return Loss.NOT_INDEXED
    if way.is_searched is False and way.is_recognised is None:
        return Loss.NOT_SEARCHED
    if way.is_pictured is False:
        return Loss.NOT_PICTURED
    if way.is_recognised is False:
        return Loss.NOT_RECOGNISED
    if way.is_found is False:
        return Loss.NOT_FOUND
    return Loss.DECLINED if way.is_declined else Loss.WRONG


@dataclass(frozen=True)
class Sighting:
    """Chunk of evidence that has an accepted answer, where it came farthest.

    Attributes:
        source: Its page, or the name of its subject.
        rank: Its place in the evidence of ``stage``, from 1.
        stage: The last stage that kept it.
        kept: Number of chunks that the next stage kept, which dropped it, or ``stage`` itself if a prompt showed it.
        dropped_by: Name of that next stage; "" if a prompt showed it, or if no stage came after.
        is_prefix: Whether the next stage kept the first chunks of ``stage``, in their order.
    """

    source: str
    rank: int
    stage: str
    kept: int
    dropped_by: str = ""
    is_prefix: bool = False
    is_shown: bool = False


@dataclass(frozen=True)
class Explained:
    """Why a turn was lost, with the evidence for it."""

    loss: Loss
    sighting: Sighting | None = None
    sources: tuple[str, ...] = ()


def is_lost(judged: JudgedTurn, *, answerable: bool) -> bool:
    """Return whether a turn is neither answered right nor rightly declined."""
    if judged.turn.error_cause is not None:
        return True
    return not judged.correct if answerable else not judged.miss


def explain_loss(
    judged: JudgedTurn,
    record: TurnRecord | None,
    answers: Sequence[str],
    *,
    answerable: bool,
    indexed: Sequence[Source] | None = None,
) -> Explained | None:
    """Explain why a turn was lost; None for any other turn.

    Args:
        judged: The turn with its verdict.
        record: Its record, if the agent keeps one.
        answers: The accepted short answers; none if nobody knows them.
        answerable: Whether it is to be answered.
        indexed: All indexed sources; None if they cannot be read.
    """
    if not is_lost(judged, answerable=answerable):
        return None
    decision = record.decision if record is not None else None
    candidate = (decision.candidate if decision is not None else None) or ""
    has_candidate = bool(candidate) and not refuses(candidate)
    cause = why_unanswered(record) if record is not None and judged.miss else None
    trail = follow_answer(record, answers, indexed)
    way = replace(
        trail.way,
        is_error=judged.turn.error_cause is not None,
        is_unjudged=judged.judge_failed and answerable,
        is_declined=judged.miss,
        is_answerable=answerable,
        is_withheld=has_candidate and (holds_answer(candidate, answers) if answers else cause is Unanswered.WITHHELD),
    )
    if not answers and cause is Unanswered.NO_EVIDENCE:
        way = replace(way, is_found=False)
    return Explained(find_loss(way), trail.sighting, trail.sources)


@dataclass(frozen=True)
class Trail:
    """How far an accepted answer came, with the evidence for it."""

    way: Way
    sighting: Sighting | None = None
    sources: tuple[str, ...] = ()


def follow_answer(record: TurnRecord | None, answers: Sequence[str], indexed: Sequence[Source] | None = None) -> Trail:
    """Follow an accepted answer through index, evidence and prompt.

    Args:
        record: The record of the turn, if there is one.
        answers: The accepted short answers; none if nobody knows them.
        indexed: All indexed sources; None if they cannot be read.
    """
    sources = find_sources(indexed, answers) if indexed is not None and answers else ()
    if record is None:
        is_indexed = bool(sources) if indexed is not None and answers and not is_polar(answers) else None
        return Trail(Way(is_indexed=is_indexed), None, sources)
    is_recognised = False if record.nearest is not None else None
    if not answers:
        return Trail(Way(is_recognised=is_recognised))
    sighting = find_answer(record, answers)
    is_found = sighting is not None
    way = Way(
        is_recognised=is_recognised,
        is_indexed=None if indexed is None or is_polar(answers) else bool(sources) or is_found,
        is_searched=_has_searched(record),
        is_cut=_is_cut(record, sighting, sources),
        is_found=is_found,
        is_shown=sighting is not None and sighting.is_shown,
    )
    return Trail(way, sighting, sources)


def find_answer(record: TurnRecord, answers: Sequence[str]) -> Sighting | None:
    """Find the chunk with an accepted answer that came farthest; None if no evidence has one.

    The last stage that kept evidence and asked a model is the one whose prompt showed it. A chunk is read with its title, and the name of a
    recognised thing counts too, as prompts show both. A yes or a no is in no evidence, so that any chunk counts for it.
    """
    stages = [stage for stage in record.stages if stage.evidence]
    showing = find_showing_stage(record)
    polar = is_polar(answers)
    found: Sighting | None = None
    for stage in [*([showing] if showing is not None else []), *reversed(stages)]:
        for place, chunk in enumerate(stage.evidence):
            if found is None and (polar or _chunk_holds(chunk, answers)):
                found = _describe(stage, place, chunk, stages, is_shown=stage is showing)
    return found if found is not None and found.is_shown else _find_shown_name(record, answers) or found


def find_showing_stage(record: TurnRecord) -> StageRecord | None:
    """Return the last stage that kept evidence and asked a model: its prompt showed the evidence."""
    return next((stage for stage in reversed(record.stages) if stage.evidence and stage.exchanges), None)


def _find_shown_name(record: TurnRecord, answers: Sequence[str]) -> Sighting | None:
    """Find a name of picture search that is an accepted answer and that a later prompt showed.

    Without recorded requests only the name of the recognised thing counts, which prompts show.
    """
    named = next((place for place, stage in enumerate(record.stages) if stage.pictures or stage.entity), None)
    if named is None:
        return None
    candidates = [*filter(None, [record.entity]), *(picture.name for picture in record.pictures)]
    names = [name for name in candidates if holds_answer(name, answers)]
    for stage in reversed(record.stages[named:]):
        texts = [message.content for each in stage.exchanges for message in each.messages]
        shown = names if texts else [name for name in names if name == record.entity]
        if stage.exchanges and any(not texts or name in text for name in shown for text in texts or [""]):
            return Sighting("image search", 1, stage.stage, 1, is_shown=True)
    return None


def _chunk_holds(chunk: EvidenceFound, answers: Sequence[str]) -> bool:
    return holds_answer(f"{chunk.title}: {chunk.text}" if chunk.title else chunk.text, answers)


def _has_searched(record: TurnRecord) -> bool | None:
    """Return whether a stage has found anything or looked for it; None for a record without stages."""
    if not record.stages:
        return None
    return bool(record.searches) or any(stage.pictures or stage.evidence for stage in record.stages)


def _is_cut(record: TurnRecord, sighting: Sighting | None, sources: Sequence[str]) -> bool:
    """Return whether a part of a source with the answer was found, and the prompt shows none with the answer.

    Either the prompt shows the beginning of the chunk, or other chunks of the page were found.
    """
    if sighting is None:
        found = {chunk.url or chunk.title for stage in record.stages for chunk in stage.evidence}
        return not found.isdisjoint(sources)
    showing = find_showing_stage(record)
    if sighting.is_shown or showing is None or not showing.evidence:
        return False
    whole = next(stage for stage in reversed(record.stages) if stage.stage == sighting.stage).evidence[
        sighting.rank - 1
    ]
    return any(
        each.text != whole.text
        and whole.text.startswith(each.text)
        and (each.title, each.url) == (whole.title, whole.url)
        for each in showing.evidence
    )


def _describe(
    stage: StageRecord, place: int, chunk: EvidenceFound, stages: Sequence[StageRecord], *, is_shown: bool
) -> Sighting:
    source = chunk.url or chunk.title or chunk.source
    position = next(number for number, each in enumerate(stages) if each is stage)
    after = None if is_shown or position + 1 == len(stages) else stages[position + 1]
    if after is None:
        return Sighting(source, place + 1, stage.stage, len(stage.evidence), is_shown=is_shown)
    kept = [each.text for each in after.evidence]
    is_prefix = kept == [each.text for each in stage.evidence[: len(kept)]]
    return Sighting(source, place + 1, stage.stage, len(kept), after.stage, is_prefix)


def find_sources(indexed: Iterable[Source], answers: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the indexed sources that have an accepted answer, each once."""
    return tuple(dict.fromkeys(name for name, text in indexed if holds_answer(text, answers)))


def holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Return whether the words of an answer are in a text, one after the other, with figures in one spelling."""
    words = _spell(text)
    return any(form.strip() and form in words for form in map(_spell, answers))


def is_polar(answers: Sequence[str]) -> bool:
    """Return whether an accepted answer is yes or no, which no text can hold."""
    return any(tuple(tokenise(answer)) in _POLARITY for answer in answers)


@lru_cache(maxsize=4096)
def _spell(text: str) -> str:
    return f" {' '.join(tokenise(normalise_quantities(normalise_text(text))))} "
