"""Ray: a cluster to work on, and a function spread over it (docs/scale.md). Ray is imported here, when it is asked for."""

from __future__ import annotations

import logging
import os
import pickle
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")

ANSWER_SECONDS = 10.0
"""A cluster answers within this."""

_ITEMS_A_TASK = 32  # what a killed build has to do again on each worker


class ClusterError(RuntimeError):
    """Ray or its cluster cannot be used, or what was spread over it failed; the message says why."""


class Each(Protocol):
    """Results of a function for items, in their order; what is sent to other processes is picklable."""

    def __call__(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """One result an item."""
        ...


def in_turn(function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
    """``Each`` in this process."""
    return map(function, items)


@contextmanager
def cluster(address: str | None, wanted_by: str) -> Iterator[Any]:
    """Ray, connected to the cluster at ``address`` (HOST:PORT), or to one of this machine that ends with the ``with``.

    Args:
        wanted_by: The flag that takes Ray, for the message where it is not installed.

    Raises:
        ClusterError: Ray is not installed, or no cluster answers.
    """
    try:
        import ray
    except ImportError as error:
        raise ClusterError(f"{wanted_by} takes Ray: pip install -r requirements/scale.txt") from error
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


def spread(workers: int, *, gpus: bool = False) -> Each:
    """``Each`` by Ray Data on ``workers`` processes of the connected cluster; a task whose process dies is done again on another.

    What the function raises is raised where the results are taken.

    Args:
        gpus: On a cluster with GPUs each worker has one to itself.
    """

    def each(function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        import ray
        import ray.data

        # Pickled: Arrow would hand on tuples as lists and paths as objects.
        rows = [{"item": pickle.dumps(item)} for item in items]
        if not rows:
            return
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False  # whoever takes the results has one
        logging.getLogger("ray.data").setLevel(logging.WARNING)
        context.execution_options.preserve_order = True
        asked: dict[str, Any] = {
            "compute": ray.data.TaskPoolStrategy(size=workers),
            "num_gpus": int(gpus and ray.cluster_resources().get("GPU", 0) > 0),
        }
        blocks = -(-len(rows) // _ITEMS_A_TASK)
        data = ray.data.from_items(rows, override_num_blocks=max(blocks, min(workers, len(rows))))
        folder = Path.cwd()
        work = data.map(lambda row: {"made": _made(function, row["item"], folder)}, **asked)
        try:
            for row in work.iter_rows():
                made, error = pickle.loads(row["made"])
                if error is not None:
                    raise error
                yield made
        except ray.exceptions.RayError as error:
            raise ClusterError(_line(error)) from error

    return each


def _made(function: Callable[[Any], Any], item: bytes, folder: Path) -> bytes:
    """The result and None, or None and what was raised: Ray would hand that on as an error of its own."""
    try:
        os.chdir(folder)  # relative paths hold here too
        return pickle.dumps((function(pickle.loads(item)), None))
    except Exception as error:  # noqa: BLE001 - raised where the results are taken
        return pickle.dumps((None, error))


def _knock(address: str) -> None:
    """Raise OSError where nothing listens at HOST:PORT: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), ANSWER_SECONDS).close()


def _line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]  # Ray's messages hold whole traces
