"""Ray: a cluster to work on, and actors on it (docs/scale.md). Ray is imported when it is asked for."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from agents.base.secrets import keep_out_of_logs

ANSWER_SECONDS = 10.0
"""A cluster answers within this."""

START_SECONDS = 600.0
"""An actor is ready within this: an agent may take 10 minutes to start (challenge rules)."""

MAX_DEATHS = 3
"""Consecutive deaths after which a replica is not started again, or a call not repeated."""

SHARED_GPU = 0.05
"""Fraction of a GPU reserved in Ray for the shared search; the replica on that GPU gets the rest."""

_CALLS = 32  # of one shared actor at once: of all replicas of a machine, with those that nobody waits for any more


class ClusterError(RuntimeError):
    """Ray or its cluster cannot be used, or its work failed; the message says why."""


class GoneError(ClusterError):
    """An actor that others need has died for good."""


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Connect to Ray and yield its module.

    Args:
        address: The cluster, HOST:PORT. None starts a cluster on this machine that ends with the ``with``.

    Raises:
        ClusterError: Ray is not installed, or no cluster answers.
    """
    try:
        import ray
    except ImportError as error:
        raise ClusterError("--replicas takes Ray: pip install -r requirements/scale.txt") from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to Ray's makers
    here: dict[str, Any] = {"address": "local", "include_dashboard": False}
    try:
        if address and "://" not in address:
            _knock(address)
        ray.init(**({"address": address} if address else here), logging_level=logging.WARNING)
    except (OSError, RuntimeError, ValueError) as error:
        raise ClusterError(f"no Ray cluster at {address or 'this machine'}: {_line(error)}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


class NodeActor:
    """Ray actor that works in the command's folder, so that relative paths work."""

    def __init__(self, folder: str) -> None:
        os.chdir(folder)
        keep_out_of_logs()

    def node(self) -> str:
        """Ray's name of the machine."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def process(self) -> int:
        """Process id on that machine."""
        return os.getpid()

    def leave(self) -> NoReturn:
        """End the process; whoever asked it hears that it died."""
        import ray

        ray.actor.exit_actor()
        raise AssertionError  # for type checkers, which do not know Ray


class OnePerNode:
    """One actor a node, created on first use and again if it has died for good. Ray itself restarts one that can be restarted.

    Args:
        ray: The module, connected to a cluster.
        kind: A class derived from ``NodeActor``.
        arguments: Arguments of its constructor.
        gpus: Share of a GPU of its node that an actor takes.
    """

    def __init__(self, ray: Any, kind: type[NodeActor], arguments: Sequence[Any], gpus: float = 0.0) -> None:
        self._ray, self._kind, self._arguments, self._gpus = ray, kind, arguments, gpus
        self._handles: list[
            Any
        ] = []  # all: Ray ends an actor with the handle that made it, and one found by name is not that

    def on(self, node: str) -> Any:
        """Return the handle of the actor on a node (``NodeActor.node``), started if it does not exist yet."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = self._ray.remote(self._kind).options(
            name=f"{self._kind.__name__} of {node}",
            get_if_exists=True,
            max_restarts=-1,
            max_concurrency=_CALLS,
            num_cpus=0,  # beside those who ask it: who waits for it needs no core
            num_gpus=self._gpus,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        )
        handle = place.remote(*self._arguments)
        self._handles.append(handle)
        return handle

    def close(self) -> None:
        """End them all."""
        end_actors(self._ray, self._handles)


def end_actors(ray: Any, actors: Sequence[Any]) -> None:
    """End actors as processes end, which Ray's kill would not do: each removes its copies of indices."""
    ending = [actor.__ray_terminate__.remote() for actor in actors]
    if ending:
        ray.wait(ending, num_returns=len(ending), timeout=ANSWER_SECONDS)


def share_gpus(ray: Any, replicas: int, *, sharing: bool) -> tuple[float, float]:
    """Compute the share of a GPU for each replica and for an actor that a machine's replicas share.

    Returns:
        Both shares by Ray's count; zeros on a cluster without GPUs.

    Raises:
        ClusterError: There are fewer GPUs than replicas.
    """
    gpus = int(ray.cluster_resources().get("GPU", 0))
    if gpus == 0:
        return 0.0, 0.0
    if gpus < replicas:
        raise ClusterError(f"{replicas} replicas take a GPU each; the cluster has {gpus}")
    return (1 - SHARED_GPU, SHARED_GPU) if sharing else (1.0, 0.0)


def _knock(address: str) -> None:
    """Raise OSError if nothing listens at HOST:PORT, because Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]  # Ray's messages contain whole traces
