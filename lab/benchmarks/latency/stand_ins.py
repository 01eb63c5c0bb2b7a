"""Models and search that answer while calls are timed.

What is slow on a CPU, and the picture cache, have stand-ins. Everything else is asked once for each item.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from agents.models.base import Box, ChatReply, ChatRequest, Detection, FloatArray, MultimodalPair
from agents.profiles.model_set import ModelSet
from agents.search.gateway import SearchGateway
from agents.search.hits import ImageHit, Results, WebHit
from agents.search.provided_context import ProvidedContext
from agents.time_limits.deadline import NO_DEADLINE, Deadline

CHAT_ROLES = ("chat", "small_chat")

TEXT = """1. The exact name of the object that the question is about is unknown.
2. I cannot determine the figure that the question is about.
Reason: the evidence names it [1].
Relevant documents: [1] [2]
Information: it was opened in 1889 [1].
Response: yes
Confidence: 0.7
External: yes
Current: no
Answer: It was opened in 1889 and made by a company from Paris [1]."""
"""Holds every label that a prompt asks for; the draft knows neither object nor answer, so that nothing is cut short."""

_MISSING = "search: height of the landmark tower"
_MISSING_EVERY = 8
"""A large multimodal model asked for a second search in 6 of 58 questions that combine facts (lab/notes/strong_model.md)."""

_WORDS = "landmark tower"


class StandInChat:
    """``ChatModel`` whose replies follow the schema of a request, or hold every label."""

    name = "stand-in"

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Reply to each request."""
        del deadline
        replies = []
        for request in requests:
            text = TEXT if request.schema is None else json.dumps(make_example(request.schema))
            text = _MISSING if _lacks_fact(request) else text
            logprobs = (-0.1,) * min(request.max_tokens, 20) if request.logprobs else None
            replies.append(ChatReply(text, "stop", logprobs))
        return replies


def _lacks_fact(request: ChatRequest) -> bool:
    """Return whether a prompt that offers a search for a missing fact takes it: one in ``_MISSING_EVERY`` does."""
    first, last = request.messages[0].content, request.messages[-1].content
    return "search: and a query" in first and int(hashlib.sha256(last.encode()).hexdigest(), 16) % _MISSING_EVERY == 0


