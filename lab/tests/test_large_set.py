"""The larger set's content is whole, and a set of another split is not replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.large_set import __main__ as large_set
from mini_crag_mm.content_models import Split
from mini_crag_mm.generator.set_rules import compute_fingerprint
from mini_crag_mm.loader import SET, read_layout
from mini_crag_mm.organiser_format import BuiltDatasets


@pytest.mark.parametrize(("split", "questions", "pairs"), [("validation", 719, 52), ("public_test", 717, 25)])
def test_a_split_is_built_with_the_pictures_of_its_pairs(
    split: Split, questions: int, pairs: int, tmp_path: Path
) -> None:
    built, content = large_set.build(split, tmp_path)
    assert len(content.questions) == questions
    assert {question.split for question in content.questions.values()} == {split}
    assert [*built.root.glob(f"*/*/data/{split}-*.parquet")]
    scenes = [scene for scene in content.scenes.values() if scene.id.startswith("rule_")]
    layouts = read_layout(large_set.PAIRS / SET.layout.name)
    assert len(scenes) == pairs
    for scene in scenes:
        assert layouts[scene.id]["made_from"] == compute_fingerprint(scene, SET), "a photograph of the pair changed"
        assert (large_set.PAIRS / f"{scene.id}.webp").is_file()


@pytest.fixture
def validation_table(tmp_path: Path) -> Path:
    """Write a table as a set that was built of validation below ``tmp_path`` has it."""
    folder = BuiltDatasets(tmp_path / "datasets").folder("single-turn", "v0.1.2") / "data"
    folder.mkdir(parents=True)
    table = folder / "validation-00000-of-00001.parquet"
    table.write_bytes(b"rows")
    return table


def test_the_set_of_another_split_is_not_replaced(
    validation_table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert large_set.main(["--split", "public_test", "--out", str(tmp_path)]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "the set of validation" in printed and "name another folder with --out" in printed
    assert validation_table.read_bytes() == b"rows" and not (tmp_path / "content").exists()


def test_the_set_of_a_split_may_be_built_again(validation_table: Path, tmp_path: Path) -> None:
    assert large_set.list_other_splits(tmp_path, "validation") == []
    assert large_set.list_other_splits(tmp_path, "public_test") == ["validation"]
