"""Why a turn ended as "I don't know". Everybody who tells causes apart asks here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from agents.base.files import one_line
from agents.record import Exchange, StageRecord, TurnRecord, Unanswered
from agents.texts.refusals import refuses

WORDS: Final[Mapping[Unanswered, str]] = {
    Unanswered.NO_EVIDENCE: "no evidence was found",
    Unanswered.REFUSED: "the model gave no answer",
    Unanswered.WITHHELD: "the answer was withheld",
    Unanswered.TIME: "the time was up",
    Unanswered.MODEL: "the model failed",
    Unanswered.BUSY: "the model's server is busy, broken or cannot be reached",
    Unanswered.SEARCH: "the search failed",
    Unanswered.STAGE: "a stage failed",
    Unanswered.PICTURE: "the photo could not be read",
    Unanswered.AGENT: "the agent failed",
}
"""The causes for people."""

SEARCH_ERROR = "search_error"
"""Note in which a stage that searches says why its search failed."""

_Fault = tuple[Unanswered, str]  # with what was said of it


def why_unanswered(record: TurnRecord) -> Unanswered | None:
    """Return why a turn was not answered; None for an answered one.

    The agent writes the cause into the record, before texts are left out of it. For a turn that has just ended it is found in the stages.
    """
    if record.unanswered is not None:
        return record.unanswered
    decision = record.decision
    if decision.given if decision is not None else record.answer and not refuses(record.answer):
        return None
    return find_cause(record.stages, decision.candidate if decision is not None else None, record.error)


def name_outcome(cause: Unanswered | None) -> Literal["answered", "declined", "error"]:
    """Return how a turn ended, by the cause for which it was not answered; None: it was."""
    return "answered" if cause is None else "error" if cause.is_error else "declined"


def name_cause(cause: str) -> str:
    """Return the words of a cause that a file names; an unknown one is its own name."""
    return next((words for member, words in WORDS.items() if member.value == cause), cause)


def find_cause(stages: Sequence[StageRecord], candidate: str | None, error: str | None = None) -> Unanswered:
    """Find out why a turn without an answer has none.

    A failure of a model, a search or a stage counts whether or not there was a candidate: what failed may have been its evidence or its
    verification. Of several the last counts. Want of time counts if there is nothing to give: a preset that is slow for its machine leaves
    stages out by design, and an answer withheld then is a decision.

    Args:
        stages: Records of the stages.
        candidate: The withheld answer; None if there was none.
        error: ``TurnRecord.error``. Nobody but the reader of the photo sets it without a failure or a refusal in a stage.
    """
    faults = _find_faults(stages, candidate)
    if faults:
        return faults[-1][0]
    has_refusal = any(exchange.is_refusal for stage in stages for exchange in stage.exchanges)
    if error is not None and not has_refusal:
        return Unanswered.PICTURE
    is_refusal = candidate is None or refuses(candidate)
    if not is_refusal:
        return Unanswered.WITHHELD
    has_evidence = any(stage.evidence for stage in stages)
    if any(map(_is_late, stages)) and (candidate is None or not has_evidence):
        return Unanswered.TIME
    has_reply = candidate is None and any(stage.exchanges for stage in stages)
    return Unanswered.REFUSED if has_evidence or has_reply else Unanswered.NO_EVIDENCE


def explain_error(record: TurnRecord) -> str | None:
    """Say in one line what failed on a turn that is an error; None for other turns."""
    cause = why_unanswered(record)
    if cause is None or not cause.is_error:
        return None
    candidate = record.decision.candidate if record.decision is not None else None
    reasons = [text for fault, text in _find_faults(record.stages, candidate) if fault is cause and text]
    detail = reasons[-1] if reasons else record.error if cause is not Unanswered.TIME else None
    return one_line(f"{WORDS[cause]}: {detail}" if detail else WORDS[cause]).rstrip(".")


def _find_faults(stages: Sequence[StageRecord], candidate: str | None) -> list[_Fault]:
    return [fault for stage in stages for fault in _find_stage_faults(stage, candidate is None)]


def _find_stage_faults(stage: StageRecord, nothing_to_give: bool) -> Iterator[_Fault]:
    for exchange in stage.exchanges:
        if exchange.is_refusal:
            continue
        if exchange.finish_reason == "error":
            yield Unanswered.BUSY if exchange.no_answer else Unanswered.MODEL, exchange.error or ""
        elif nothing_to_give and exchange.finish_reason == "length" and not exchange.reply:
            yield Unanswered.MODEL, _explain_length(exchange)
    reason = stage.reason or str(stage.notes.get(SEARCH_ERROR) or "")
    if stage.fault is not None:
        yield stage.fault, f"{stage.stage}: {reason}" if reason else stage.stage


def _explain_length(exchange: Exchange) -> str:
    limit = "" if exchange.max_tokens is None else f" of {exchange.max_tokens} tokens"
    return f"{exchange.prompt}: the reply reached its limit{limit} before its first word"


def _is_late(stage: StageRecord) -> bool:
    """Return whether a stage was left out for want of time, or asked a model that did not reply before the deadline."""
    if not stage.complete and stage.cause in ("time", "hanging"):
        return True
    return any(exchange.finish_reason == "abort" and not exchange.reply for exchange in stage.exchanges)
