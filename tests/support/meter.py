"""Counters of the calls of stages to models and to the search, and of their sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.base.box_forms import BoxForm
from agents.models.base import ChatRequest
from agents.profiles.model_set import ModelSet


@dataclass(frozen=True)
class ModelCall:
    """A call of one stage for one batch."""

    stage: str
    role: str  # the role asked, or ``search``
    method: str
    items: int  # requests, pairs, pictures or queries
    characters: int = 0  # of text that goes in, all items together
    pictures: int = 0  # that go in
    reply: int = 0  # tokens that may come back of one item
    # What a prefix cache spares: text and pictures at the beginning of prompts, and pictures that were encoded before
    known_characters: int = 0
    known_pictures: int = 0
    encoded_pictures: int = 0


@dataclass
class CallLog:
    """Calls in the order in which they were made; ``running`` names the stage that makes them."""

    running: Callable[[], str] = str
    calls: list[ModelCall] = field(default_factory=list)

    def add(self, call: ModelCall) -> None:
        """Record a call."""
        self.calls.append(call)

    def take(self) -> list[ModelCall]:
        """Return the calls since the last time, and forget them."""
        calls, self.calls = self.calls, []
        return calls


class Metered:
    """Wrapper of a model or the search that records its calls; all else is passed on."""

    def __init__(self, behind: Any, role: str, log: CallLog) -> None:
        self._behind, self._role, self._log = behind, role, log

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._behind, name)
        size = SIZES.get(name)
        if size is None:
            return value

        def noted(items: Sequence[Any], *more: Any, **named: Any) -> Any:
            if items:
                self._log.add(ModelCall(self._log.running(), self._role, name, len(items), **size(items, more)))
            return value(items, *more, **named)

        return noted


class ModelsBy(ModelSet):
    """Models that a function returns by role, in place of those of a profile."""

    def __init__(  # nothing of its own to load
        self, give: Callable[[str], Any], *, sees: bool = False, boxes: BoxForm = "none"
    ) -> None:
        self._give, self._sees, self._boxes = give, sees, boxes

    @property
    def sees(self) -> bool:
        """Return whether the chat model is shown pictures."""
        return self._sees

    @property
    def boxes(self) -> BoxForm:
        """Return the form of the chat model's boxes."""
        return self._boxes

    def get(self, role: str) -> Any:
        """Return the model of a role."""
        return self._give(role)


def _chat(requests: Sequence[ChatRequest], _: tuple[Any, ...]) -> dict[str, int]:
    return {
        "characters": sum(len(message.content) for request in requests for message in request.messages),
        "pictures": sum(len(message.images) for request in requests for message in request.messages),
        "reply": max(request.max_tokens for request in requests),
    }


def _texts(texts: Sequence[str], _: tuple[Any, ...] = ()) -> dict[str, int]:
    return {"characters": sum(map(len, texts))}


def _pairs(pairs: Sequence[tuple[str, str]], _: tuple[Any, ...]) -> dict[str, int]:
    return {"characters": sum(len(query) + len(passage) for query, passage in pairs)}


def _multimodal(items: Sequence[Any], _: tuple[Any, ...]) -> dict[str, int]:
    pictures = {id(item.image) for item in items if item.image is not None}  # each is encoded once
    return {"characters": sum(len(item.question) + len(item.passage) for item in items), "pictures": len(pictures)}


def _pictures(images: Sequence[Any], _: tuple[Any, ...]) -> dict[str, int]:
    return {"pictures": len(images)}


SIZES: dict[str, Callable[[Sequence[Any], tuple[Any, ...]], dict[str, int]]] = {
    "chat": _chat,
    "encode": _texts,
    "score": _pairs,
    "score_multimodal": _multimodal,
    "detect": _pictures,
    "segment": _pictures,
    "match": lambda images, more: {**_pictures(images, ()), **_texts(more[0])},
    "classify": lambda _, more: _texts(more[0]) if more else {},
    "read": lambda *_: {},
    "find": lambda *_: {},
    "search_images": _pictures,
    "search_web": _texts,
}
"""Functions that measure the size of a call, by method."""
