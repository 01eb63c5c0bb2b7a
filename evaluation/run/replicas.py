"""Several agents side by side, each in a process of its own that Ray starts on this machine or on others (docs/scale.md).

Questions and answers pass through this process, which alone writes files. Ray is imported only when replicas are asked for.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from agents.base.cluster import (
    ANSWER_SECONDS,
    MAX_DEATHS,
    START_SECONDS,
    ClusterError,
    GoneError,
    NodeActor,
    OnePerNode,
    cluster,
    end_actors,
    share_gpus,
)
from agents.base_agent import BaseAgent
from evaluation.commands import summarise_error
from evaluation.records import EvaluationError
from evaluation.run.batches import Slot
from evaluation.run.calls import Call, CallResult, MakeCall, OneAgent
from evaluation.run.launching import BuildAgent, LaunchedAgent, launch_agent, plan_shared_search, prepare
from evaluation.run.options import RunOptions

log = logging.getLogger(__name__)


class Assignment:
    """Assignment of dialogs to replicas.

    A dialog stays with the replica that began it, and is reassigned only if that one is lost. A replica keeps up to ``batch_size`` dialogs
    open, as ``schedule`` does, but not more than its share of those that are left. So few dialogs are not all held by the first replica
    that asks. ``batches`` have the turns of a dialog in their order.
    """

    def __init__(self, batches: Sequence[Sequence[Slot]], batch_size: int, replicas: int) -> None:
        self._remaining: dict[int, deque[Slot]] = {}
        for batch in batches:
            for slot in batch:
                self._remaining.setdefault(slot.session, deque()).append(slot)
        self._waiting = deque(self._remaining)
        self._open: list[list[int]] = [[] for _ in range(replicas)]
        self._batch_size = batch_size

    @property
    def is_finished(self) -> bool:
        """Whether every turn has been answered."""
        return not self._remaining

    def next_batch(self, replica: int) -> list[Slot]:
        """Return the next turn of each dialog of a replica, new dialogs included.

        Returns:
            [] if there is nothing for the replica now.
        """
        sessions = self._open[replica]
        limit = min(self._batch_size, math.ceil(len(self._remaining) / len(self._open)))
        while self._waiting and len(sessions) < limit:
            sessions.append(self._waiting.popleft())
        return [self._remaining[session][0] for session in sessions]

    def mark_answered(self, replica: int) -> None:
        """Record that the replica's latest batch has been answered."""
        for session in self._open[replica]:
            self._remaining[session].popleft()
            if not self._remaining[session]:
                del self._remaining[session]
        self._open[replica] = [session for session in self._open[replica] if session in self._remaining]

    def mark_lost(self, replica: int) -> None:
        """Record the death of a replica: its dialogs wait behind all others, since one may have caused it."""
        self._waiting.extend(self._open[replica])
        self._open[replica] = []


class Replica(NodeActor):
    """An agent in a process of Ray, built by the same command line as that of one process."""

    def __init__(self, options: RunOptions, build: BuildAgent | None, folder: str) -> None:
        super().__init__(folder)
        self._options, self._build = options, build
        self._launched: LaunchedAgent | None = None

    def start(self, search: Any = None) -> tuple[int, dict[str, Any]]:
        """Build the agent (see ``launching.launch_agent``); return its batch size and what it is made with."""
        config, about = prepare(self._options)
        launched_agent = self._launched = launch_agent(self._options, config, self._build, search)
        agent = launched_agent.agent
        assert isinstance(agent, BaseAgent)
        self._one_agent = OneAgent(agent, launched_agent.replies, launched_agent.listen)
        return agent.get_batch_size(), about

    def warm_up(self) -> None:
        """Load the agent's models; does nothing when called again."""
        assert self._launched is not None
        self._launched.warm_up()

    def ask(self, call: Call) -> CallResult:
        """Ask the agent, and return its answers with the records of the turns.

        A replica whose search is gone for good ends, and is replaced together with it.
        """
        assert self._launched is not None
        self.warm_up()  # this replica may have replaced one that died
        try:
            return self._launched.keep_up(partial(self._one_agent.ask, call))
        except GoneError as error:
            log.error("%s", error)
            self.leave()

    def models(self) -> dict[str, str]:
        """Return the names of the loaded models by role; empty before the start."""
        return {} if self._launched is None else self._launched.models()


