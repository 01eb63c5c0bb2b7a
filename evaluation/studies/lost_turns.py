"""Cause and remedy of each lost turn of one's own questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.record import UNSURE_NAME, TurnRecord
from agents.texts.refusals import refuses
from agents.unanswered import explain_error, name_cause
from evaluation.records import JudgedTurn, Key
from evaluation.scores.answer_shown import ShownSummary, find_shown_answer, summarise_shown
from evaluation.scores.losses import (
    LOSSES,
    Explained,
    Loss,
    Sighting,
    Source,
    explain_loss,
    holds_answer,
    is_lost,
)
from evaluation.studies.result_tables import ResultTable, shorten

_MAX_SOURCES = 2
_MAX_CHARACTERS = 90
"""Most characters of a text on the terminal. The files hold all."""


@dataclass(frozen=True)
class JudgedQuestion:
    """A question of a collection with its judged turn.

    Attributes:
        record: Its record, or None.
        answers: The accepted answers; none if it must not be answered.
        photo: Path of its photo for people, or "".
    """

    judged: JudgedTurn
    record: TurnRecord | None
    answers: tuple[str, ...]
    photo: str

    @property
    def is_lost(self) -> bool:
        """True if it is neither answered right nor rightly declined."""
        return is_lost(self.judged, answerable=bool(self.answers))

    @property
    def is_unjudged(self) -> bool:
        """True if only the judge can say whether it is right, and the judge failed; any answer that must not be given is wrong."""
        return self.judged.judge_failed and bool(self.answers)


@dataclass(frozen=True)
class LostTurn:
    """A lost turn with its cause, its details and its remedy."""

    question: JudgedQuestion
    reason: Loss
    detail: str
    mend: str

    @property
    def key(self) -> Key:
        """Identifier of the turn."""
        return self.question.judged.turn.key


GetK = Callable[[str], int | None]
"""Returns the option ``k`` of a stage, which says how many chunks it keeps; None for a stage without one."""


def find_lost_turns(
    turns: Sequence[JudgedQuestion],
    collection: str,
    indexed: Sequence[Source] | None = None,
    get_k: GetK = lambda _: None,
) -> list[LostTurn]:
    """Explain the lost turns, in the order of ``Loss``.

    Args:
        turns: All turns of a run.
        collection: Folder of the collection as it is written on a command line.
        indexed: All indexed sources; None if they cannot be read.
        get_k: Reads the settings of the run.
    """
    lost = [
        _describe(each, explained, f"crag calibrate {collection}", get_k)
        for each in turns
        if (
            explained := explain_loss(
                each.judged, each.record, each.answers, answerable=bool(each.answers), indexed=indexed
            )
        )
        is not None
    ]
    return sorted(lost, key=lambda each: [*Loss].index(each.reason))


def _describe(question: JudgedQuestion, explained: Explained, calibrate: str, get_k: GetK) -> LostTurn:
    """Describe cause and remedy of a lost turn in detail."""
    judged, record, loss, seen = question.judged, question.record, explained.loss, explained.sighting
    sources = _list_sources(explained.sources)
    said = "" if judged.miss else f"it said: {judged.turn.agent_response.rstrip('.')}; "
    entity_note = f"; the photo was taken for {record.entity}" if said and record is not None and record.entity else ""
    like_it = f"a photo like {question.photo} among those of its exhibit"
    if loss is Loss.ERROR:
        why = (explain_error(record) if record is not None else None) or name_cause(judged.turn.error_cause or "")
        return LostTurn(question, loss, why, "mend what failed, then ask again with --resume")
    if loss is Loss.UNJUDGED:
        return LostTurn(question, loss, said.strip("; "), "a usable reply of the judge: ask it again with --resume")
    if loss is Loss.NOT_RECOGNISED and record is not None and (nearest := record.nearest) is not None:
        reason = f"; {nearest.left_out}" if nearest.left_out else ""
        detail = f"{said}nearest: {nearest.name} (cosine {nearest.score:.2f}{reason})"
        return LostTurn(question, loss, detail, like_it)
    if loss is Loss.NOT_INDEXED:
        detail = f"{said}no page and no column has an accepted answer{entity_note}"
        return LostTurn(question, loss, detail, "a page, or a column of the table, that says it")
    if loss is Loss.NOT_SEARCHED:
        holder = f"{sources} says it, and nothing was searched for" if sources else "nothing was searched for"
        return LostTurn(question, loss, f"{said}{holder}", "a question that needs more than its photo")
    if loss is Loss.CUT:
        found = sources or (seen.source if seen is not None else "a page that was found")
        detail = f"{said}other parts of {found} were found or shown"
        return LostTurn(question, loss, detail, "longer chunks: --set evidence.chunk_characters=..., or shorter pages")
    if loss is Loss.NOT_FOUND:
        holder = f"{sources} says it, and is not in the evidence" if sources else "no evidence has an accepted answer"
        if sources and record is not None and record.question not in ("", judged.turn.query):
            read_as = f"; the question was read as: {record.question}"
            return LostTurn(question, loss, f"{said}{holder}{read_as}", "a question that names what it asks about")
        mend = f"words of the question in {sources}" if sources else "a page, or a column of the table, that says it"
        return LostTurn(question, loss, f"{said}{holder}{entity_note}", mend)
    if loss is Loss.NOT_SHOWN and seen is not None:
        detail = f"{said}{seen.source} says it: rank {seen.rank} of {seen.stage}"
        if not seen.dropped_by:
            return LostTurn(question, loss, f"{detail}; no prompt showed evidence", "")
        return LostTurn(question, loss, f"{detail}; {seen.dropped_by} took {seen.kept}", _widen(seen, get_k))
    if loss is Loss.NOT_USED and seen is not None and record is not None and _is_unsure_name(question, record, seen):
        score = next((found.score for found in record.pictures if found.name == record.entity), None)
        cosine = f" (cosine {score:.2f})" if score is not None else ""
        detail = f"{said}the photo was taken for {record.entity}{cosine}, not surely enough to say so"
        return LostTurn(question, loss, detail, like_it)
    if loss is Loss.NOT_USED and seen is not None:
        detail = f"{seen.source} says it: place {seen.rank} of the {seen.kept} shown"
        mend = f"clearer words in {seen.source}, or another model"
        return LostTurn(question, loss, f"{said}{detail}{_tell_candidate(record)}", mend)
    if loss is Loss.WITHHELD:
        ruled_out = record.decision.ruled_out if record is not None and record.decision is not None else None
        rule = like_it if ruled_out == UNSURE_NAME else "the rule that forbids it: finalise in the preset"
        mend = calibrate if ruled_out is None else rule
        return LostTurn(question, loss, _tell_candidate(record).removeprefix("; "), mend)
    if loss is Loss.DECLINED:
        return LostTurn(
            question, loss, "the agent keeps no record of its turns" if record is None else LOSSES[loss], ""
        )
    return LostTurn(question, loss, f"{said}it must not be answered" if not question.answers else said, calibrate)


def _is_unsure_name(question: JudgedQuestion, record: TurnRecord, seen: Sighting) -> bool:
    """Return whether the answer is the name of what the photo was taken for, and no evidence of the photo in the prompt said so."""
    if record.entity is None or not holds_answer(record.entity, question.answers):
        return False
    shown = next((stage.evidence for stage in reversed(record.stages) if stage.stage == seen.stage), ())
    return not any(chunk.source == "kg" and holds_answer(chunk.text, question.answers) for chunk in shown)


def _widen(seen: Sighting, get_k: GetK) -> str:
    """Name the change by which the stage would keep the chunk that it dropped."""
    k = get_k(seen.dropped_by)
    if not seen.is_prefix or k is None:
        return f"words of the question in {seen.source}, which {seen.dropped_by} ranked lower"
    if seen.kept < k:
        return "more room in the prompt: --set limits.evidence_tokens=..., or shorter pages"
    return f"--set {seen.dropped_by}.k={seen.rank}, or fewer columns and pages like it before {seen.source}"


def _tell_candidate(record: TurnRecord | None) -> str:
    """Name the withheld answer and the reason."""
    decision = record.decision if record is not None else None
    if decision is None or decision.given:
        return ""
    if not decision.candidate or refuses(decision.candidate):
        return "; the model declined"
    return f"; would have said: {decision.candidate}" + (f" ({decision.reason})" if decision.reason else "")


def _list_sources(sources: Sequence[str]) -> str:
    """Name the first sources."""
    more = len(sources) - _MAX_SOURCES
    return ", ".join(sources[:_MAX_SOURCES]) + (f" and {more} more" if more > 0 else "")


def count_outcomes(turns: Sequence[JudgedQuestion]) -> str:
    """Count the outcomes of the questions in a sentence."""
    answerable = [each for each in turns if each.answers]
    others = [each for each in turns if not each.answers]
    right = sum(not each.is_lost for each in answerable)
    unjudged = sum(each.is_unjudged for each in turns)
    wrong = sum(each.judged.hallucination for each in turns) - unjudged
    summary = f"{right} of {len(answerable)} questions answered right, {wrong} answered wrong"
    summary += f", {unjudged} not judged" if unjudged else ""
    declined = sum(not each.is_lost for each in others)
    return summary + (f", {declined} of {len(others)} declined that must not be answered" if others else "")


def summarise_answers_shown(
    turns: Sequence[JudgedQuestion], indexed: Sequence[Source] | None = None
) -> ShownSummary | None:
    """Summarise whose accepted answer the answer's prompt shows; None if no record tells it."""
    return summarise_shown(find_shown_answer(each.record, each.answers, indexed) for each in turns)


