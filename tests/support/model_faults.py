"""Models that fail: engines that die, hang or talk nonsense, scores that are no numbers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image

from agents.models.base import Box, ChatReply, ChatRequest, Detection, FloatArray, Label, ModelError, TextLine
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from tests.support.fault_plan import MARK, Fault, Plan, fail
from tests.support.hostile_files import Panic
from tests.support.scripted_parts import ANSWER, Chat, Encoder, Reranker, Sight

_JUNK = "}{]['\"\\ \ufffd\u202e \ud800 <|eot_id|> %s {{7*7}} " * 20


class _Chat(Chat):
    def __init__(self, make: Callable[[Sequence[ChatRequest]], Any]) -> None:
        self._make = make

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> Any:
        del deadline
        return self._make(requests)


class _Scores(Reranker):
    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make

    def score(self, pairs: Sequence[tuple[str, str]]) -> Any:
        return self._make(len(pairs))


class _Vectors(Encoder):
    def __init__(self, make: Callable[[FloatArray], FloatArray]) -> None:
        self._make = make

    def encode(self, texts: Sequence[str]) -> FloatArray:
        return self._make(super().encode(texts))


class _BlindSight(Sight):
    """Every look at a picture fails; names in texts are found."""

    def __init__(self, error: Exception) -> None:
        self.read = self.recognise = self.detect = self.segment = self.classify = self._fail  # type: ignore[method-assign]
        self._error = error

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise self._error


class _NanSight(Sight):
    """All scores, and the edges of boxes, are NaN."""

    def read(self, images: Sequence[Image.Image]) -> list[list[TextLine]]:
        return [[TextLine("EIFFEL", Box(0, math.nan, 9, 9), math.nan)] for _ in images]

    def recognise(self, images: Sequence[Image.Image], k: int = 5) -> list[list[Label]]:
        return [[Label("tower", math.nan)][:k] for _ in images]

    def detect(self, images: Sequence[Image.Image], phrases: Sequence[Sequence[str]]) -> list[list[Detection]]:
        all_detections = super().detect(images, phrases)
        broken = Box(math.nan, 4, math.inf, 120)
        return [[Detection(box, "tower", math.nan) for box in (broken, one[0].box)] for one in all_detections]

    def classify(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> list[list[Label]]:
        return [[Label(label.name, math.nan) for label in labels] for labels in super().classify(images, questions)]


def _chat(make: Callable[[Sequence[ChatRequest]], Any], says: str | None = None, *, one_turn: bool = False) -> Fault:
    def spoil(plan: Plan) -> None:
        plan.chat = _Chat(make)

    return Fault(spoil, says, one_turn)


def _says(text: str, finish: Any = "stop", logprobs: Any = (-0.1, -0.2)) -> Fault:
    return _chat(lambda requests: [ChatReply(text, finish, logprobs)] * len(requests))


def _part(name: str, make: Callable[[], Any], says: str | None = None) -> Fault:
    return Fault(lambda plan: setattr(plan, name, make()), says)


def _scores(make: Callable[[int], Any], says: str | None = None) -> Fault:
    return _part("reranker", lambda: _Scores(make), says)


def _full(value: float) -> Callable[[int], FloatArray]:
    return lambda n: np.full(n, value, dtype=np.float32)


def _hanging_chat(plan: Plan) -> None:
    plan.chat = _Chat(lambda requests: (plan.hang(), Chat().chat(requests))[1])


def _one_turn_error(requests: Sequence[ChatRequest]) -> list[ChatReply]:
    good = Chat()
    return [
        ChatReply("", "error", error="a row is spoilt")
        if any(MARK in message.content for message in request.messages)
        else good.reply(request)
        for request in requests
    ]


def _one_turn_panics(requests: Sequence[ChatRequest]) -> list[ChatReply]:
    if any(MARK in message.content for request in requests for message in request.messages):
        raise Panic("a row of the batch")
    return Chat().chat(requests)


def _one_turn_raises(requests: Sequence[ChatRequest]) -> list[ChatReply]:
    if any(MARK in message.content for request in requests for message in request.messages):
        raise RuntimeError("a row of the batch cannot be digested")
    return Chat().chat(requests)


_CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB"

MODEL_FAULTS: dict[str, Fault] = {
    "engine dead": _chat(lambda _: fail(ModelError("the engine has died")), "the engine has died"),
    "engine out of memory": _chat(lambda _: fail(MemoryError()), "MemoryError"),
    "engine out of GPU memory": _chat(lambda _: fail(RuntimeError(_CUDA)), "CUDA out of memory"),
    "engine raises SystemExit": _chat(lambda _: fail(SystemExit(1)), "SystemExit"),
    "engine raises a Rust panic": _chat(lambda _: fail(Panic("index out of bounds")), "Panic: index out of bounds"),
    "engine's loop is cancelled": _chat(lambda _: fail(asyncio.CancelledError("loop")), "CancelledError"),
    "engine panics for one row": _chat(_one_turn_panics, "Panic", one_turn=True),
    "text encoder panics": _part("encoder", lambda: _Vectors(lambda _: fail(Panic("tokenizer"))), "Panic: tokenizer"),
    "engine hangs": Fault(_hanging_chat, "hung|still hangs"),
    "engine fails in every row": _chat(
        lambda requests: [ChatReply("", "error", error="no row can be had")] * len(requests), "no row can be had"
    ),
    "engine fails in one row": _chat(_one_turn_error, "a row is spoilt", one_turn=True),
    "engine raises for one row": _chat(_one_turn_raises, "cannot be digested", one_turn=True),
    "reply garbage": _says(_JUNK),
    "reply empty": _says(""),
    "reply truncated": _says(ANSWER[:9], "length"),
    "reply aborted": _says(ANSWER[:9], "abort"),
    "reply endless": _says('tower {"a": [1, ' * 60_000, "length"),
    "reply invalid JSON": _says('{"queries": ["a", "b" "entity": }}'),
    "reply of a wrong schema": _says('{"queries": {"x": 7}, "flags": null, "answer": [[]], "choice": "Z"}'),
    "reply with NaN log-probabilities": _says(ANSWER, "stop", (math.nan, -math.inf)),
    "too few replies": _chat(lambda requests: [ChatReply(ANSWER, "stop")] * (len(requests) - 1)),
    "replies of a wrong type": _chat(lambda requests: [None] * len(requests)),
    "reranker scores NaN": _scores(_full(math.nan)),
    "reranker scores infinite": _scores(_full(math.inf)),
    "too few reranker scores": _scores(lambda n: np.zeros(n // 2, dtype=np.float32)),
    "reranker scores of a wrong type": _scores(lambda n: ["high"] * n),
    "reranker raises": _scores(lambda _: fail(RuntimeError("CUDA error")), "CUDA error"),
    "reranker out of memory": _scores(lambda _: fail(MemoryError()), "MemoryError"),
    "text encoder raises": _part("encoder", lambda: _Vectors(lambda _: fail(OSError("no encoder"))), "no encoder"),
    "text vectors NaN": _part("encoder", lambda: _Vectors(lambda vectors: vectors * np.float32(math.nan))),
    "text vectors lacking": _part("encoder", lambda: _Vectors(lambda vectors: vectors[1:])),
    "sight cannot be loaded": _part("sight", object),
    "sight raises": _part("sight", lambda: _BlindSight(ValueError("nothing seen")), "nothing seen"),
    "sight out of GPU memory": _part("sight", lambda: _BlindSight(RuntimeError(_CUDA)), "CUDA out of memory"),
    "sight scores NaN": _part("sight", _NanSight),
}
"""Faults of models, by kind."""
