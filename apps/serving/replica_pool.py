"""Several agents that answer as one, each in a process of Ray (docs/scale.md); questions go to whichever is free."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from agents.base.cluster import (
    MAX_DEATHS,
    START_SECONDS,
    GoneError,
    NodeActor,
    OnePerNode,
    cluster,
    end_actors,
    share_gpus,
)
from agents.evidence.lookup import Found, LookupQuery
from apps.answering import AgentError, Answerer, CancelledError, CannotStartError, Question
from apps.outcome import Outcome

_log = logging.getLogger(__name__)

_THREADS = 2  # of a replica: a call and, beside it, a search

MakeAnswerer = Callable[[Any], Answerer]
"""Builds an answerer from a replacement of its search pipeline, or None; sent to other processes."""


class AnswerReplica(NodeActor):
    """Answerer that runs in a process of Ray."""

    def __init__(self, make: MakeAnswerer, folder: str) -> None:
        super().__init__(folder)
        self._make = make

    def start(self, actor: Any) -> int:
        """Build the agent and return its batch size; ``actor`` is the search of its machine, if any."""
        from agents.search.shared_search import SharedSearch

        self._search = None if actor is None else SharedSearch(actor)
        self._answerer = self._make(self._search)
        return self._answerer.batch_size

    def answer(self, questions: Sequence[Question]) -> list[Outcome]:
        """Answer as ``Answerer.answer``; end this replica if its search is gone, so that both are replaced."""
        ask = partial(self._answerer.answer, questions)
        if self._search is None:
            return ask()
        try:
            return self._search.kept_up(ask, self._answerer.cancel, CancelledError)
        except GoneError as error:
            _log.error("%s", error)
            self.leave()

    def look_up(self, queries: Sequence[LookupQuery], seconds: float) -> list[Found]:
        """Search as ``Answerer.look_up``, beside a call of ``answer``."""
        return self._answerer.look_up(queries, seconds)


class ReplicaPool:
    """Pool of replicas that answers as ``Answerer`` does, with one call at a time for each replica.

    A replica that dies is started again, and its questions are asked on another. One that fails to start ``MAX_DEATHS`` times in a row is
    given up.

    Args:
        ray: The module, connected to a cluster.
        size: Number of replicas.
        place: Makes the handle of a new ``AnswerReplica``.
        search: Search for the replicas of a machine; None: nothing is searched.

    Raises:
        CannotStartError: The replicas cannot be started.
    """

    def __init__(self, ray: Any, size: int, place: Callable[[], Any], search: OnePerNode | None = None) -> None:
        self.size = size
        """Calls at once."""
        self._ray, self._place, self._search = ray, place, search
        self._free: SimpleQueue[Any] = SimpleQueue()  # handles; None: no replica is left
        self._num_left, self._counting = size, threading.Lock()
        self._starting = ThreadPoolExecutor(size, "replica")
        self._closed = threading.Event()
        started = [self._starting.submit(self._start) for _ in range(size)]
        self._alive = [each.result() for each in started]
        for actor in self._alive:
            self._free.put(actor)
        self.batch_size: int = self._batch_size

    def answer(self, questions: Sequence[Question], watch: Callable[[str], None] | None = None) -> list[Outcome]:  # noqa: ARG002
        """Answer as ``Answerer.answer`` on a free replica; callable from several threads.

        ``watch`` is never called: the stages run in another process.

        Raises:
            AgentError: The agent raised it, the questions were the end of ``MAX_DEATHS`` replicas, or none is left.
        """
        errors = self._ray.exceptions
        for _ in range(MAX_DEATHS):
            actor = self._free.get()
            if actor is None:
                self._free.put(None)
                raise AgentError("the agent failed (no replica is left)")
            try:
                outcomes: list[Outcome] = self._ray.get(actor.answer.remote(questions))
            except errors.RayTaskError as error:
                self._free.put(actor)
                if isinstance(error.cause, AgentError):
                    raise error.cause from None
                raise AgentError(f"the agent failed ({type(error.cause).__name__})") from error
            except errors.RayError as error:  # not of actors alone: a process out of memory, a full object store
                _log.warning("a replica died; its questions are asked on another: %s", error)
                self._alive.remove(actor)
                self._starting.submit(self._replace)  # before the kill, which fails if the head of the cluster is gone
                self._ray.kill(actor)  # one that is only out of reach must not keep its GPU
            except BaseException:  # such as questions that cannot be sent: the replica is as it was
                self._free.put(actor)
                raise
            else:
                self._free.put(actor)
                return outcomes
        raise AgentError(f"the agent failed ({MAX_DEATHS} replicas died of a call)")

    def look_up(self, queries: Sequence[LookupQuery], seconds: float) -> list[Found]:
        """Search as ``Answerer.look_up`` on any replica, beside its calls.

        Raises:
            AgentError: The search failed, took longer than ``seconds``, or no replica is left.
        """
        errors = self._ray.exceptions
        for actor in tuple(self._alive):
            try:
                found: list[Found] = self._ray.get(actor.look_up.remote(queries, seconds), timeout=seconds)
            except errors.GetTimeoutError:
                raise AgentError(f"the search took longer than {seconds:g} s") from None
            except errors.RayTaskError as error:
                raise AgentError(f"the search failed ({type(error.cause).__name__})") from error
            except errors.RayError as error:
                _log.warning("a replica died; the search is made on another: %s", error)
            else:
                return found
        raise AgentError("the search failed (no replica is left)")

    def close(self) -> None:
        """End the replicas, and the calls that wait for one."""
        self._closed.set()
        self._free.put(None)
        self._starting.shutdown(wait=False, cancel_futures=True)
        end_actors(self._ray, self._alive)

    def _replace(self) -> None:
        """Start a replica in place of one that died, or count it as lost: no call may wait for one that never comes."""
        actor = None
        try:
            actor = self._start_repeatedly()
        finally:
            if actor is None:
                self._count_loss()
            else:
                self._alive.append(actor)
                self._free.put(actor)

    def _start_repeatedly(self) -> Any:
        """Start a replica in at most ``MAX_DEATHS`` attempts; return None if all fail or the pool is closed."""
        for _ in range(MAX_DEATHS):
            if self._closed.is_set():
                break
            try:
                return self._start()
            except CannotStartError as error:
                _log.error("%s", error)
            except Exception:  # noqa: BLE001 - such as Ray's own errors when the head of its cluster is gone
                _log.exception("a replica cannot be started")
        return None

    def _count_loss(self) -> None:
        with self._counting:
            self._num_left -= 1
            if self._num_left == 0:
                self._free.put(None)

    def _start(self) -> Any:
        errors = self._ray.exceptions
        actor = self._place()
        try:
            node = self._ray.get(actor.node.remote(), timeout=START_SECONDS)
            search = None if self._search is None else self._search.on(node)
            self._batch_size = self._ray.get(actor.start.remote(search), timeout=START_SECONDS)
        except errors.GetTimeoutError as error:
            raise CannotStartError(f"a replica is not ready after {START_SECONDS:.0f} s") from error
        except errors.RayTaskError as error:
            raise CannotStartError(f"a replica cannot be started: {error.cause}") from error
        except errors.RayError as error:
            raise CannotStartError(f"a replica cannot be started: {error}") from error
        return actor


@contextmanager
def open_pool(
    make: MakeAnswerer, open_pipeline: Callable[[], Any] | None, size: int, address: str | None
) -> Iterator[ReplicaPool]:
    """Start replicas on the cluster at ``address``, or on one started for them here.

    On a cluster with GPUs each replica has one to itself; the search of a machine is on one of them.

    Args:
        make: Builds the answerer of a replica.
        open_pipeline: Opens the pipeline that the replicas of a machine share; None: nothing is searched.
        size: Number of replicas.
        address: Address of a Ray cluster; None: start one on this machine.

    Raises:
        CannotStartError: They cannot be started.
        ClusterError: Ray is not installed, there is no cluster, or it has too few GPUs.
    """
    from agents.search.shared_search import SearchActor

    folder = str(Path.cwd())
    with cluster(address) as ray, ExitStack() as stack:
        own, searching = share_gpus(ray, size, sharing=open_pipeline is not None)
        options = {"num_gpus": own, "scheduling_strategy": "SPREAD", "max_concurrency": _THREADS}
        place = partial(ray.remote(AnswerReplica).options(**options).remote, make, folder)
        search = None
        if open_pipeline is not None:
            arguments = open_pipeline, min(size, os.cpu_count() or 1), folder
            search = stack.enter_context(closing(OnePerNode(ray, SearchActor, arguments, gpus=searching)))
        yield stack.enter_context(closing(ReplicaPool(ray, size, place, search)))
