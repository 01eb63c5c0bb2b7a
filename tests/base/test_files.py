"""Lines that are appended to a file, on a disk that fills up."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents.base.files import append_lines


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let the kernel end writes beyond a size in the middle, as a full disk does."""
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)


def test_lines_that_do_not_fit_leave_nothing_that_the_next_ones_would_follow(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    append_lines(path, ["first", "Köln \ud800"])
    size = path.stat().st_size
    with largest_file(size + 10), pytest.raises(OSError, match="File too large"):
        append_lines(path, ["second", "x" * 20_000])
    append_lines(path, ["third"])
    assert path.read_text(encoding="utf-8").splitlines() == ["first", "Köln \ufffd", "third"]


def test_only_its_owner_can_read_a_new_file(tmp_path: Path) -> None:
    """On a shared machine others read what was asked, and the words in photos."""
    append_lines(tmp_path / "trace.jsonl", ["first"])
    assert (tmp_path / "trace.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_file_that_did_not_exist_holds_nothing_then(tmp_path: Path) -> None:
    with largest_file(10), pytest.raises(OSError, match="File too large"):
        append_lines(tmp_path / "new", ["x" * 20])
    assert (tmp_path / "new").read_bytes() == b""
