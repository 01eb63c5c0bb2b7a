"""Why each lost turn of one's own questions was lost, and what would mend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agents.record import TurnRecord
from agents.unanswered import explain_error, name_cause
from evaluation.judge.plain_text import tokenise
from evaluation.records import JudgedTurn, Key
from evaluation.studies.result_tables import ResultTable, shorten

Reason = Literal["not recognised", "not found", "withheld", "wrong", "unjudged", "error"]
REASONS: tuple[Reason, ...] = ("not recognised", "not found", "withheld", "wrong", "unjudged", "error")

_POLARITY = {("yes",), ("no",)}
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
        judged = self.judged
        if judged.turn.error_cause is not None:
            return True
        return not judged.miss if not self.answers else not judged.correct

    @property
    def is_unjudged(self) -> bool:
        """True if only the judge can say whether it is right, and the judge failed; any answer that must not be given is wrong."""
        return self.judged.judge_failed and bool(self.answers)


@dataclass(frozen=True)
class LostTurn:
    """A lost turn: why, in detail, and what would mend it."""

    question: JudgedQuestion
    reason: Reason
    detail: str
    mend: str

    @property
    def key(self) -> Key:
        """Identifier of the turn."""
        return self.question.judged.turn.key


def find_lost_turns(turns: Sequence[JudgedQuestion], collection: str) -> list[LostTurn]:
    """Explain the lost turns, in the order of ``REASONS``.

    Args:
        turns: All turns of a run.
        collection: Folder of the collection as it is written on a command line.
    """
    lost = [_explain(each, f"crag calibrate {collection}") for each in turns if each.is_lost]
    return sorted(lost, key=lambda each: REASONS.index(each.reason))


def _explain(question: JudgedQuestion, calibrate: str) -> LostTurn:
    judged, record = question.judged, question.record
    if judged.turn.error_cause is not None:
        why = (explain_error(record) if record is not None else None) or name_cause(judged.turn.error_cause)
        return LostTurn(question, "error", why, "mend what failed, then ask again with --resume")
    source = "a page, or a column of the table, that says it"
    if not judged.miss:
        answer_text = f"it said: {judged.turn.agent_response}"
        if question.is_unjudged:
            return LostTurn(
                question, "unjudged", answer_text, "a usable reply of the judge: ask it again with --resume"
            )
        if not question.answers:
            return LostTurn(question, "wrong", f"{answer_text}; it must not be answered", calibrate)
        entity_note = f"; the photo was taken for {record.entity}" if record is not None and record.entity else ""
        return LostTurn(question, "wrong", answer_text + entity_note, calibrate if _has_evidence(question) else source)
    if record is None:
        return LostTurn(question, "withheld", "the agent keeps no record of its turns", "")
    nearest = record.nearest
    if question.photo and nearest is not None and not _is_right_candidate(question):
        reason = f"; {nearest.left_out}" if nearest.left_out else ""
        detail = f"nearest: {nearest.name} (cosine {nearest.score:.2f}{reason})"
        return LostTurn(question, "not recognised", detail, f"a photo like {question.photo} among those of its exhibit")
    if not _has_evidence(question):
        return LostTurn(question, "not found", "no evidence holds an accepted answer", source)
    decision = record.decision
    candidate = decision.candidate if decision is not None else None
    held_back = f"would have said: {candidate}" if candidate else "the model did not answer from the evidence"
    why = f" ({decision.reason})" if decision is not None and decision.reason else ""
    return LostTurn(
        question,
        "withheld",
        held_back + why,
        calibrate if candidate else "clearer words in the source, or another model",
    )


def _is_right_candidate(question: JudgedQuestion) -> bool:
    decision = question.record.decision if question.record is not None else None
    return decision is not None and _holds_answer(decision.candidate or "", question.answers)


def _has_evidence(question: JudgedQuestion) -> bool:
    """Return whether the evidence holds an accepted answer. A yes or a no stands in no evidence, so that any will do."""
    record = question.record
    if record is None:
        return False
    if any(tuple(tokenise(answer)) in _POLARITY for answer in question.answers):
        return bool(record.evidence)
    return any(_holds_answer(each.text, question.answers) for stage in record.stages for each in stage.evidence)


def _holds_answer(text: str, answers: Sequence[str]) -> bool:
    """Return whether the words of an answer stand in a text, one after the other."""
    text_words = f" {' '.join(tokenise(text))} "
    return any(f" {words} " in text_words for answer in answers if (words := " ".join(tokenise(answer))))


def count_outcomes(turns: Sequence[JudgedQuestion]) -> str:
    """Count what became of the questions, in a sentence."""
    answerable = [each for each in turns if each.answers]
    others = [each for each in turns if not each.answers]
    right = sum(not each.is_lost for each in answerable)
    unjudged = sum(each.is_unjudged for each in turns)
    wrong = sum(each.judged.hallucination for each in turns) - unjudged
    summary = f"{right} of {len(answerable)} questions answered right, {wrong} answered wrong"
    summary += f", {unjudged} not judged" if unjudged else ""
    declined = sum(not each.is_lost for each in others)
    return summary + (f", {declined} of {len(others)} declined that must not be answered" if others else "")


def build_tables(lost: Sequence[LostTurn], longest: int | None = None) -> list[ResultTable]:
    """Build the table of lost turns and the one of what to mend.

    Args:
        lost: The lost turns.
        longest: Most characters of a text; None: all.
    """
    if not lost:
        return []
    longest = longest if longest is None else min(longest, _MAX_CHARACTERS)
    counts = Counter(each.reason for each in lost)
    notes = [", ".join(f"{reason}: {counts[reason]}" for reason in REASONS if counts[reason])]
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
    return [*tables, ResultTable("What would mend it", ("what", "turns", "questions"), mend_rows, words=True)]


def build_content(turns: Sequence[JudgedQuestion], lost: Sequence[LostTurn]) -> dict[str, Any]:
    """Return the content of lost.json."""
    return {
        "summary": count_outcomes(turns),
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
