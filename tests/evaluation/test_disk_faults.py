"""A disk that is full or read-only, and files and folders in each other's place: one line, status 2, and no answer is lost."""

from __future__ import annotations

import errno
import io
import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from agents.base.files import write_whole
from evaluation.files.manifest import MANIFEST
from evaluation.files.outputs import ALL_TURNS, EGO_TURNS, SCORES, read_about, write_outputs
from evaluation.files.responses import RESPONSES
from evaluation.files.run_log import RUN_LOG
from evaluation.studies import flips, leaderboard
from tests.evaluation.runs_of_scripts import TURNS, run_it, scripted_world
from tests.evaluation.worlds import judged
from tests.property.fuzzing import THOROUGH

FORK = multiprocessing.get_context("fork")


def run_limited(limit: int, world: Path, output: Path, *arguments: str) -> tuple[int, str]:
    """Run in a process in which no file may get longer than a number of bytes; return the exit status and what was printed.

    The kernel ends writes in the middle, as a full disk does. The process is a fork: its imports would take longer than its run.
    """
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_report_limited, args=(sender, limit, world, output, *arguments))
    child.start()
    assert receiver.poll(120), "the run hangs"
    status, text = receiver.recv()
    child.join()
    return status, text


def _report_limited(sender: Any, limit: int, world: Path, output: Path, *arguments: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    with redirect_stdout(io.StringIO()) as stream, redirect_stderr(stream):
        status = run_it(world, output, *arguments)
    sender.send((status, stream.getvalue()))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with scripted_world(tmp_path_factory.mktemp("world")) as folder:
        assert run_it(folder, folder / "saved") == 0
        yield folder


def _error(text: str) -> str:
    """Return the only line that reports an error, which is the last one."""
    assert text.count("error: ") == 1 and "Traceback" not in text, text
    return text.strip().splitlines()[-1]


def test_a_disk_that_fills_up_during_a_run_costs_no_answer(world: Path, tmp_path: Path) -> None:
    whole = (world / "saved" / RESPONSES).read_bytes()
    limit = len(whole) * 2 // 3
    status, printed = run_limited(limit, world, tmp_path / "out")
    assert status == 2, printed
    error = _error(printed)
    assert f"writing {tmp_path / 'out'}/" in error and "File too large" in error and "make room there" in error
    assert "the answers made before are kept: then continue with --resume" in error
    content = (tmp_path / "out" / RESPONSES).read_bytes()
    assert whole.startswith(content) and 0 < content.count(b"\n") < sum(TURNS)
    json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert not [*(tmp_path / "out").glob(".new-*")]
    assert run_it(world, tmp_path / "out", "--resume") == 0
    assert (tmp_path / "out" / RESPONSES).read_bytes() == whole
    scores = [json.loads((folder / SCORES).read_text())["all"] for folder in (tmp_path / "out", world / "saved")]
    assert scores[0] == scores[1]


def test_a_cut_off_line_is_cut_away_where_no_room_is_left(world: Path, tmp_path: Path) -> None:
    """Rewriting the file would take as much room again."""
    whole = (world / "saved" / RESPONSES).read_bytes()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MANIFEST).write_bytes((world / "saved" / MANIFEST).read_bytes())
    (tmp_path / "out" / RESPONSES).write_bytes(whole[:-20])
    status, printed = run_limited(len(whole) // 2, world, tmp_path / "out", "--resume")
    assert status == 2, printed
    assert _error(printed)
    assert (tmp_path / "out" / RESPONSES).read_bytes() == whole[: whole.rindex(b"\n", 0, -1) + 1]


FAULTS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO)
FILES = (".lock", MANIFEST, RESPONSES, RUN_LOG, ALL_TURNS, EGO_TURNS, SCORES, "report.html")


