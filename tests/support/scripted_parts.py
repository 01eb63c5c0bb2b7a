"""Scripted models and a search that answer at once, so that what a fault costs is seen and nothing else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from agents.models.base import Box, ChatReply, ChatRequest, Detection, FloatArray, Label, Mask, TextLine
from agents.search.hits import SearchError
from agents.time_limits.deadline import NO_DEADLINE, Deadline

ANSWER = "The Eiffel Tower is 330 metres high."
PICTURE = "https://i.example/1.jpg"
PAGES = ("https://p.example/0", "https://p.example/1")
_TOKENS = (-0.01,) * 9
_REPLY = """Reason: the photo shows it, and [Info 1] gives it.
Answer: {answer}
Response: Correct Answer
Confidence: 1.0
Final answer: {answer}"""
_NUMBER = re.compile(r"tower (\d+-\d+)")
_CITING = "[1][3]"  # stands in prompts that want citations
_TOOL = '{"tool": "web_search", "box": null'  # in the prompt of the agent that chooses its searches


def numbers_in(text: str) -> list[str]:
    """Which of the numbered towers of the trials' questions a text names."""
    return _NUMBER.findall(text)


def _height(text: str) -> str:
    """The height of the tower that a text named last."""
    numbers = numbers_in(text)
    return f"The tower {numbers[-1]} is 330 metres high." if numbers else ANSWER


class Chat:
    """Names the tower that it is asked about, in a form that most prompts can read."""

    name = "scripted"

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """A reply for each request."""
        del deadline
        return [self.reply(request) for request in requests]

    def reply(self, request: ChatRequest) -> ChatReply:
        """The reply to one request."""
        prompt = "\n".join(message.content for message in request.messages)
        if _TOOL in prompt and "You called" not in prompt:
            return ChatReply(f'{_TOOL}, "query": "How high is it?"}}', "stop")
        answer = _height(prompt)
        if _CITING in prompt:
            answer = f"{answer[:-1]} [1]."
        return ChatReply(_REPLY.format(answer=answer), "stop", _TOKENS if request.logprobs else None)


class Reranker:
    """Every passage speaks to every question."""

    name = "scripted"

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """0.9 for each pair."""
        return np.full(len(pairs), 0.9, dtype=np.float32)


class Encoder:
    """Vectors by the words' digests."""

    name = "scripted"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Shape (len(texts), 16), each of length 1."""
        rows = [np.frombuffer(hashlib.sha256(text.encode()).digest()[:16], dtype=np.uint8) for text in texts]
        vectors = np.asarray(rows, dtype=np.float32).reshape(len(texts), 16) + 1.0
        unit: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def encode_tokens(self, texts: Sequence[str]) -> list[FloatArray]:
        """One vector a word."""
        return [self.encode(text.split() or [""]) for text in texts]


class Sight:
    """Reads a line, names a class, finds a box and a domain in every picture, which belongs to any text."""

    name = "scripted"

    def read(self, images: Sequence[Image.Image]) -> list[list[TextLine]]:
        """A line in each image."""
        return [[TextLine("EIFFEL", Box(0, 0, 9, 9), 0.9)] for _ in images]

    def recognise(self, images: Sequence[Image.Image], k: int = 5) -> list[list[Label]]:
        """A class for each image."""
        return [[Label("tower", 0.9)][:k] for _ in images]

    def detect(self, images: Sequence[Image.Image], phrases: Sequence[Sequence[str]]) -> list[list[Detection]]:
        """A box in each image."""
        del phrases
        return [[Detection(Box(4, 4, 120, 120), "tower", 0.9)] for _ in images]

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> FloatArray:
        """Every picture belongs to its text."""
        return np.ones(len(texts), dtype=np.float32)

    def segment(self, images: Sequence[Image.Image], boxes: Sequence[Sequence[Box]]) -> list[list[Mask]]:
        """All of each image, for each box."""
        return [
            [np.ones((image.height, image.width), dtype=np.bool_) for _ in own]
            for image, own in zip(images, boxes, strict=True)
        ]

    def find(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """A name in each text."""
        return [("Eiffel Tower",) for _ in texts]

    def classify(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> list[list[Label]]:
        """A domain for each question."""
        del images
        return [[Label("sightseeing (local)", 0.9)] for _ in questions]


class Search:
    """The organiser's contract: a tower for each picture, two pages for each text."""

    attributes: Any = {"height": "{{convert|330|m|ft}}", "architect": "[[Stephen Sauvestre]]"}  # noqa: RUF012 - replaced whole, never changed

    page_folder = picture_folder = Path("/nowhere")  # not the caches of this machine

    def __call__(self, query: Any, k: int = 5) -> Any:
        """Results of one query."""
        return self.pages(query)[:k] if isinstance(query, str) else self.pictures()[:k]

    def pictures(self) -> Any:
        """What an image finds."""
        entity = {"entity_name": "Eiffel Tower", "entity_attributes": self.attributes}
        return [{"index": 0, "score": 0.9, "url": PICTURE, "entities": [entity]}]

    def pages(self, query: str) -> Any:
        """What a text finds."""
        del query
        return [
            {
                "index": f"{url}_chunk_0",
                "score": 0.9 - n / 10,
                "page_name": "Eiffel Tower",
                "page_snippet": f"The Eiffel Tower is 330 metres high. It has {n + 3} floors.",
                "page_url": url,
            }
            for n, url in enumerate(PAGES)
        ]


def ready(chat: Any = None, reranker: Any = None, sight: Any = None, encoder: Any = None) -> dict[str, Any]:
    """Models for every role that a preset may ask for."""
    talk, order, see = chat or Chat(), reranker or Reranker(), sight or Sight()
    return {
        **dict.fromkeys(("chat", "small_chat"), talk),
        **dict.fromkeys(("reranker", "coarse_reranker", "fine_reranker"), order),
        **dict.fromkeys(
            ("ocr", "recogniser", "detector", "segmenter", "matcher", "entity_finder", "domain_classifier"), see
        ),
        "text_encoder": encoder or Encoder(),
    }


class BrokenSearch:
    """A search that raises, as one whose index is gone does."""

    def __call__(self, query: Any, k: int = 5) -> Any:
        raise SearchError("the index is gone")
