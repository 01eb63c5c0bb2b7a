"""Errors of Ray that are no death of an actor, without Ray: no replica is lost of them, and no question waits forever."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from agents.base.cluster import MAX_DEATHS
from agents.search.hits import Results, SearchError, WebHit
from agents.search.shared_search import SharedSearch
from apps.answering import AgentError, CancelledError, Question
from apps.outcome import Outcome
from apps.serving.replica_pool import ReplicaPool


class RayError(Exception):
    """Base of Ray's own, as in Ray."""


class RayTaskError(RayError):
    """What the actor's method raised."""

    cause = ValueError("of the agent")


class RayActorError(RayError):
    """The actor died."""


class GetTimeoutError(RayError, TimeoutError):
    """No reply in time."""


class OutOfMemoryError(RayError):
    """Neither of them, as in Ray."""


class Ray:
    """What is used of the module; a reply that is an error is raised."""

    exceptions = SimpleNamespace(
        RayError=RayError, RayTaskError=RayTaskError, RayActorError=RayActorError, GetTimeoutError=GetTimeoutError
    )

    def __init__(self) -> None:
        self.killed: list[Any] = []

    def get(self, reply: Any, timeout: float | None = None) -> Any:
        if isinstance(reply, Exception):
            raise reply
        return reply

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


class Method:
    """A method of an actor."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self.remote = work

    def options(self, **_: Any) -> Method:
        return self


def raised(error: BaseException) -> Any:
    raise error


def pool(ray: Ray, replies: Sequence[Callable[[], Any]]) -> tuple[ReplicaPool, list[Any]]:
    """A pool of one replica at a time, and its replicas; each call gives the next reply, after them an answer."""
    remaining, placed = iter(replies), []

    def place() -> Any:
        answer = Method(lambda _: next(remaining, lambda: [Outcome("300 m")])())
        placed.append(SimpleNamespace(node=Method(lambda: "n"), start=Method(lambda _: 2), answer=answer))
        return placed[-1]

    return ReplicaPool(ray, 1, place), placed


def answered(replicas: ReplicaPool) -> list[Outcome]:
    """The answer of a call, or what it raises; TimeoutError where it waits forever."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(replicas.answer, [Question("q")])
        try:
            return future.result(20)
        finally:
            replicas._free.put(None)  # ends a call that waits


@pytest.mark.parametrize("error", [RayActorError("died"), OutOfMemoryError("killed"), RayError("of the object store")])
@pytest.mark.parametrize("at_once", [False, True], ids=["of the call", "of the reply"])
def test_a_replica_that_ray_lost_is_replaced_whatever_the_error_is(error: RayError, at_once: bool) -> None:
    ray = Ray()
    replicas, placed = pool(ray, [lambda: raised(error) if at_once else error])
    assert answered(replicas) == [Outcome("300 m")]
    assert ray.killed == placed[:1] and len(placed) == 2


NO_RAY_ERROR = ConnectionError("the head of the cluster is gone")


@pytest.mark.parametrize(
    "error", [NO_RAY_ERROR, GetTimeoutError("late"), SystemExit(1)], ids=lambda error: type(error).__name__
)
def test_a_replica_that_cannot_be_started_again_is_counted_as_lost_whatever_is_raised(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas, placed = pool(Ray(), [lambda: raised(RayActorError("died"))])

    def place() -> Any:
        placed.append(None)
        raise error

    monkeypatch.setattr(replicas, "_place", place)
    with pytest.raises(AgentError, match="no replica is left"):
        answered(replicas)
    assert len(placed) == 1 + (MAX_DEATHS if isinstance(error, Exception) else 1)


def test_a_replica_that_cannot_be_killed_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = Ray()
    replicas, placed = pool(ray, [lambda: raised(RayActorError("died"))])
    monkeypatch.setattr(ray, "kill", lambda _: raised(NO_RAY_ERROR))
    with pytest.raises(ConnectionError):
        replicas.answer([Question("q")])
    assert answered(replicas) == [Outcome("300 m")] and len(placed) == 2


def test_a_call_that_waits_for_a_replica_ends_with_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    replicas, _ = pool(Ray(), [lambda: raised(RayActorError("died"))])
    starting, ended = threading.Event(), threading.Event()

    def place() -> Any:
        starting.set()
        assert ended.wait(60)
        raise NO_RAY_ERROR

    monkeypatch.setattr(replicas, "_place", place)
    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(replicas.answer, [Question("q")])
        assert starting.wait(60)
        replicas.close()
        with pytest.raises(AgentError, match="no replica is left"):
            call.result(20)
        ended.set()


@pytest.mark.parametrize(
    ("error", "expected"), [(RayTaskError(), AgentError), (TypeError("cannot be pickled"), TypeError)]
)
def test_a_replica_that_lives_is_kept(error: Exception, expected: type[Exception]) -> None:
    ray = Ray()
    replicas, placed = pool(ray, [lambda: raised(error)])
    with pytest.raises(expected):
        replicas.answer([Question("q")])
    assert answered(replicas) == [Outcome("300 m")]
    assert not ray.killed and len(placed) == 1


@pytest.mark.parametrize("error", [RayActorError("died"), OutOfMemoryError("killed")])
def test_a_question_is_asked_again_when_ray_loses_the_search(monkeypatch: pytest.MonkeyPatch, error: RayError) -> None:
    monkeypatch.setitem(sys.modules, "ray", Ray())  # type: ignore[arg-type]
    results = [Results[WebHit]()]
    replies = iter([error, results])
    about = dict.fromkeys(("image_search", "web_search", "picture_folder", "page_folder"))
    search = SharedSearch(SimpleNamespace(open=Method(lambda: about), pages=Method(lambda *_: next(replies))))
    cancelled: list[bool] = []

    def ask() -> Any:
        try:
            return search.web.search(["q"], 1)
        except SearchError:
            if cancelled:
                raise CancelledError from None
            raise

    assert search.kept_up(ask, lambda: cancelled.append(True), CancelledError) == results