@pytest.mark.parametrize(
    ("name", "number"),
    [
        (name, number)
        for row, name in enumerate(FILES)
        for column, number in enumerate(FAULTS)
        if THOROUGH or (row + column) % 3 == 0  # every file with one or two faults, every fault with two or three files
    ],
)
def test_a_file_that_cannot_be_written_is_told(
    number: int,
    name: str,
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, real = tmp_path / "out", Path.open

    def refuse(path: Any, *more: Any, **named: Any) -> Any:
        if refusing and Path(path) == out / name:
            raise OSError(number, os.strerror(number), str(path))

    def refuse_open(path: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        if "r" not in mode:
            refuse(path)
        return real(path, mode, *more, **named)

    real_replace, real_open = Path.replace, os.open

    def refuse_replace(path: Path, target: Path) -> Path:
        refuse(target)
        return real_replace(path, target)

    def refuse_os_open(path: Any, *more: Any, **named: Any) -> int:
        refuse(path)
        return real_open(path, *more, **named)

    refusing = True
    monkeypatch.setattr(Path, "open", refuse_open)
    monkeypatch.setattr(Path, "replace", refuse_replace)
    monkeypatch.setattr(os, "open", refuse_os_open)
    assert run_it(world, out) == 2
    error = _error(capsys.readouterr().out)
    assert os.strerror(number) in error and str(out) in error, error
    refusing = False
    assert run_it(world, out, "--resume") == 0
    assert (out / RESPONSES).read_bytes() == (world / "saved" / RESPONSES).read_bytes()


@pytest.mark.parametrize("name", [ALL_TURNS, EGO_TURNS, SCORES])
def test_verdicts_do_not_pass_to_the_judge_before(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full between table and scores leaves the new verdicts without a judge, never under the old one's name."""
    write_outputs(tmp_path, judged("cc"), {"judge": "one"})
    real = Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if target == tmp_path / name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        return real(path, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_outputs(tmp_path, judged("hh"), {"judge": "another"})
    assert read_about(tmp_path) == {}
    monkeypatch.undo()
    write_outputs(tmp_path, judged("hh"), {"judge": "another"})
    assert read_about(tmp_path)["judge"] == "another"


def _a_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("precious")


PLACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "output folder is a file": (lambda out: _a_file(out), "a file is where a folder is needed"),
    "output folder below a file": (lambda out: _a_file(out.parent), "a file is where a folder is needed"),
    "responses are a folder": (lambda out: (out / RESPONSES / "x").mkdir(parents=True), "a folder is where a file is needed"),
    "scores are a folder": (lambda out: (out / SCORES / "x").mkdir(parents=True), "a folder is where a file is needed"),
    "table is a folder": (lambda out: (out / ALL_TURNS / "x").mkdir(parents=True), "a folder is where a file is needed"),
    "manifest is a folder": (lambda out: (out / MANIFEST / "x").mkdir(parents=True), "a folder is where a file is needed"),
    "report is a folder": (lambda out: (out / "report.html" / "x").mkdir(parents=True), "a folder is where a file is needed"),
    "lock is a folder": (lambda out: (out / ".lock" / "x").mkdir(parents=True), "a folder is where a file is needed"),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_files_and_folders_in_each_others_place(
    place: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "parent" / "out"
    make, advice = PLACES[place]
    make(out)
    assert run_it(world, out) == 2
    error = _error(capsys.readouterr().out)
    assert advice in error and "parent" in error, error
    if out.is_file():
        assert out.read_text() == "precious"


def test_studies_tell_it_too(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _a_file(tmp_path / "out")
    saved, out = str(world / "saved"), ["--out", str(tmp_path / "out")]
    assert leaderboard.main([saved, *out]) == 2
    assert "a file is where a folder is needed" in _error(capsys.readouterr().out)
    assert flips.main([f"a={saved}", f"b={saved}", *out]) == 2
    assert "a file is where a folder is needed" in _error(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("place", "advice"),
    [("", "is a folder; name a file of saved answers, such as"), ("x" * 5000, "File name too long"), ("none", "does not exist")],
)  # fmt: skip
def test_saved_answers_that_are_no_file(
    place: str, advice: str, world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = world / "saved" / place
    assert run_it(world, tmp_path / "out", "--mode", "evaluate", "--input-file", str(saved)) == 2
    error = _error(capsys.readouterr().out)
    assert advice in error and len(error) < 600
    assert not (tmp_path / "out").exists()


def test_what_is_begun_is_taken_away_and_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "scores.json"
    write_whole(path, "old\n", durable=True)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new\n", durable=True)
    assert [file.name for file in tmp_path.iterdir()] == ["scores.json"]
    assert path.read_text() == "old\n"


def test_files_get_the_rights_that_the_user_gives(tmp_path: Path) -> None:
    """Results are shared: a temporary file's own rights would keep everybody else from them."""
    (tmp_path / "plain").touch()
    write_whole(tmp_path / "whole", b"")
    assert (tmp_path / "whole").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_error_is_told_where_the_terminal_is_on_the_full_disk(world: Path, tmp_path: Path) -> None:
    command = [sys.executable, "local_evaluation.py", "--mode", "evaluate", "--output-dir", str(tmp_path)]
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert process.returncode in (2, 120)  # 120: Python could not flush what it had to say
    assert "Traceback" not in process.stderr and "error: " in process.stderr
