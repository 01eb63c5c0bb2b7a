"""The outcome of a question as the applications show it, read from the answer and its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any

from pydantic import TypeAdapter, ValidationError

from agents.record import Decision, StageRecord, TurnRecord, Unanswered
from agents.texts.refusals import refuses
from agents.texts.text import describe_attribute
from agents.unanswered import explain_error, why_unanswered

MAX_SOURCES = 5  # pieces of evidence shown; presets answer from as many or a few more
CHANGED = "changed since crag index"

_ABSTAINED = ("i don't know", "i don’t know")


@dataclass(frozen=True)
class ShownEvidence:
    """A piece of evidence: its text, its origin, and the reranker's ``score`` from 0 to 1.

    ``kind`` is ``kg``, ``web`` or ``image`` (text read in the photo). ``changed``: its file was edited after ``crag index`` read it.
    """

    text: str
    kind: str
    title: str
    url: str
    score: float | None
    changed: bool = False

    @property
    def name(self) -> str:
        """Path or URL, with a mark if the file changed since it was indexed."""
        return f"{self.url} ({CHANGED})" if self.changed else self.url


@dataclass(frozen=True)
class Crop:
    """A searched region of the photo, in pixels, with the phrase that found it."""

    left: int
    top: int
    right: int
    bottom: int
    phrase: str


@dataclass(frozen=True)
class Time:
    """Seconds that a stage took; ``skipped`` says why it did not run, failed or hung."""

    stage: str
    seconds: float
    skipped: str | None


@dataclass(frozen=True)
class Outcome:
    """An answer and how it came about; without a trace, everything but the answer is empty."""

    answer: str  # as the agent gave it
    question: str = ""  # as the agent understood it, where that is not what was asked
    entity: str | None = None  # what the photo is taken to show
    nearest: tuple[str, float] | None = None  # what is most alike where nothing was recognised, name and cosine
    left_out: str = ""  # why the nearest does not count, besides its cosine
    read: tuple[str, ...] = ()  # lines of text in the photo, where an OCR reader told them to the model
    # Pictures of the knowledge graph that image search found, name and cosine, best first, each name once
    alike: tuple[tuple[str, float], ...] = ()
    crops: tuple[Crop, ...] = ()  # parts of the photo that were searched with
    sources: tuple[ShownEvidence, ...] = ()  # the evidence, best first
    verdict: str = ""  # the decision of the last stage, ``answered`` or ``abstained: REASON``
    explained: str = ""  # the same for people, with how sure the agent is and the answer that it did not give
    withheld: str | None = None  # that answer
    origin: str | None = None  # what a given answer comes from: photo, graph, page, own (knowledge) or computed
    checks: Mapping[str, str | float | bool] | None = None  # measurements to decide
    times: tuple[Time, ...] = ()  # the stages in their order; a batch's stages take the same time for each of its turns
    seconds: float = 0.0  # the whole batch
    error: str | None = None  # what went wrong on the way, where something did
    cause: Unanswered | None = None  # why the answer is "I don't know"

    @property
    def failed(self) -> bool:
        """Whether there is no answer because something failed, which ``error`` explains."""
        return self.cause is not None and self.cause.is_error

    @property
    def abstained(self) -> bool:
        """Whether the agent says that it does not know."""
        return self.answer.strip().lower().startswith(_ABSTAINED)

    @property
    def unrecognised(self) -> str | None:
        """The most similar entity in words; None if the entity was recognised or nothing was found."""
        if self.nearest is None:
            return None
        reason = f"; {self.left_out}" if self.left_out else ""
        return "Not recognised; nearest: {} (cosine {:.2f}{})".format(*self.nearest, reason)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for a JSON document."""
        return {**asdict(self), "abstained": self.abstained}

    def without_error_texts(self) -> Outcome:
        """Copy the outcome for strangers: of an error only stage and kind, because its text may name addresses and paths."""
        times = tuple(replace(time, skipped=_name_kind(time.skipped) or time.skipped) for time in self.times)
        error = None if self.error is None else _name_kind(self.error) or "something failed"
        return replace(self, error=error, times=times)

    @classmethod
    def from_json(cls, values: Any) -> Outcome | None:
        """Rebuild an outcome from what ``as_json`` returned.

        Returns:
            None for anything else.
        """
        try:
            return TypeAdapter(cls).validate_python(values)
        except ValidationError:
            return None


def build_outcome(answer: str, record: TurnRecord | None) -> Outcome:
    """Combine an answer with its record, which is None for an agent without records."""
    if record is None:
        return Outcome(answer)
    scores: dict[str, float] = {}
    explained, withheld = _explain(record.decision)
    for picture in record.pictures:
        scores.setdefault(picture.name or "(no entity)", picture.score)
    return Outcome(
        answer=answer,
        question="" if record.question == record.query else record.question,
        entity=record.entity,
        nearest=(record.nearest.name, record.nearest.score) if record.nearest is not None else None,
        left_out=record.nearest.left_out if record.nearest is not None else "",
        read=record.read,
        alike=tuple(scores.items())[:MAX_SOURCES],
        crops=tuple(
            Crop(round(box.left), round(box.top), round(box.right), round(box.bottom), box.label)
            for box in record.boxes
        ),
        sources=tuple(
            ShownEvidence(
                describe_attribute(each.text, each.title), each.source, each.title, each.url, each.score, each.changed
            )
            for each in record.evidence[:MAX_SOURCES]
        ),
        verdict=str(record.decision or ""),
        explained=explained,
        withheld=withheld,
        origin=record.decision.origin if record.decision is not None and record.decision.given else None,
        checks=record.checks | {name: signal.value for name, signal in record.signals.items()},
        times=tuple(Time(stage.stage, stage.seconds, _explain_gap(stage)) for stage in record.stages),
        seconds=record.seconds,
        error=explain_error(record) or record.error,
        cause=why_unanswered(record),
    )


def _explain(decision: Decision | None) -> tuple[str, str | None]:
    """Explain a decision to people, and return the withheld answer.

    Returns:
        The explanation, or "" without a decision. The withheld answer, or None if there is none or it follows orders out of the evidence.
    """
    if decision is None:
        return "", None
    sure, pulled = decision.sure, f": {decision.pulled}" if decision.pulled else ""
    if decision.given:
        origin = f" from {decision.origin_words}" if decision.origin else ""
        return f"Answered{origin}{': ' if sure else ''}{sure}{pulled}.", None
    reason = decision.reason or "it is not sure enough"
    if decision.follows_orders or not decision.candidate or refuses(decision.candidate):
        return f"{reason[0].upper()}{reason[1:]}.", None
    why = f"{sure}{pulled}" if sure and decision.ruled_out is None else f"not said, because {reason}"
    return f"Would have said “{decision.candidate}”; {why}.", decision.candidate


def _name_kind(error_text: str | None) -> str:
    """Return the words in front of an error's text: a stage or its status, and the type of the error; "" if there are none."""
    return ": ".join(takewhile(str.isidentifier, (error_text or "").split(": ")[:2]))


def _explain_gap(stage: StageRecord) -> str | None:
    if stage.complete:
        return None
    return stage.reason if stage.status == "skipped" else f"{stage.status}: {stage.reason}"
