"""Made-up vectors, what is computed from two sizes, and the whole command on a small one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lab.benchmarks.index_size import IndexFigures, MadeUpEncoder, extrapolate, main, make_chunks


def test_vectors_are_the_contents_own_and_alike_within_a_topic() -> None:
    encoder = MadeUpEncoder(64, 1000)  # ten topics
    vectors = encoder.embed(["a", "b", "a"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1) and np.array_equal(vectors[0], vectors[2])
    same, other = encoder.vector(3) @ encoder.vector(13), encoder.vector(3) @ encoder.vector(14)
    assert same > 0.5 > abs(other)


def test_chunks_of_a_page_are_told_apart() -> None:
    rows = make_chunks(100)
    assert len({row.id for row in rows}) == 100
    assert len({row.page_url for row in rows}) == 30  # 34 chunks to ten pages


def test_other_sizes_are_computed_from_two() -> None:
    small, large = IndexFigures(*[1.0] * 12), IndexFigures(*[4.0] * 12)  # ten times as many: four times as much
    there = extrapolate([(100, small), (1000, large)], 10_000)
    assert there.build_seconds == pytest.approx(16)  # four times as long for each ten times
    assert there.disk == pytest.approx(34)  # 3 more for each 900 vectors
    assert extrapolate([(100, small), (1000, large)], 1000) == large


def test_small_indices_are_built_searched_and_not_built_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--pictures", "100", "--chunks", "200", "--dimensions", "8", "--folder", str(tmp_path)]
    assert main(command) == 0
    first = (tmp_path / "measured.json").read_bytes()
    steps = json.loads(first)
    assert len(steps) == 8
    assert all(value > 0 for step in steps.values() for value in step.values())
    output = capsys.readouterr().out
    assert "build pictures-10-8" in output and "search chunks-200-8" in output
    assert main(command) == 0
    assert (tmp_path / "measured.json").read_bytes() == first
    assert "build" not in capsys.readouterr().out.split("Indices")[0]
