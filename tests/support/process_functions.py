"""Functions for the worker's process, which finds them by their names; on their own, so that it imports nothing else.

``ready_worker`` is for the tests: on a busy machine its process may take long to start, which is not what they are about.
"""

from __future__ import annotations

import importlib
import json
import os
import signal

from agents.time_limits.subprocess_worker import SubprocessWorker

WORKER = SubprocessWorker()


def doubled(data: bytes) -> bytes:
    """The data twice."""
    return data * 2


def failing(data: bytes) -> bytes:
    """Raises what is no ``Exception``."""
    raise SystemExit(data.decode())


def endless(data: bytes) -> bytes:
    """Never ends."""
    while True:
        data = data[::-1]


def dying(data: bytes) -> bytes:
    """Ends the process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return data


def greedy(data: bytes) -> bytes:
    """Takes more memory than there may be."""
    return data * (3 << 30)


def environment(data: bytes) -> bytes:
    """The variables that the process sees, as JSON."""
    del data
    return json.dumps(dict(os.environ)).encode()


def process(data: bytes) -> bytes:
    """The number of the process."""
    del data
    return str(os.getpid()).encode()


def double(number: int) -> int:
    """Twice a number; 3 cannot be doubled, and a negative one ends the process."""
    if number < 0:
        end_process()
    if number == 3:
        raise ValueError(f"{number} cannot be doubled")
    return 2 * number


def end_process(*_: object) -> None:
    """Ends the process without a word."""
    os._exit(1)


def ready_worker() -> SubprocessWorker:
    """``WORKER``, whose process has started."""
    WORKER.run("agents.search.pages.page_reader:safe_bytes", b"", 120.0)
    return WORKER


class WorkerHere(SubprocessWorker):
    """Runs the function in this process, where a test may have replaced parts of it."""

    def run(self, function: str, data: bytes, seconds: float) -> bytes:
        """Run it, with no limit."""
        del seconds
        module, _, name = function.partition(":")
        result: bytes = getattr(importlib.import_module(module), name)(data)
        return result
