"""A function applied to many items, in this process or in several."""

import contextlib
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_ITEMS_A_TASK = 32  # a function, with its weights, is unpickled for each task


class Each(Protocol):
    """Applies a function to items and yields the results in order. Whatever goes to other processes must be picklable."""

    def __call__(self, function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """Yield one result for each item."""
        ...


def map_locally(function: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
    """``Each`` in this process."""
    return map(function, items)


@contextlib.contextmanager
def spread(workers: int) -> Iterator[Each]:
    """Yield an ``Each`` that runs in so many processes, 0: in this one. If one of them dies, its results raise BrokenProcessPool."""
    if not workers:
        yield map_locally
        return
    # Spawned: a fork would inherit locks of libraries whose threads it lacks.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), _ignore_interrupts)
    try:
        yield partial(pool.map, chunksize=_ITEMS_A_TASK)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which reaches all processes of a command, to the one that prints what happened."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
