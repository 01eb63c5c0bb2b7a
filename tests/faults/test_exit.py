"""A process that leaves work behind still ends well: what hung may not abort the interpreter on its way out."""

from __future__ import annotations

import queue
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from agents.time_limits import worker
from agents.time_limits.worker import ProcessEndsError

ROOT = Path(__file__).resolve().parents[2]

LEFT_BEHIND = """
    import sys, threading
    import torch
    from agents.time_limits.worker import HungError, Worker

    started = threading.Event()

    def generate():  # as a model's loop: short calls that let go of the interpreter lock, from C++ that cannot be unwound
        numbers = torch.ones(400, 400, requires_grad=True)
        while True:
            torch.tanh(numbers @ numbers).sum().backward()
            started.set()

    try:
        Worker().run(generate, started.is_set)
    except HungError:
        print("answered", flush=True)
    sys.exit({status})
"""


def left_behind(status: int, program: str = LEFT_BEHIND) -> subprocess.CompletedProcess[str]:
    code = textwrap.dedent(program).format(status=status)
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_a_loop_that_was_left_behind_ends_with_the_process() -> None:
    ended = left_behind(3)  # "terminate called without an active exception" and status -6, were it still running
    assert ended.stdout == "answered\n"
    assert (ended.returncode, ended.stderr) == (3, "")


STAGE_LEFT_BEHIND = """
    import sys, threading
    from agents.runner.pipeline import attempt
    from agents.time_limits.worker import HungError, Worker
    from agents.stage import Stage

    started = threading.Event()

    class Endless(Stage):
        name = "endless"

        def run(self, turns, context):
            while True:
                started.set()

    try:
        Worker().run(lambda: attempt(Endless(), [None], None), started.is_set)
    except HungError:
        print("answered", flush=True)
    sys.exit({status})
"""


def test_a_stage_that_was_left_behind_ends_in_silence() -> None:
    ended = left_behind(130, STAGE_LEFT_BEHIND)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "answered\n", "")


def test_a_worker_that_is_ended_between_two_jobs_ends_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the process reaches a thread more than once, so maybe outside of any work; Python prints that traceback."""

    class Ending(queue.SimpleQueue[Any]):
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            raise ProcessEndsError

    printed: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    thread = threading.Thread(target=worker._serve, args=(Ending(),))
    thread.start()
    thread.join()
    assert printed == []
