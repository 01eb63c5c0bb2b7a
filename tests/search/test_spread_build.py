"""Indices built by workers of a real local Ray cluster, where Ray is installed (`make test-scale`)."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from agents.base.cluster import cluster, spread
from agents.search.build_index import main
from agents.search.encoders import ImageIndexEncoder, TextIndexEncoder
from agents.search.hub import current_revision
from tests.search.conftest import IMAGE_ID, WEB_ID, World, write_sources

pytest.importorskip("ray", reason="Ray is not installed: make test-scale")


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
    tmp_path: Path, ray_address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Relative, and the nodes were started elsewhere: paths of the command line hold in workers too.
    world = sources(Path(os.path.relpath(tmp_path / "world")))
    assert build(world, tmp_path / "one") == 0
    alone = capsys.readouterr()

    def embedded_here(*_: object) -> None:
        raise AssertionError("embedded in the process of the command")

    for encoder in (TextIndexEncoder, ImageIndexEncoder):
        monkeypatch.setattr(encoder, "embed", embedded_here)
    assert build(world, tmp_path / "many", "--workers", "2", "--ray-address", ray_address) == 0
    for index in (IMAGE_ID, WEB_ID):  # a revision stands for rows, their order, what was embedded and the weights
        revisions = {current_revision(tmp_path / cache / "hub", index) for cache in ("one", "many")}
        assert len(revisions) == 1 and None not in revisions
    captured = capsys.readouterr()
    assert captured.out.replace(str(tmp_path / "many"), "") == alone.out.replace(str(tmp_path / "one"), "")
    left_out = [line for line in alone.err.splitlines() if line.startswith("left out: scan.pdf")]
    assert len(left_out) == 1 and left_out[0] in captured.err.splitlines()


def test_pictures_that_no_worker_can_decode_are_named(
    tmp_path: Path, ray_address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = sources(tmp_path / "world")
    broken = sorted(world.images.iterdir())[2]
    broken.write_bytes(b"no picture")
    assert build(world, tmp_path / "cache", "--workers", "2", "--ray-address", ray_address) == 1
    assert str(broken) in capsys.readouterr().err


def squared(folder: Path, number: int) -> int:
    """The square; the process of the first call for 5 ends."""
    begun = folder / "begun"
    if number == 5 and not begun.exists():
        begun.touch()
        os._exit(1)
    return number * number


def refuse(number: int) -> int:
    raise ValueError(f"{number} cannot be squared")


def test_work_of_a_dead_worker_is_repeated_and_results_keep_their_order(tmp_path: Path, ray_address: str) -> None:
    with cluster(ray_address, "--workers"):
        assert [*spread(2)(partial(squared, tmp_path), range(100))] == [number * number for number in range(100)]
        assert (tmp_path / "begun").exists()
        assert [*spread(2)(refuse, [])] == []
        with pytest.raises(ValueError, match="3 cannot be squared"):
            [*spread(2)(refuse, [3])]


def test_a_cluster_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = sources(tmp_path / "world")
    assert build(world, tmp_path / "cache", "--workers", "2", "--ray-address", "127.0.0.1:1") == 1
    assert "no Ray cluster at 127.0.0.1:1" in capsys.readouterr().err