class Replicas:
    """``Answering`` by replicas; one that dies is restarted, and its dialogs are reassigned.

    Args:
        ray: The module, connected to a cluster.
        count: Number of replicas.
        start: Makes the handle of a new ``Replica``.
        about: What the replicas have to be made with.
        search: Search for the replicas of a machine; None: each searches on its own.

    Raises:
        EvaluationError: They cannot be started, or are made with something else.
    """

    def __init__(
        self,
        ray: Any,
        count: int,
        start: Callable[[], Any],
        about: Mapping[str, Any],
        search: OnePerNode | None = None,
    ) -> None:
        self._ray, self._start, self._about, self._search = ray, start, about, search
        self._replicas = [start() for _ in range(count)]
        starting = [replica.node.remote() for replica in self._replicas]
        try:
            nodes = ray.get(starting, timeout=START_SECONDS)
            starting = [self._begin(number, node) for number, node in enumerate(nodes)]
            self._batch_sizes = [self._check_started(answer) for answer in ray.get(starting, timeout=START_SECONDS)]
        except ray.exceptions.GetTimeoutError as error:
            up, _ = ray.wait(starting, num_returns=count, timeout=0)
            raise EvaluationError(
                f"{len(up)} of {count} replicas started within {START_SECONDS:.0f} s; "
                "take fewer replicas or a larger machine"
            ) from error
        except ray.exceptions.RayTaskError as error:
            raise EvaluationError(f"a replica cannot be started: {error.cause}") from error
        except ray.exceptions.RayError as error:
            raise EvaluationError(f"a replica cannot be started: {error}") from error

    def get_batch_size(self) -> int:
        """Return the batch size of each agent."""
        return self._batch_sizes[0]

    def warm_up(self) -> None:
        """Load the models of all replicas. One that dies meanwhile is replaced by ``answer``.

        Raises:
            EvaluationError: A replica cannot load or reach its models.
        """
        loading = [replica.warm_up.remote() for replica in self._replicas]
        for number, loaded in enumerate(loading):
            try:
                self._ray.get(loaded)
            except self._ray.exceptions.RayTaskError as error:
                raise EvaluationError(f"replica {number}: {error.cause}") from error
            except self._ray.exceptions.RayError as error:
                log.warning("replica %d died while it loaded its models: %s", number, summarise_error(error))

    def models(self) -> dict[str, str]:
        """Return the names of the models that the replicas have loaded, by role."""
        names: dict[str, str] = {}
        for replica in self._replicas:
            try:
                names |= self._ray.get(replica.models.remote(), timeout=ANSWER_SECONDS)
            except self._ray.exceptions.RayError as error:
                log.warning("a replica does not say what models it has: %s", summarise_error(error))
        return names

    def answer(self, batches: Sequence[Sequence[Slot]], make: MakeCall) -> Iterator[tuple[Call, CallResult]]:
        """See ``Answering``.

        Raises:
            EvaluationError: Every replica has died ``MAX_DEATHS`` times in a row, or none can be started.
        """
        ray = self._ray
        work = Assignment(batches, self.get_batch_size(), len(self._replicas))
        under_way: dict[Any, tuple[int, Call | None]] = {}  # by Ray's reference; None: the replica is being started
        free = set(range(len(self._replicas)))
        deaths = [0] * len(self._replicas)
        while not work.is_finished:
            for number in sorted(free):
                if slots := work.next_batch(number):
                    call = make(slots)
                    under_way[self._replicas[number].ask.remote(call)] = number, call
                    free.remove(number)
            only_starting = all(call is None for _, call in under_way.values())
            patience = START_SECONDS if only_starting else None
            ready, _ = ray.wait([*under_way], timeout=patience) if under_way else ([], [])
            if not ready:
                raise EvaluationError("no replica is left; the answers made are kept, and --resume asks for the others")
            number, answered_call = under_way.pop(ready[0])
            try:
                reply = ray.get(ready[0])
            except ray.exceptions.RayTaskError as error:
                raise EvaluationError(f"replica {number}: {error.cause}") from error
            except (
                ray.exceptions.RayError
            ) as error:  # not of actors alone: a process out of memory, a full object store
                deaths[number] += 1
                log.warning("replica %d died (%s); its dialogs are asked on others", number, summarise_error(error))
                work.mark_lost(number)
                ray.kill(self._replicas[number])  # an unreachable replica must not keep its GPU
                if deaths[number] < MAX_DEATHS:
                    self._replicas[number] = self._start()
                    under_way[self._replicas[number].node.remote()] = number, None
                continue
            if isinstance(reply, str):  # the replica replied with its node
                under_way[self._begin(number, reply)] = number, None
                continue
            free.add(number)
            if answered_call is None:
                self._check_started(reply)
                continue
            deaths[number] = 0
            work.mark_answered(number)
            yield answered_call, reply

    def close(self) -> None:
        """End the replicas."""
        end_actors(self._ray, self._replicas)

    def _begin(self, number: int, node: str) -> Any:
        """Start the agent of a replica that is on a node, with the search of that node."""
        return self._replicas[number].start.remote(None if self._search is None else self._search.on(node))

    def _check_started(self, answer: tuple[int, Mapping[str, Any]]) -> int:
        batch_size, about = answer
        if about != self._about:
            raise EvaluationError(
                f"a replica is made with {about}, not with {self._about}: every machine needs the same checkout and the same environment"
            )
        return batch_size


@contextmanager
def launch_replicas(
    options: RunOptions, about: Mapping[str, Any], build: BuildAgent | None = None
) -> Iterator[LaunchedAgent]:
    """Start the ``--replicas`` agents of a command line, and end them with the context.

    They run on the cluster at ``--ray-address``, or on one started for them here. On a cluster with GPUs each replica has one to itself.
    The search of a machine is on one of them.

    Args:
        options: The command line.
        about: What the run is made with (``launching.prepare``); every replica has to be made with the same.
        build: Builds the agent in place of ``--agent``; its module can be imported on every machine.

    Raises:
        EvaluationError: Ray is not installed, there is no cluster, it has too few GPUs, or the replicas cannot be started.
    """
    count = options.replicas or 1
    try:
        with cluster(options.ray_address) as ray:
            shared = plan_shared_search(options, build)
            own, searching = share_gpus(ray, count, sharing=shared is not None)
            place = ray.remote(Replica).options(num_gpus=own, scheduling_strategy="SPREAD")
            start = partial(place.remote, options, build, str(Path.cwd()))
            with ExitStack() as stack:
                search = None
                if shared is not None:
                    search = stack.enter_context(closing(OnePerNode(ray, *shared, gpus=searching)))
                replicas = stack.enter_context(closing(Replicas(ray, count, start, about, search)))
                yield LaunchedAgent(replicas, replicas.warm_up, models=replicas.models)
    except ClusterError as error:
        raise EvaluationError(str(error)) from error