def build_tables(lost: Sequence[LostTurn], longest: int | None = None) -> list[ResultTable]:
    """Build the table of lost turns and the one of remedies.

    Args:
        lost: The lost turns.
        longest: Most characters of a text; None: all.
    """
    if not lost:
        return []
    longest = longest if longest is None else min(longest, _MAX_CHARACTERS)
    counts = Counter(each.reason for each in lost)
    notes = [", ".join(f"{reason}: {counts[reason]}" for reason in Loss if counts[reason])]
    rows = [
        (
            each.reason,
            each.question.photo or "no photo",
            shorten(each.question.judged.turn.query, longest),
            shorten(" | ".join(each.question.answers) or "(none)", longest),
            shorten(each.detail, longest),
        )
        for each in lost
    ]
    tables = [
        ResultTable("Lost turns", ("why", "photo", "question", "accepted answers", "detail"), rows, notes, words=True)
    ]
    mended: dict[str, list[LostTurn]] = {}
    for each in lost:
        if each.mend:
            mended.setdefault(each.mend, []).append(each)
    mend_rows = [
        (mend, str(len(some)), shorten("; ".join(each.question.judged.turn.query for each in some), longest))
        for mend, some in sorted(mended.items(), key=lambda item: -len(item[1]))
    ]
    return [*tables, ResultTable("Remedies", ("remedy", "turns", "questions"), mend_rows, words=True)]


def build_content(
    turns: Sequence[JudgedQuestion], lost: Sequence[LostTurn], shown: ShownSummary | None = None
) -> dict[str, Any]:
    """Return the content of lost.json."""
    return {
        "summary": count_outcomes(turns),
        "answer_shown": None if shown is None else shown.as_json(),
        "lost": [
            {
                "session_id": each.key[0],
                "interaction_id": each.key[1],
                "photo": each.question.photo or None,
                "question": each.question.judged.turn.query,
                "answers": list(each.question.answers),
                "answer": each.question.judged.turn.agent_response,
                "why": each.reason,
                "detail": each.detail,
                "mend": each.mend,
            }
            for each in lost
        ],
    }
