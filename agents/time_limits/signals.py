"""Signals that end a process: as Ctrl-C does, and for certain within ten seconds."""

from __future__ import annotations

import _thread
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from agents.time_limits.worker import leave_behind

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C stopped, as shells have it."""

STOP_SECONDS = 8.0
"""Seconds after the first signal until the process ends, whatever still runs in it; ``docker stop`` kills after ten."""

_KILL_SECONDS = 1.0  # further ones, for a library that keeps the interpreter lock: the kernel then ends the process
_CLEANING_SECONDS = 1.0  # for what a process registered for its end, such as removing its copies of indices


class _Stop:
    """State of this process: blocks of ``sigterm_as_ctrl_c`` that it is in, and the watchdog that a signal has started."""

    depth = 0
    number = 0  # of the watchdog that counts; earlier ones end without effect
    is_armed = False


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM, which by default ends a process without ``finally`` and ``atexit``.

    After SIGTERM or Ctrl-C the block has ``STOP_SECONDS``: KeyboardInterrupt is lost where it is raised inside a ``__del__``, and work in
    a library may not end. Only the main thread can set handlers; in another one nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as of a job in the background
        numbers.append(signal.SIGINT)
    previous = {number: signal.signal(number, _stop) for number in numbers}
    _Stop.depth += 1
    try:
        yield
    finally:
        _Stop.depth -= 1
        for number, handler in previous.items():
            signal.signal(number, handler)
        if not _Stop.depth:
            _disarm()


def run_program(main: Callable[[], int]) -> NoReturn:
    """Run the main function of a program and exit with its status; one that a signal stopped ends at once."""
    with sigterm_as_ctrl_c():
        status = main()
        end_if_stopped(status)
    sys.exit(status)


def end_if_stopped(status: int) -> None:
    """End the process with a status if a signal has stopped it; else do nothing.

    The interpreter's own end has no limit of time: it collects garbage of gigabytes, and waits for threads.
    """
    if not _Stop.is_armed:
        return
    limit_end(status, _CLEANING_SECONDS, "")
    leave_behind()
    with suppress(BaseException):
        atexit._run_exitfuncs()
    _flush()
    os._exit(status)


def limit_end(
    status: int = INTERRUPTED,
    seconds: float | None = None,
    message: str = "stopped with a call under way that did not end within {seconds:g} s",
) -> None:
    """End the process with a status after some seconds, by default ``STOP_SECONDS`` from the first signal on.

    Args:
        status: Exit status.
        seconds: Seconds from now; None: those from the first signal, so that a second one prolongs nothing.
        message: Line on standard error.
    """
    if seconds is None:
        if _Stop.is_armed:
            return
        seconds = STOP_SECONDS
    _Stop.is_armed = True
    _Stop.number += 1
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + _KILL_SECONDS)
    # No threading.Thread: the handler may have interrupted one that was being started, and would wait for its lock.
    _thread.start_new_thread(_end_after, (seconds, _Stop.number, status, message.format(seconds=seconds)))


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    limit_end()
    raise KeyboardInterrupt


def _disarm() -> None:
    if _Stop.is_armed:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    _Stop.is_armed, _Stop.number = False, _Stop.number + 1


def _end_after(seconds: float, number: int, status: int, message: str) -> None:
    time.sleep(seconds)
    if number == _Stop.number:
        if message:
            os.write(2, f"{message}\n".encode())  # the stream may be locked by whoever hangs
        os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a pipe that nobody reads, or closed
            stream.flush()
