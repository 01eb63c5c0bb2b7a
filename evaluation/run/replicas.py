"""Several agents side by side, each in a process of its own that Ray starts on this machine or on others (docs/scale.md).

Questions and answers pass through this process, which alone writes files. Ray is imported when replicas are asked for, and not before.
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
    OnePerNode,
    Placed,
    cluster,
    ended,
    gpus_of,
)
from agents.base_agent import BaseAgent
from evaluation.commands import first_line
from evaluation.records import EvaluationError
from evaluation.run.batches import Slot
from evaluation.run.calls import Call, CallResult, MakeCall, OneAgent
from evaluation.run.launching import BuildAgent, LaunchedAgent, launched, prepare, shared_search
from evaluation.run.options import RunOptions

log = logging.getLogger(__name__)


class Assignment:
    """Dialogs given out to replicas: each stays with the replica that began it, and is given out again only where that one is lost.

    A replica keeps up to ``batch_size`` dialogs open, as ``schedule`` does, but not more than its share of those that are left, so
    that few dialogs are not all held by the first replica that asks. ``batches`` have the turns of a dialog in their order.
    """

    def __init__(self, batches: Sequence[Sequence[Slot]], batch_size: int, replicas: int) -> None:
        self._left: dict[int, deque[Slot]] = {}
        for batch in batches:
            for slot in batch:
                self._left.setdefault(slot.session, deque()).append(slot)
        self._waiting = deque(self._left)
        self._open: list[list[int]] = [[] for _ in range(replicas)]
        self._batch_size = batch_size

    @property
    def finished(self) -> bool:
        """Whether every turn has been answered."""
        return not self._left

    def next_batch(self, replica: int) -> list[Slot]:
        """The next turn of each dialog of a replica, new dialogs among them; empty where there is nothing for it now."""
        held = self._open[replica]
        limit = min(self._batch_size, math.ceil(len(self._left) / len(self._open)))
        while self._waiting and len(held) < limit:
            held.append(self._waiting.popleft())
        return [self._left[session][0] for session in held]

    def answered(self, replica: int) -> None:
        """The batch that the replica got last has been answered."""
        for session in self._open[replica]:
            self._left[session].popleft()
            if not self._left[session]:
                del self._left[session]
        self._open[replica] = [session for session in self._open[replica] if session in self._left]

    def lost(self, replica: int) -> None:
        """The replica died: its dialogs wait behind all others, in case one of them is what it died of."""
        self._waiting.extend(self._open[replica])
        self._open[replica] = []


class Replica(Placed):
    """What runs in a process of Ray: an agent, built by the same command line as that of one process."""

    def __init__(self, options: RunOptions, build: BuildAgent | None, folder: str) -> None:
        super().__init__(folder)
        self._options, self._build = options, build
        self._launched: LaunchedAgent | None = None

    def start(self, search: Any = None) -> tuple[int, dict[str, Any]]:
        """Build the agent (see ``launching.launched``). Returns its batch size and what it is made with."""
        config, about = prepare(self._options)
        made = self._launched = launched(self._options, config, self._build, search)
        agent = made.agent
        assert isinstance(agent, BaseAgent)
        self._asked = OneAgent(agent, made.replies, made.listen)
        return agent.get_batch_size(), about

    def ask(self, call: Call) -> CallResult:
        """The reply to a call with the records of its turns; a replica whose search is gone for good ends, and is replaced with it."""
        assert self._launched is not None
        self._launched.warm_up()
        try:
            return self._launched.keep_up(partial(self._asked.ask, call))
        except GoneError as error:
            log.error("%s", error)
            self.leave()

    def models(self) -> dict[str, str]:
        """Role to name of the models that have been loaded; none before it is started."""
        return {} if self._launched is None else self._launched.models()


class Replicas:
    """``Answering`` by replicas; one that dies is started again, and its dialogs are given out again.

    Args:
        ray: The module, connected to a cluster.
        start: Makes the handle of a new ``Replica``.
        about: What the replicas have to be made with.
        search: Search for those of a machine; None: each searches by itself.

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
            starting = [self._begun(number, node) for number, node in enumerate(nodes)]
            self._batch_sizes = [self._started(answer) for answer in ray.get(starting, timeout=START_SECONDS)]
        except ray.exceptions.GetTimeoutError as error:
            up, _ = ray.wait(starting, num_returns=count, timeout=0)
            raise EvaluationError(f"{len(up)} of {count} replicas started within {START_SECONDS:.0f} s") from error
        except ray.exceptions.RayTaskError as error:
            raise EvaluationError(f"a replica cannot be started: {error.cause}") from error
        except ray.exceptions.RayActorError as error:
            raise EvaluationError(f"a replica cannot be started: {error}") from error

    def get_batch_size(self) -> int:
        """Of each agent."""
        return self._batch_sizes[0]

    def models(self) -> dict[str, str]:
        """Role to name of the models that the replicas have loaded."""
        found: dict[str, str] = {}
        for replica in self._replicas:
            try:
                found |= self._ray.get(replica.models.remote(), timeout=ANSWER_SECONDS)
            except (self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError) as error:
                log.warning("a replica does not say what models it has: %s", first_line(error))
        return found

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
        while not work.finished:
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
            number, asked = under_way.pop(ready[0])
            try:
                found = ray.get(ready[0])
            except ray.exceptions.RayTaskError as error:
                raise EvaluationError(f"replica {number}: {error.cause}") from error
            except ray.exceptions.RayActorError as error:
                deaths[number] += 1
                log.warning("replica %d died (%s); its dialogs are asked on others", number, first_line(error))
                work.lost(number)
                ray.kill(self._replicas[number])  # one that is only out of reach must not keep its GPU
                if deaths[number] < MAX_DEATHS:
                    self._replicas[number] = self._start()
                    under_way[self._replicas[number].node.remote()] = number, None
                continue
            if isinstance(found, str):  # where it is
                under_way[self._begun(number, found)] = number, None
                continue
            free.add(number)
            if asked is None:
                self._started(found)
                continue
            deaths[number] = 0
            work.answered(number)
            yield asked, found

    def close(self) -> None:
        """End the replicas."""
        ended(self._ray, self._replicas)

    def _begun(self, number: int, node: str) -> Any:
        """Start the agent of a replica that is on a node, with the search of that node."""
        return self._replicas[number].start.remote(None if self._search is None else self._search.on(node))

    def _started(self, answer: tuple[int, Mapping[str, Any]]) -> int:
        batch_size, about = answer
        if about != self._about:
            raise EvaluationError(
                f"a replica is made with {about}, not with {self._about}: every machine needs the same checkout and the same environment"
            )
        return batch_size


