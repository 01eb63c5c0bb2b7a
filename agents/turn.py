"""A Turn: all that is known of one question. Each stage fills its own fields, once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from PIL import Image

from agents.base_agent import Message
from agents.models.base import TextLine
from agents.search.types import Entity, ImageHit, WebHit

IDK = "I don't know"
"""The abstention of the challenge: it scores 0, a wrong answer -1."""

Source = Literal["kg", "web", "image"]


@dataclass(frozen=True)
class Evidence:
    """One chunk that may answer the question.

    Attributes:
        text: The chunk as the models read it, free of markup.
        source: Where it comes from: the image knowledge graph, a web page, or text read in the image.
        title: Entity or page name.
        url: Of the page or of the entity's picture; empty for the image itself.
        retrieval: Cosine of the search that found it, 0 to 1; 1 for the image itself.
        score: What the last reranker said of it, 0 to 1; None before reranking.
        key: Attribute name, for a chunk made of one attribute.
        value: Attribute value, free of markup, for a chunk made of one attribute.
    """

    text: str
    source: Source
    title: str
    url: str = ""
    retrieval: float = 0.0
    score: float | None = None
    key: str | None = None
    value: str | None = None

    def scored(self, score: float) -> Evidence:
        """The same chunk with a reranker's score."""
        return dataclasses.replace(self, score=score)


@dataclass(frozen=True)
class Candidate:
    """A possible answer.

    Attributes:
        text: The answer.
        confidence: How far the maker of the answer trusts it, 0 to 1; None where it cannot say.
        maker: ``generate`` or ``extract``.
        logprobs: Natural log-probabilities of the generated tokens, where the model gives them.
        sentence: The sentence an extracted answer stands in.
    """

    text: str
    confidence: float | None
    maker: Literal["generate", "extract"]
    logprobs: tuple[float, ...] | None = None
    sentence: str = ""


@dataclass
class Turn:
    """One question of a batch, from the evaluator's three arguments to the answer.

    The first block is given, the rest is filled by the stage named beside it. ``trace`` holds one entry a stage.
    """

    query: str
    image: Image.Image | None
    history: tuple[Message, ...] = ()

    question: str = ""  # understand: the query made to stand alone
    needs_image: bool = True  # understand
    image_hits: tuple[ImageHit, ...] = ()  # image_search
    entity: Entity | None = None  # image_search: the entity the picture is taken to show
    entity_score: float = 0.0  # image_search: cosine of the hit that named the entity
    image_text: tuple[TextLine, ...] = ()  # image_text
    queries: tuple[str, ...] = ()  # queries
    web_hits: tuple[WebHit, ...] = ()  # web_search
    evidence: tuple[Evidence, ...] = ()  # evidence
    ranked: tuple[Evidence, ...] | None = None  # rerank: None where no reranking was done
    candidate: Candidate | None = None  # answer, extract
    answer: str = IDK  # finalise

    error: str | None = None
    trace: list[dict[str, Any]] = field(default_factory=list)
    _notes: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def grounded_question(self) -> str:
        """The question together with the name of the entity that the picture is taken to show, where it is about the picture."""
        if self.entity is None or not self.needs_image or self.entity.name.lower() in self.question.lower():
            return self.question
        return f"{self.question} ({self.entity.name})"

    def best_evidence(self, most: int) -> tuple[Evidence, ...]:
        """The chunks to answer from: the reranked ones, else those found first."""
        return (self.evidence if self.ranked is None else self.ranked)[:most]

    def note(self, **fields: Any) -> None:
        """Put what the running stage saw or chose into the trace of this turn (values must be JSON)."""
        self._notes.update(fields)

    def close_stage(self, stage: str, seconds: float, skipped: str | None = None) -> None:
        """Append the trace entry of a stage that has ended or was skipped."""
        self.trace.append({"stage": stage, "seconds": round(seconds, 4), "skipped": skipped, **self._notes})
        self._notes = {}


def with_image(turns: Sequence[Turn]) -> list[Turn]:
    """The turns whose question needs their image and that have one."""
    return [turn for turn in turns if turn.needs_image and turn.image is not None]
