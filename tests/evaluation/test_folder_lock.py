"""Two commands never write into one output folder."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evaluation.files.folder_lock import LOCK, WRITER, lock_folders
from evaluation.files.responses import RESPONSES
from evaluation.records import EvaluationError
from evaluation.studies import ablate, calibrate, compare, flips, leaderboard
from tests.evaluation.runs_of_scripts import run_it, scripted_world

HOLDER = """
import sys
from pathlib import Path
from evaluation.files.folder_lock import lock_folders
with lock_folders(Path(sys.argv[1])):
    print("holding", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scripted_world(tmp_path_factory.mktemp("world")) as folder:
        assert run_it(folder, folder / "saved") == 0
        yield folder


@contextmanager
def hold_folder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes into a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "holding\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def _commands(world: Path, out: Path) -> dict[str, Callable[[], int]]:
    saved, to = str(world / "saved"), ["--out", str(out)]
    several = [*f"--dataset {world} --tasks multi --eval-model rule --cache {world}/cache".split(), *to]
    return {
        "both": lambda: run_it(world, out),
        "generate": lambda: run_it(world, out, "--mode", "generate"),
        "resume": lambda: run_it(world, out, "--resume"),
        "evaluate": lambda: run_it(world, out, "--mode", "evaluate", "--input-file", f"{saved}/{RESPONSES}"),
        "compare": lambda: compare.main(["--presets", "best", *several]),
        "ablate": lambda: ablate.main(["--preset", "best", "--without", "rerank", *several]),
        "leaderboard": lambda: leaderboard.main([saved, *to]),
        "flips": lambda: flips.main([f"a={saved}", f"b={saved}", *to]),
        "calibrate": lambda: calibrate.main(["--runs", str(out), "--preset", "best"]),
    }


COMMANDS = tuple(_commands(Path(), Path()))


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A folder into which another process writes, and that process."""
    folder = tmp_path_factory.mktemp("held") / "out"
    with hold_folder(folder) as holder:
        yield folder, holder.pid


@pytest.mark.parametrize("name", COMMANDS)
def test_who_writes_into_a_folder_is_told(
    name: str, world: Path, held: tuple[Path, int], capsys: pytest.CaptureFixture[str]
) -> None:
    out, process = held
    before = {path: path.read_bytes() for path in out.iterdir()}
    assert _commands(world, out)[name]() == 2
    output = capsys.readouterr().out
    assert output.count("\n") == 1 and output.startswith(f"error: {out} is being written into by process")
    assert f"process {process} on {socket.gethostname()} since 20" in output
    assert "-c" in output and "wait for its end" in output
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_a_folder_of_one_data_set_is_part_of_a_run_over_both(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold_folder(tmp_path / "multi-turn"):
        assert run_it(world, tmp_path, "--dataset-type", "both") == 2
    assert f"{tmp_path / 'multi-turn'} is being written into" in capsys.readouterr().out


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_killed_process_locks_nothing(resume: list[str], world: Path, tmp_path: Path) -> None:
    with hold_folder(tmp_path) as holder:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        assert (tmp_path / WRITER).exists()  # nobody has tidied up
        assert run_it(world, tmp_path, *resume) == 0
    assert not (tmp_path / WRITER).exists()


def test_what_runs_says_who_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "correct-horse-battery")
    monkeypatch.setattr(
        sys, "orig_argv", ["python3", "local_evaluation.py", "--set", "a=correct-horse-battery", "b\nc"]
    )
    with lock_folders(tmp_path):
        writer = json.loads((tmp_path / WRITER).read_text())
        assert (writer["process"], writer["host"]) == (os.getpid(), socket.gethostname())
        assert writer["command"].endswith(" local_evaluation.py --set a=*** 'b c'")
        assert "correct-horse" not in (tmp_path / WRITER).read_text() and "\n" not in writer["command"]
        with pytest.raises(EvaluationError, match="written into by process"), lock_folders(tmp_path):
            pass
        (tmp_path / WRITER).write_text("[" * 100_000)
        with pytest.raises(EvaluationError, match="written into by another process"), lock_folders(tmp_path):
            pass


def test_a_folder_into_which_nothing_was_written_goes_again(tmp_path: Path) -> None:
    with lock_folders(tmp_path / "new", None, tmp_path / "new"):
        assert (tmp_path / "new" / LOCK).exists()
    assert not (tmp_path / "new").exists()
    with lock_folders(tmp_path / "new"):
        (tmp_path / "new" / "scores").touch()
    assert (tmp_path / "new" / "scores").exists()
    (tmp_path / "old").mkdir()
    with lock_folders(tmp_path / "old"):
        pass
    assert (tmp_path / "old").is_dir()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_a_warning(
    number: int, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def flock(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with caplog.at_level(logging.WARNING):
        assert leaderboard.main([str(world / "saved"), "--out", str(tmp_path)]) == 0
    assert (tmp_path / "leaderboard.json").is_file()
    assert "the file system has no locks" in caplog.text


def test_reading_a_run_that_goes_on_changes_nothing_in_its_folder(world: Path, tmp_path: Path) -> None:
    """A line that is being written looks like one that was cut off: only who resumes the run may cut it away."""
    saved = world / "saved"
    for name in (RESPONSES, "run_log.jsonl", "run.json"):
        (tmp_path / name).write_bytes((saved / name).read_bytes())
    with (tmp_path / "run_log.jsonl").open("ab") as file:
        file.write(b'{"session_id": "a", "inter')
    before = {path: (path.read_bytes(), path.stat().st_ino) for path in tmp_path.iterdir()}
    judge = ["--mode", "evaluate", "--input-file", str(tmp_path / RESPONSES), "--no-report"]
    assert run_it(world, tmp_path.with_name("elsewhere"), *judge) == 0
    assert leaderboard.main([str(tmp_path)]) == 0
    assert {path: (path.read_bytes(), path.stat().st_ino) for path in tmp_path.iterdir()} == before
