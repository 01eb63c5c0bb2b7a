"""Indices built by worker processes."""

from __future__ import annotations

import os
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from agents.base.worker_processes import spread
from agents.search.build_index import main
from agents.search.encoders import ImageIndexEncoder, TextIndexEncoder
from agents.search.hub import current_revision
from tests.search.conftest import IMAGE_ID, WEB_ID, World, write_sources
from tests.support.process_functions import double, end_process


def sources(folder: Path) -> World:
    """The small world, and as many documents as several tasks take."""
    world = write_sources(folder)
    for number in range(70):
        page = folder / "documents" / f"{number % 7}" / f"{number}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"# Page {number}\n\nThe tower {number} is {number} metres tall.\n")
    (folder / "documents" / "scan.pdf").write_bytes(b"%PDF-1.4 nothing")
    return world


def build(world: World, cache: Path, *arguments: str) -> int:
    made_of = ["--images", str(world.images), "--kg", str(world.kg), "--pages", str(world.pages)]
    names = ["--documents", str(world.folder / "documents"), "--image-id", IMAGE_ID, "--web-id", WEB_ID]
    return main([*made_of, *names, "--cache", str(cache), "--batch-size", "4", "--no-progress", *arguments])


def test_workers_build_the_indices_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Relative: paths of the command line hold in workers too.
    world = sources(Path(os.path.relpath(tmp_path / "world")))
    assert build(world, tmp_path / "one") == 0
    alone = capsys.readouterr()

    def embedded_here(*_: object) -> None:
        raise AssertionError("embedded in the process of the command")

    for encoder in (TextIndexEncoder, ImageIndexEncoder):
        monkeypatch.setattr(encoder, "embed", embedded_here)
    assert build(world, tmp_path / "many", "--workers", "2") == 0
    for index in (IMAGE_ID, WEB_ID):  # a revision stands for rows, their order, what was embedded and the weights
        revisions = {current_revision(tmp_path / cache / "hub", index) for cache in ("one", "many")}
        assert len(revisions) == 1 and None not in revisions
    captured = capsys.readouterr()
    assert captured.out.replace(str(tmp_path / "many"), "") == alone.out.replace(str(tmp_path / "one"), "")
    left_out = [line for line in alone.err.splitlines() if line.startswith("left out: scan.pdf")]
    assert len(left_out) == 1 and left_out[0] in captured.err.splitlines()


def test_results_keep_their_order_and_errors_their_type() -> None:
    with spread(2) as each:
        assert [*each(double, range(4, 100))] == [*range(8, 200, 2)]
        assert [*each(double, [])] == []
        with pytest.raises(ValueError, match="3 cannot be doubled"):
            [*each(double, [3])]
        with pytest.raises(BrokenProcessPool):
            [*each(double, [-1])]


def test_a_worker_that_dies_ends_the_command_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = sources(tmp_path / "world")
    monkeypatch.setattr("agents.search.own_sources._read_document", end_process)
    assert build(world, tmp_path / "cache", "--workers", "2") == 1
    assert "a worker process ended" in capsys.readouterr().err