def make_example(schema: Mapping[str, Any]) -> Any:
    """Make a value that follows a JSON schema: true, 1, a name, and lists of three."""
    if "enum" in schema:
        return "search" if "search" in schema["enum"] else schema["enum"][0]  # the look's: the way with most calls
    kind = schema.get("type", "")
    if kind == "object":
        return {name: make_example(inner) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        inner = schema.get("items", {"type": "string"})
        if inner.get("type") == "string" and "enum" not in inner:
            return [f"{_WORDS} {word}" for word in ("north", "south", "east")]  # alike ones would be dropped
        return [make_example(inner)] * 3
    return {"boolean": True, "integer": 1, "number": 0.7}.get(str(kind), _WORDS)  # a list of types cannot be a key


class PicturedSearch(SearchGateway):
    """Search whose picture cache holds every picture of the index, and whose cosines pass every threshold.

    The picture cache is as at the competition. What the search found is kept in ``known`` for later searches.
    """

    def __init__(self, pipeline: Any, known_answers: dict[Hashable, Any] | None = None) -> None:
        super().__init__(pipeline)
        self._known_answers = {} if known_answers is None else known_answers

    def search_images(
        self,
        images: Sequence[Image.Image],
        k: int,
        provided: Sequence[ProvidedContext | None] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> list[Results[ImageHit]]:
        """Search as the gateway does, in the same order, with cosines of at least 0.8.

        Thresholds of the GPU's profile are for CLIP, whose cosines are higher than those of the features that search here: evidence and
        queries that the GPU's presets would have must not be missing from what is timed.
        """
        del provided, deadline
        raised = []
        for result in answer_each(
            self._known_answers, ("images", k), lambda new: super(PicturedSearch, self).search_images(new, k), images
        ):
            hits = (dataclasses.replace(hit, score=0.8 + 0.2 * max(hit.score, 0.0)) for hit in result.hits)
            raised.append(Results(tuple(hits), result.error))
        return raised

    def search_web(
        self,
        queries: Sequence[str],
        k: int,
        provided: Sequence[ProvidedContext | None] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> list[Results[WebHit]]:
        """Search as the gateway does."""
        del provided, deadline
        return answer_each(
            self._known_answers, ("web", k), lambda new: super(PicturedSearch, self).search_web(new, k), queries
        )

    def pictures(
        self, urls: Iterable[str], fetch: bool = False, deadline: Deadline = NO_DEADLINE
    ) -> dict[str, Image.Image]:
        """Return a plain picture for each URL, because what a picture shows costs no time."""
        del fetch, deadline
        return {url: Image.new("RGB", (640, 480)) for url in urls if url}


class RememberedModel:
    """Model that is asked once for each item; its answers are kept in ``known``."""

    def __init__(self, behind: Any, role: str, known_answers: dict[Hashable, Any]) -> None:
        self._behind, self._role, self._known_answers = behind, role, known_answers

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._behind, name)
        if name not in ("encode", "classify"):
            return value

        def ask(*parallel: Sequence[Any]) -> Any:
            answers = answer_each(self._known_answers, (self._role, name), value, *parallel)
            return np.stack(answers) if answers and isinstance(answers[0], np.ndarray | np.generic) else answers

        return ask


def answer_each(
    known_answers: dict[Hashable, Any], kind: Hashable, ask: Callable[..., Sequence[Any]], *parallel: Sequence[Any]
) -> list[Any]:
    """Answer items, given as parallel sequences, and call ``ask`` only for those that are not in ``known_answers``."""
    rows = list(zip(*parallel, strict=True))
    keys = [(kind, *map(_key, row)) for row in rows]
    new = {key: row for key, row in zip(keys, rows, strict=True) if key not in known_answers}
    if new:
        known_answers.update(zip(new, ask(*map(list, zip(*new.values(), strict=True))), strict=True))
    return [known_answers[key] for key in keys]


def _key(item: Any) -> Hashable:
    if isinstance(item, Image.Image):
        return item.size, hashlib.sha1(item.tobytes(), usedforsecurity=False).digest()
    return tuple(item) if isinstance(item, list) else item


class StandInReranker:
    """Reranker that scores every passage highly, so that no threshold leaves out what is timed.

    Passages with words of the question score a little higher.
    """

    name = "stand-in"

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return scores of at least 0.9."""
        return np.array([_score(*pair) for pair in pairs], dtype=np.float32)


class StandInMultimodalReranker(StandInReranker):
    """Stand-in of the GPU's coarse reranker, which is given the picture too."""

    def score_multimodal(self, items: Sequence[MultimodalPair]) -> FloatArray:
        """Return scores of at least 0.9."""
        return self.score([(item.question, item.passage) for item in items])


class StandInDetector:
    """Detector that finds three boxes in every picture."""

    name = "stand-in"

    def detect(self, images: Sequence[Image.Image], phrases: Sequence[Sequence[str]]) -> list[list[Detection]]:
        """Return thirds of each picture, side by side."""
        detections = []
        for image, words in zip(images, phrases, strict=True):
            side = image.width / 3
            boxes = (Box(side * place, 0.0, side * (place + 1), float(image.height)) for place in range(3))
            detections.append([Detection(box, words[0] if words else "object", 0.9) for box in boxes])
        return detections


class StandInMatcher:
    """Matcher that takes every crop to belong to its question."""

    name = "stand-in"

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> FloatArray:
        """Return 0.9 for each picture."""
        del texts
        return np.full(len(images), 0.9, dtype=np.float32)


def _score(question: str, passage: str) -> float:
    words = set(question.lower().split())
    return 0.9 + 0.1 * len(words & set(passage.lower().split())) / max(1, len(words))


STAND_INS: Mapping[str, Any] = {
    "reranker": StandInReranker(),
    "coarse_reranker": StandInMultimodalReranker(),
    "fine_reranker": StandInReranker(),
    "detector": StandInDetector(),
    "matcher": StandInMatcher(),
}
"""Stand-ins of the models that would take minutes on a CPU and answer with numbers alone."""


def replace_chat(models: ModelSet, role: str) -> Any:
    """Return the model of a role, or the stand-in of a chat model."""
    return StandInChat() if role in CHAT_ROLES else models.get(role)