@contextmanager
def replicated(
    options: RunOptions, about: Mapping[str, Any], build: BuildAgent | None = None
) -> Iterator[LaunchedAgent]:
    """The ``--replicas`` agents of a command line on the cluster at ``--ray-address``, or on one started for them here.

    On a cluster with GPUs each replica has one to itself; the search of a machine is on one of them.

    Args:
        about: What the run is made with (``launching.prepare``); every replica has to be made with the same.
        build: Builds an agent instead of the class that ``--agent`` names; its module can be imported on every machine.

    Raises:
        EvaluationError: Ray is not installed, there is no cluster, it has too few GPUs, or the replicas cannot be started.
    """
    count = options.replicas or 1
    try:
        with cluster(options.ray_address, "--replicas") as ray:
            shared = shared_search(options, build)
            own, searching = gpus_of(ray, count, sharing=shared is not None)
            place = ray.remote(Replica).options(num_gpus=own, scheduling_strategy="SPREAD")
            start = partial(place.remote, options, build, str(Path.cwd()))
            with ExitStack() as stack:
                search = None
                if shared is not None:
                    search = stack.enter_context(closing(OnePerNode(ray, *shared, gpus=searching)))
                replicas = stack.enter_context(closing(Replicas(ray, count, start, about, search)))
                yield LaunchedAgent(replicas, models=replicas.models)
    except ClusterError as error:
        raise EvaluationError(str(error)) from error
