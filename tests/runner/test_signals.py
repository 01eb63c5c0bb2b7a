"""A command that is told to end by SIGTERM ends as by Ctrl-C, with nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agents.profiles.profile import ROOT
from agents.time_limits.signals import sigterm_as_ctrl_c

PROGRAM = """
import runpy, sys, threading
import {module} as command
from agents.search.hub import _copies

def main(*_):
    _copies()  # of this process alone, as an index is opened
    try:
        print("copied", flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        return 130

command.main = main
sys.argv = {arguments!r}
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.parametrize(
    ("module", "path", "arguments"),
    [
        ("apps.probe", "apps/crag.py", ["crag", "probe"]),
        ("evaluation.run.command", "local_evaluation.py", ["local_evaluation.py"]),
    ],
)
def test_a_command_ended_by_sigterm_leaves_no_copies(
    module: str, path: str, arguments: list[str], tmp_path: Path
) -> None:
    code = PROGRAM.format(module=module, path=path, arguments=arguments)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"copied\n"
            assert [path.name.startswith("crag-hub-") for path in tmp_path.iterdir()] == [True]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 130
        finally:
            process.kill()
    assert not [*tmp_path.iterdir()]


STUCK = """
import sys, threading
from agents.time_limits import signals
from agents.time_limits.worker import Worker
signals.STOP_SECONDS, signals._KILL_SECONDS = 0.5, 0.5

class Swallowing:
    def __del__(self):
        print("ready", flush=True)
        threading.Event().wait()  # KeyboardInterrupt ends it, and is only printed

def swallowed():
    sys.unraisablehook = lambda _: None
    Swallowing()
    threading.Event().wait()

def keeps_the_lock():
    try:
        print("ready", flush=True)
        threading.Event().wait()
    finally:
        sum(range(10**13))  # in C, where no thread gets the lock

def abandoned():
    def work():
        while True:
            Slow()
    class Slow:
        def __del__(self):
            sum(range(1000))
    threading.Timer(0.2, lambda: print("ready", flush=True)).start()
    Worker().run(work, lambda: False)

def main():
    try:
        {case}()
    except KeyboardInterrupt:
        print("stopped", flush=True)
        return signals.INTERRUPTED

signals.run_program(main)
"""


@pytest.mark.parametrize(
    ("case", "status", "line"),
    [
        ("abandoned", 130, ""),
        ("swallowed", 130, "stopped with a call under way that did not end within 0.5 s\n"),
        ("keeps_the_lock", -signal.SIGALRM, ""),
    ],
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_is_certain_and_a_line(case: str, status: int, line: str, number: signal.Signals) -> None:
    """A thread that was given up, an interrupt lost in a ``__del__``, cleaning up in a library that lets no thread run."""
    code = STUCK.replace("{case}", case)
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            process.send_signal(number)
            out, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, errors) == (status, line)
    assert out == ("stopped\n" if case == "abandoned" else "")


def test_sigterm_is_ctrl_c_within_and_as_before_after_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), sigterm_as_ctrl_c():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_another_thread_leaves_the_handler_alone() -> None:
    def enter() -> object:
        with sigterm_as_ctrl_c():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(enter).result() is signal.getsignal(signal.SIGTERM)
