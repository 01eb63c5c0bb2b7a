"""A worker process for parsers that a hostile file can keep busy: a thread inside a parser cannot be ended, a process can.

A program of its own behind a socket instead of ``multiprocessing``: a spawned process would import the evaluator's main module again, a
forked one would inherit the locks and the GPU of this one.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection

MAX_MEMORY = (
    2 << 30
)  # bytes of address space; a picture of 64 megapixels takes 0.3e9 as RGBA, a page of 8 MB parsed 0.6e9

_MAX_SECONDS = 24 * 3600.0  # of one piece of work: sockets and timers take no more than some weeks
_START_SECONDS = 30.0  # for the interpreter and its imports, 0.3 s on an idle core; later another is started
_POLL_SECONDS = 0.05  # how late it may be noticed that nobody waits any more
_SPARE_SECONDS = 1.0  # after its time a process ends by itself: the one that would kill it may be gone
_MAIN = "from agents.time_limits.subprocess_worker import serve; serve({fd})"
_DONE, _FAILED = b"+", b"-"


class SubprocessError(RuntimeError):
    """The work failed, or its process ended or cannot be started; the message says why."""


class SubprocessWorker:
    """Runs one function at a time in a process, started when first needed, always the same one until it has to be killed.

    The process gets no environment besides the paths of libraries, so no keys, and at most ``MAX_MEMORY``. It ends with this object.

    Args:
        is_cancelled: Whether nobody waits for the work under way any more; its process is killed then. None: somebody always does.
    """

    def __init__(self, is_cancelled: Callable[[], bool] | None = None) -> None:
        self._is_cancelled = is_cancelled
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._end: weakref.finalize[[], SubprocessWorker] | None = None

    def start(self) -> None:
        """Start the process, so that the first work need not wait for it. A failure to start is raised when it is used."""
        with self._lock, contextlib.suppress(SubprocessError):
            self._running()

    def run(self, function: str, data: bytes, seconds: float) -> bytes:
        """Run a function, ``module:name`` from bytes to bytes, on the data in the process.

        Raises:
            TimeoutError: It takes more than ``seconds`` of real time: its process is killed.
            SubprocessError: Anything else fails, or the function was cancelled.
        """
        seconds = min(seconds, _MAX_SECONDS)
        end = time.monotonic() + seconds
        if seconds <= 0 or not self._lock.acquire(timeout=seconds):
            raise TimeoutError("no time left")
        try:
            process = self._running()
            if not process.ready(end, self._is_cancelled):  # it may be for the next
                raise TimeoutError("the process is starting")
            try:
                return process.run(function, data, end, self._is_cancelled)
            except SubprocessError:
                raise
            except BaseException as error:  # its reply may still come, and would be taken for that of the next
                with contextlib.suppress(SubprocessError):
                    self._restart()  # at once: the next work need not wait for its start
                if isinstance(error, OSError | EOFError) and not isinstance(error, TimeoutError):
                    raise SubprocessError("the process ended") from error
                raise
        finally:
            self._lock.release()

    def _running(self) -> _Process:
        return self._process if self._process is not None and self._process.alive else self._restart()

    def _restart(self) -> _Process:
        if self._end is not None:
            self._end()
        self._process = None
        self._process = _Process()
        self._end = weakref.finalize(self, self._process.end)
        return self._process


class _Process:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        path = {"PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
        environment = {
            name: value for name in ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT") if (value := os.environ.get(name))
        }
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", _MAIN.format(fd=theirs.fileno())],
                    env={**environment, **path},
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            except OSError as error:
                ours.close()
                raise SubprocessError(f"no process can be started: {error}") from error
        self._connection = Connection(ours.detach())
        self._owner = os.getpid()
        self._started, self._ready = time.monotonic(), False

    @property
    def alive(self) -> bool:
        """Whether it can be asked, or will be soon; a fork of this process may not ask it."""
        if self._owner != os.getpid() or self._connection.closed or self._process.poll() is not None:
            return False
        return self._ready or time.monotonic() - self._started < _START_SECONDS

    def ready(self, end: float, is_cancelled: Callable[[], bool] | None = None) -> bool:
        """Wait until it can be asked; whether that was before ``end``, and before the work was cancelled."""
        if not self._ready and self._poll(end, is_cancelled):
            with contextlib.suppress(EOFError, OSError):  # it ended: said when it is asked
                self._connection.recv_bytes()
            self._ready = True
        return self._ready

    def run(self, function: str, data: bytes, end: float, is_cancelled: Callable[[], bool] | None = None) -> bytes:
        """Return the function's result for the data.

        Raises:
            OSError: The process ended, or the work was cancelled (InterruptedError).
            EOFError: The process ended.
            TimeoutError: It takes longer.
        """
        self._connection.send_bytes(json.dumps([function, max(0.0, end - time.monotonic())]).encode())
        self._connection.send_bytes(data)
        if not self._poll(end, is_cancelled):
            if time.monotonic() < end:
                raise InterruptedError("nobody waits any more")
            raise TimeoutError("no end in time")
        if self._connection.recv_bytes() == _FAILED:
            raise SubprocessError(self._connection.recv_bytes().decode())
        return self._connection.recv_bytes()

    def _poll(self, end: float, is_cancelled: Callable[[], bool] | None) -> bool:
        """Wait for the process to say something; return whether it did before the end, and before it was cancelled."""
        if is_cancelled is None:
            return self._connection.poll(max(0.0, end - time.monotonic()))
        while (remaining := end - time.monotonic()) > 0 and not is_cancelled():
            if self._connection.poll(min(_POLL_SECONDS, remaining)):
                return True
        return False

    def end(self) -> None:
        """Kill it; a second call does nothing."""
        self._connection.close()
        if self._owner == os.getpid():
            self._process.kill()
            self._process.wait()


def serve(fd: int) -> None:
    """Execute the requests of a socket until its other end is closed: the main function of the process."""
    import resource
    import signal

    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the other end is closed then
    connection = Connection(fd)
    connection.send_bytes(b"ready")
    while True:
        try:
            function, seconds = json.loads(connection.recv_bytes())
            data = connection.recv_bytes()
        except (EOFError, OSError):
            return
        signal.setitimer(
            signal.ITIMER_REAL, seconds + _SPARE_SECONDS
        )  # its default action ends the process, in C code too
        try:
            state, result = _DONE, _function(function)(data)
        except BaseException as error:  # noqa: BLE001 - parsers raise anything, and the next file may be a good one
            state, result = _FAILED, f"{type(error).__name__}: {error}"[:300].encode(errors="replace")
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        connection.send_bytes(state)
        connection.send_bytes(result)


def _function(name: str) -> Callable[[bytes], bytes]:
    module, _, function = name.partition(":")
    target: Callable[[bytes], bytes] = getattr(importlib.import_module(module), function)
    return target
