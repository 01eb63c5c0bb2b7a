"""The outcome of a question as the applications show it, read from the answer and its trace record."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

MOST_SOURCES = 5  # pieces of evidence shown; presets answer from as many or a few more

_FINDERS = ("image_search", "select_entity", "choose_entry")
_RANKERS = ("rerank", "two_stage_rerank", "documents", "coherence")
_CHECKS = ("verify", "consistency", "chain_of_verification", "reconcile", "cite", "finalise")
_NO_CHECK = frozenset({"stage", "seconds", "skipped", "reduced", "candidate", "decision", "reply"})
_ABSTAINED = ("i don't know", "i don’t know")


@dataclass(frozen=True)
class Source:
    """A piece of evidence: ``kind`` is ``kg``, ``web`` or ``image`` (text read in the photo), ``score`` the reranker's, 0 to 1."""

    text: str
    kind: str
    title: str
    url: str
    score: float | None


@dataclass(frozen=True)
class Crop:
    """A part of the photo that was searched with: pixels from its left and upper edges, and what was looked for in it."""

    left: int
    top: int
    right: int
    bottom: int
    phrase: str


@dataclass(frozen=True)
class Time:
    """What a stage took in seconds; ``skipped`` says why it did not run, or failed."""

    stage: str
    seconds: float
    skipped: str | None


@dataclass(frozen=True)
class Outcome:
    """An answer and how it came about; all but the answer is empty for an agent that keeps no trace."""

    answer: str  # as the agent gave it
    question: str = ""  # as the agent understood it, where that is not what was asked
    entity: str | None = None  # what the photo is taken to show
    # Pictures of the knowledge graph that image search found, name and cosine, best first, each name once
    alike: tuple[tuple[str, float], ...] = ()
    crops: tuple[Crop, ...] = ()  # parts of the photo that were searched with
    sources: tuple[Source, ...] = ()  # the evidence, best first
    verdict: str = ""  # the decision of the last stage, ``answered`` or ``abstained: REASON``
    checks: Mapping[str, str | float | bool] | None = None  # what was measured to decide, by ``STAGE.NAME``
    times: tuple[Time, ...] = ()  # the stages in their order; a batch's stages take the same time for each of its turns
    seconds: float = 0.0  # the whole batch
    error: str | None = None  # what went wrong on the way, where something did

    @property
    def abstained(self) -> bool:
        """Whether the agent says that it does not know."""
        return self.answer.strip().lower().startswith(_ABSTAINED)

    def as_json(self) -> dict[str, Any]:
        """Plain values for a JSON document."""
        return {**asdict(self), "abstained": self.abstained}


def outcome_of(answer: str, record: Mapping[str, Any] | None) -> Outcome:
    """An answer together with what its trace record tells (``agents.trace``); None for an agent that keeps none."""
    if record is None:
        return Outcome(answer)
    stages: list[Mapping[str, Any]] = list(record.get("stages", ()))
    notes = {str(stage["stage"]): stage for stage in stages}
    question = str(record.get("question") or "")
    return Outcome(
        answer=answer,
        question="" if question == record.get("query") else question,
        entity=_latest(notes, _FINDERS, "entity"),
        alike=_alike(notes.get("image_search", {}).get("hits") or ()),
        crops=tuple(
            Crop(left, top, right, bottom, str(phrase or ""))
            for left, top, right, bottom, phrase, *_ in notes.get("ground", {}).get("boxes") or ()
        ),
        sources=tuple(map(_source, (_latest(notes, _RANKERS, "evidence") or ())[:MOST_SOURCES])),
        verdict=str(notes.get("finalise", {}).get("decision") or ""),
        checks=_checks(notes),
        times=tuple(Time(str(s["stage"]), float(s["seconds"]), s.get("skipped")) for s in stages),
        seconds=float(record.get("seconds") or 0.0),
        error=record.get("error"),
    )


def _latest(notes: Mapping[str, Mapping[str, Any]], stages: Sequence[str], name: str) -> Any:
    """What the last of some stages says under a name, None where none says anything."""
    said = [notes[stage][name] for stage in notes if stage in stages and name in notes[stage]]
    return said[-1] if said else None


def _alike(hits: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, float], ...]:
    best: dict[str, float] = {}
    for hit in hits:
        best.setdefault(str(hit["name"]) or "(no entity)", float(hit["score"]))
    return tuple(best.items())[:MOST_SOURCES]


def _source(chunk: Mapping[str, Any]) -> Source:
    return Source(
        str(chunk["text"]), str(chunk["source"]), str(chunk["title"]), str(chunk.get("url") or ""), chunk.get("score")
    )


def _checks(notes: Mapping[str, Mapping[str, Any]]) -> dict[str, str | float | bool]:
    """Numbers, truth values and short texts of the stages that judge an answer, in the order they ran; signals of the gate too."""
    checks: dict[str, str | float | bool] = {}
    for stage, entry in notes.items():
        if stage not in _CHECKS:
            continue
        for name, value in entry.items():
            found = value.items() if isinstance(value, Mapping) else [(name, value)]
            checks |= {
                f"{stage}.{key}": known
                for key, known in found
                if name not in _NO_CHECK and isinstance(known, str | int | float) and known != ""
            }
    return checks
