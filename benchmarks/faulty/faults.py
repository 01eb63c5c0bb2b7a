"""The faults, one function each: it gets a plan of an agent and spoils one part of it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from agents.deadline import NO_DEADLINE, Deadline
from agents.models.base import ChatReply, ChatRequest, FloatArray, ModelError
from agents.stage import Stage
from agents.turn import Turn
from benchmarks.faulty.parts import ANSWER, Chat, Reader, Reranker, Search, Sight

MARK = "SPOILT"
"""Stands in the query of the one turn that a fault of a single turn hits."""


@dataclass
class Plan:
    """What an agent is made of; ``released`` lets go of what hangs, when all is over."""

    call_seconds: float
    chat: Any = field(default_factory=Chat)
    reranker: Any = field(default_factory=Reranker)
    sight: Any = field(default_factory=Sight)
    reader: Any = field(default_factory=Reader)
    search: Any = field(default_factory=Search)
    trace: Path | None = None
    spoil_stage: Callable[[Stage], None] | None = None
    released: threading.Event = field(default_factory=threading.Event)


Fault = Callable[[Plan], None]


class _Chat(Chat):
    def __init__(self, make: Callable[[Sequence[ChatRequest]], Any]) -> None:
        self._make = make

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> Any:
        del deadline
        return self._make(requests)


def _each(reply: ChatReply) -> Callable[[Sequence[ChatRequest]], Any]:
    return lambda requests: [reply for _ in requests]


def _raise(error: BaseException) -> Any:
    raise error


def _chat(make: Callable[[Sequence[ChatRequest]], Any]) -> Fault:
    def spoil(plan: Plan) -> None:
        plan.chat = _Chat(make)

    return spoil


def _says(text: str, finish: Any = "stop", logprobs: Any = (-0.1, -0.2)) -> Fault:
    return _chat(_each(ChatReply(text, finish, logprobs)))


def _hanging_chat(plan: Plan) -> None:
    plan.chat = _Chat(lambda requests: (plan.released.wait(60.0), [ChatReply("late", "stop")] * len(requests))[1])


def _one_turn_error(requests: Sequence[ChatRequest]) -> list[ChatReply]:
    good = Chat()
    return [
        ChatReply("", "error", error="this row")
        if any(MARK in message.content for message in request.messages)
        else good.reply(request)
        for request in requests
    ]


def _one_turn_raises(requests: Sequence[ChatRequest]) -> list[ChatReply]:
    if any(MARK in message.content for request in requests for message in request.messages):
        raise RuntimeError("a row of the batch cannot be digested")
    return Chat().chat(requests)


class _Scores(Reranker):
    def __init__(self, make: Callable[[int], Any]) -> None:
        self._make = make

    def score(self, pairs: Sequence[tuple[str, str]]) -> Any:
        return self._make(len(pairs))


def _scores(make: Callable[[int], Any]) -> Fault:
    def spoil(plan: Plan) -> None:
        plan.reranker = _Scores(make)

    return spoil


def _full(value: float) -> Callable[[int], FloatArray]:
    return lambda n: np.full(n, value, dtype=np.float32)


def _no_sight(plan: Plan) -> None:
    plan.sight = object()


def _no_reader(plan: Plan) -> None:
    plan.reader = object()


class _Search(Search):
    def __init__(self, make: Callable[[Any, Any], Any]) -> None:
        self._make = make

    def __call__(self, query: Any, k: int = 5) -> Any:
        return self._make(query, Search()(query, k))


def _search(make: Callable[[Any, Any], Any]) -> Fault:
    """``make`` gets the query and what should have been found."""

    def spoil(plan: Plan) -> None:
        plan.search = _Search(make)

    return spoil


def _without(hits: Any, *keys: str) -> Any:
    return [{key: value for key, value in hit.items() if key not in keys} for hit in hits]


def _attributes(value: Any) -> Fault:
    def spoil(plan: Plan) -> None:
        plan.search = Search()
        plan.search.attributes = value

    return spoil


def _cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {"height": "330 m"}
    value.update({f"k{number}": value for number in range(50)})
    value["list"] = [value, [value]]
    return value


def _hanging_search(plan: Plan) -> None:
    plan.search = _Search(lambda _, hits: (plan.released.wait(60.0), hits)[1])


def _disk_full(plan: Plan) -> None:
    plan.trace = Path("/dev/full")


_JUNK = "}{]['\"\\ \ufffd\u202e \ud800 <|eot_id|> %s {{7*7}} " * 20

FAULTS: dict[str, Fault] = {
    "engine dead": _chat(lambda _: _raise(ModelError("the engine has died"))),
    "engine out of memory": _chat(lambda _: _raise(MemoryError())),
    "engine raises SystemExit": _chat(lambda _: _raise(SystemExit(1))),
    "engine hangs": _hanging_chat,
    "engine fails in every row": _says("", "error"),
    "engine fails in one row": _chat(_one_turn_error),
    "engine raises for one row": _chat(_one_turn_raises),
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
    "scores NaN": _scores(_full(math.nan)),
    "scores infinite": _scores(_full(math.inf)),
    "too few scores": _scores(lambda n: np.zeros(n // 2, dtype=np.float32)),
    "scores of a wrong type": _scores(lambda n: ["high"] * n),
    "reranker raises": _scores(lambda _: _raise(RuntimeError("CUDA error"))),
    "no sight": _no_sight,
    "no reader": _no_reader,
    "search raises": _search(lambda *_: _raise(ConnectionError("no index"))),
    "search hangs": _hanging_search,
    "search raises for one query": _search(
        lambda query, hits: _raise(OSError("page")) if isinstance(query, str) and MARK in query else hits
    ),
    "search finds nothing": _search(lambda *_: []),
    "search gives None": _search(lambda *_: None),
    "search gives text": _search(lambda *_: "no results"),
    "search finds fewer than k": _search(lambda _, hits: hits[:1]),
    "search finds the same again and again": _search(lambda _, hits: hits * 30),
    "hits without score": _search(lambda _, hits: _without(hits, "score")),
    "hits without url and text": _search(lambda _, hits: _without(hits, "url", "page_url", "page_snippet", "entities")),
    "hits of wrong types": _search(
        lambda _, hits: [None, 7, "x", *({**hit, "score": "high", "entities": 3, "page_snippet": 5} for hit in hits)]
    ),
    "hits with NaN scores": _search(lambda _, hits: [{**hit, "score": math.nan} for hit in hits]),
    "entity without attributes": _attributes(None),
    "attributes of a wrong type": _attributes(["height", 330]),
    "attributes cyclic": _attributes(_cyclic()),
    "attributes of 10 MB": _attributes({"history": "It is 330 m high. <br/> [[x|y]] " * 312_500}),
    "attributes nested deep": _attributes({"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": ["x"] * 100_000}}}}}}}}),
    "attributes hostile markup": _attributes({"height": "{{a|" * 5_000, "x": "<b>" * 7_000, "y": "\n*" * 9_000}),
    "disk full while the trace is written": _disk_full,
}
"""Faults of models, searches and disk."""


def _slow(plan: Plan) -> Callable[[Sequence[Turn]], None]:
    return lambda _: time.sleep(0.4 * plan.call_seconds)


def _hangs(plan: Plan) -> Callable[[Sequence[Turn]], None]:
    return lambda _: (plan.released.wait(60.0), None)[1]


def _raises(_: Plan) -> Callable[[Sequence[Turn]], None]:
    return lambda _: _raise(RuntimeError("out of order"))


def _raises_for_one(_: Plan) -> Callable[[Sequence[Turn]], None]:
    def check(turns: Sequence[Turn]) -> None:
        if any(MARK in turn.query for turn in turns):
            raise KeyError(MARK)

    return check


STAGE_FAULTS: dict[str, Callable[[Plan], Callable[[Sequence[Turn]], None]]] = {
    "slow": _slow,
    "hangs": _hangs,
    "raises": _raises,
    "raises for one turn": _raises_for_one,
}
"""Faults of a stage: what happens before it runs."""


def in_stage(name: str, kind: str) -> Fault:
    """The fault of one stage."""

    def spoil(plan: Plan) -> None:
        before = STAGE_FAULTS[kind](plan)

        def spoil_stage(stage: Stage) -> None:
            if stage.name == name:
                run = stage.run

                def spoilt(turns: Sequence[Turn], context: Any) -> None:
                    before(turns)
                    run(turns, context)

                stage.run = spoilt  # type: ignore[method-assign]

        plan.spoil_stage = spoil_stage

    return spoil
