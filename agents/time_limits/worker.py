"""A worker thread under a time limit: one that hangs is abandoned and replaced."""

import atexit
import ctypes
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
_Jobs = queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]

_JOIN_SECONDS = 5.0  # for abandoned threads, when the process ends
_REMINDER_SECONDS = 0.05  # between two attempts to end one: a stage takes the first for a fault of a turn, and goes on


class HungError(RuntimeError):
    """The work did not end in time; ``thread`` is the one in which it still runs."""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__("it did not end in time")
        self.thread = thread


class EscapedError(RuntimeError):
    """The work raised a ``BaseException`` that is no ``Exception``: SystemExit, asyncio's CancelledError, a panic of a Rust library."""


class ProcessEndsError(SystemExit):
    """Raised in abandoned threads when the process ends."""


def where(thread: threading.Thread) -> str:
    """Return the innermost function of the agent that a thread is in, with its module; "" for a thread that has ended."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("agents."):
            return f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back
    return ""


class Worker:
    """Runs one piece of work at a time in a thread of its own, always the same one until a piece hangs.

    One lasting thread: OpenMP keeps a pool of threads for each thread that ever computed, so that a new one each time would cost. No
    executor of the standard library: those wait at the end of the process for threads that hang.
    A thread that hangs cannot be ended from outside; it is a daemon, given nothing more to do, and ends when what it waits for does.
    A library that hangs without letting go of Python's interpreter lock stops every thread: nothing inside the process helps then.
    """

    poll_seconds = 0.02  # how late a hang may be noticed; the end of work is noticed at once

    def __init__(self) -> None:
        self._jobs: _Jobs | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], T], over: Callable[[], bool]) -> T:
        """Do the work and raise what it raises.

        Raises:
            HungError: ``over`` says that it took too long. A new thread does the next work.
            EscapedError: Replaces a ``BaseException`` other than KeyboardInterrupt, which would end the evaluator's process.
        """
        if self._jobs is None or self._thread is None or not self._thread.is_alive():  # not alive: after a fork
            self._jobs = queue.SimpleQueue()
            self._thread = threading.Thread(target=_serve, args=(self._jobs,), name="crag-worker", daemon=True)
            self._thread.start()
            weakref.finalize(self, self._jobs.put, None)
        future: Future[T] = Future()
        self._jobs.put((work, future))
        try:
            while True:
                try:
                    return future.result(self.poll_seconds)
                except NotYet:
                    if future.done():  # the work raised a TimeoutError itself, or has ended since the wait did
                        return future.result()
                    if over():
                        raise HungError(self._thread) from None
        except BaseException as error:
            ours = future.done() and future.exception() is error  # else a signal's, to the thread that waits
            if not ours or isinstance(error, Exception | KeyboardInterrupt):
                raise
            raise EscapedError(f"{type(error).__name__}: {error}") from error
        finally:
            if not future.done():  # too late, or the waiting thread was interrupted
                self._abandon()

    def _abandon(self) -> None:
        if self._jobs is not None and self._thread is not None:
            self._jobs.put(None)  # it ends once it is free
            _left_behind.add(self._thread)
            atexit.unregister(_see_off)
            atexit.register(_see_off)  # anew: the latest is called first, before libraries that the thread uses go down
        self._jobs = self._thread = None


def _serve(jobs: _Jobs) -> None:
    with suppress(ProcessEndsError):  # raised anywhere, and Python prints the traceback of a thread
        while (job := jobs.get()) is not None:
            work, future = job
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - handed over to the thread that waits
                future.set_exception(error)
            del job, work, future  # or the turns would live until the next ones come


_left_behind: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def leave_behind() -> None:
    """Do not wait for abandoned threads at the end: the process ends without the interpreter's shutdown, and they with it."""
    atexit.unregister(_see_off)


def _hide_end(unraisable: Any, shown: Callable[[Any], object]) -> None:
    """Show an exception that nobody can handle, unless it is the end of an abandoned thread, raised inside a ``__del__``."""
    if not isinstance(unraisable.exc_value, ProcessEndsError) and unraisable.exc_type is not ProcessEndsError:
        shown(unraisable)


def _see_off() -> None:
    """End the abandoned threads before the interpreter shuts down.

    A daemon thread that returns from a library written in C++ while Python shuts down is ended inside that library, whose destructors
    may not be left so: the process would abort, whatever its status was to be (``terminate called without an active exception``). An
    exception raised in the thread ends it at its next line of Python. One that stays within a single call has no lines to come to; the
    process leaves it there.
    """
    sys.unraisablehook = partial(_hide_end, shown=sys.unraisablehook)
    end = time.monotonic() + _JOIN_SECONDS
    while (running := [thread for thread in _left_behind if thread.is_alive()]) and time.monotonic() < end:
        for thread in running:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident or 0), ctypes.py_object(ProcessEndsError)
            )
        running[0].join(_REMINDER_SECONDS)
