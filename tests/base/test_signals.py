"""A command that is told to end by SIGTERM ends as by Ctrl-C, with nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agents.base.signals import sigterm_as_ctrl_c
from agents.profiles.profile import ROOT

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
