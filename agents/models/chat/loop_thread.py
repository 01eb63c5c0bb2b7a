"""Event loops in background threads: synchronous calls to asynchronous clients and engines."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from agents.time_limits.deadline import Deadline

T = TypeVar("T")

GRACE_SECONDS = 0.25
"""After a deadline, for requests to end in an orderly way; then what has come is taken as it is, before the pipeline gives the stage up
(half of ``limits.margin_seconds``)."""

_LOOK_SECONDS = 0.1  # between two looks at whether somebody has cancelled


@asynccontextmanager
async def time_limit(seconds: float, deadline: Deadline) -> AsyncIterator[asyncio.Timeout]:
    """Give up the block after so many seconds, or as soon as somebody has cancelled the deadline.

    Raises:
        TimeoutError: The block was given up.
    """
    async with asyncio.timeout(seconds) as limit:
        watching = asyncio.create_task(_end_if_cancelled(limit, deadline))
        try:
            yield limit
        finally:
            watching.cancel()


async def _end_if_cancelled(limit: asyncio.Timeout, deadline: Deadline) -> None:
    while not limit.expired():
        if deadline.cancelled:
            limit.reschedule(asyncio.get_running_loop().time())
            return
        await asyncio.sleep(_LOOK_SECONDS)


def within(work: Coroutine[Any, Any, T], seconds: float, name: str) -> T:
    """Run a coroutine in a loop and a thread of its own, and return its result.

    Raises:
        TimeoutError: It took longer than ``seconds``. It goes on in its thread and ends when it may.
    """
    result: Future[T] = Future()

    async def told() -> None:  # before the loop is closed, which waits for threads that look up addresses
        try:
            result.set_result(await work)
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the caller
            result.set_exception(error)

    threading.Thread(target=asyncio.run, args=(told(),), name=name, daemon=True).start()
    return result.result(seconds)


class LoopThread:
    """Runs coroutines for any number of threads, also for those that have a running loop of their own."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine in this loop and return its result.

        Raises:
            TimeoutError: It took longer than ``timeout`` seconds and was cancelled.
            RuntimeError: The thread is closed.
        """
        future = self.begin(work)
        try:
            return future.result(timeout)
        except TimeoutError:
            future.cancel()
            raise

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin to run a coroutine in this loop, and return its future.

        Raises:
            RuntimeError: The thread is closed.
        """
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise

    def cancel_all(self, timeout: float | None = None) -> None:
        """Cancel all tasks of the loop, and return when they have ended.

        Raises:
            TimeoutError: They have not ended within ``timeout`` seconds.
        """

        async def cancel() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(cancel(), timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Stop the loop and wait up to ``timeout`` seconds for its thread; a second call does nothing."""
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout)
        if not self._thread.is_alive():
            self._loop.close()
