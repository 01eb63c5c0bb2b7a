"""The data sets in the organiser's schema: both revisions load with the library and say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import datasets as hf
import numpy as np
import pytest

from agents.search.pages.web_cache import cache_name
from mini_crag_mm import organiser_format
from mini_crag_mm.content_models import Content, load_content
from mini_crag_mm.loader import SetPaths, read_layout
from mini_crag_mm.organiser_format import (
    REVISIONS,
    BuiltDatasets,
    ImageQuality,
    Revision,
    Task,
    asks_name,
    build_datasets,
    classify_photo,
    collect_turn_facts,
    label_image_quality,
    make_interaction_id,
    make_scene_url,
)
from tests.mini_crag_mm.conftest import tiny_files, write_files


@pytest.fixture
def datasets(built: SetPaths, tmp_path: Path) -> BuiltDatasets:
    return build_datasets(tmp_path / "out", built)


def load(datasets: BuiltDatasets, task: Task, revision: Revision, split: str, cache: Path) -> Any:
    return hf.load_dataset(str(datasets.folder(task, revision)), split=split, cache_dir=str(cache))


def as_strings(row: dict[str, Any], features: Any) -> list[dict[str, Any]]:
    """Turns of v0.1.2 as those of v0.1.1: dicts with string labels, without image_quality."""
    turns = []
    for number in range(len(row["turns"]["query"])):
        turn = {}
        for name, values in row["turns"].items():
            feature = features["turns"][name].feature
            turn[name] = feature.int2str(values[number]) if isinstance(feature, hf.ClassLabel) else values[number]
        turns.append({name: value for name, value in turn.items() if name != "image_quality"})
    return turns


def same_in_both_revisions(datasets: BuiltDatasets, task: Task, split: str, cache: Path) -> int:
    """Assert that the revisions agree; the number of rows."""
    old, new = (load(datasets, task, revision, split, cache) for revision in REVISIONS)
    assert len(old) == len(new)
    for one, other in zip(old, new, strict=True):
        assert {key: one[key] for key in ("session_id", "image_url")} == {
            key: other[key] for key in ("session_id", "image_url")
        }
        assert one["turns"] == as_strings(other, new.features)
        answers = [
            dict(zip(other["answers"], values, strict=True)) for values in zip(*other["answers"].values(), strict=True)
        ]
        assert one["answers"] == answers
        assert (one["image"] is None) == (other["image"] is None) == bool(one["image_url"])
        if one["image"] is not None:
            assert np.array_equal(np.asarray(one["image"]), np.asarray(other["image"]))
    return len(old)


def test_both_revisions_load_and_agree(datasets: BuiltDatasets, tmp_path: Path) -> None:
    assert same_in_both_revisions(datasets, "single-turn", "validation", tmp_path / "cache") == 3
    assert same_in_both_revisions(datasets, "multi-turn", "public_test", tmp_path / "cache") == 1


def test_a_split_without_rows_leaves_the_other_loadable(datasets: BuiltDatasets, tmp_path: Path) -> None:
    files = [path.name for path in (datasets.folder("single-turn", "v0.1.2") / "data").iterdir()]
    assert files == ["validation-00000-of-00001.parquet"]
    assert len(load(datasets, "single-turn", "v0.1.2", "validation", tmp_path / "cache")) == 3


def test_schema_is_the_organisers(datasets: BuiltDatasets, tmp_path: Path) -> None:
    old = load(datasets, "multi-turn", "v0.1.1", "public_test", tmp_path / "cache")
    assert list(old.features) == ["session_id", "image", "image_url", "turns", "answers"]
    assert isinstance(old[0]["turns"], list)
    assert list(old[0]["turns"][0]) == ["interaction_id", "domain", "query_category", "dynamism", "query"]
    assert list(old[0]["answers"][0]) == ["interaction_id", "ans_full"]
    new = load(datasets, "multi-turn", "v0.1.2", "public_test", tmp_path / "cache")
    assert isinstance(new[0]["turns"], dict) and isinstance(new.features["image"], hf.Image)
    labels = {name: feature.feature for name, feature in new.features["turns"].items()}
    assert labels["image_quality"].names == sorted(get_args(ImageQuality))
    assert len(labels["domain"].names) == 14 and len(labels["query_category"].names) == 6
    assert new[0]["turns"]["domain"] == [labels["domain"].str2int("other")] * 2
    # The crop to four fifths of the height is enlarged to the frame again.
    assert old[0]["image"].size == (450, 480)


def test_rows_without_image_are_in_the_cache(datasets: BuiltDatasets, built: SetPaths, tmp_path: Path) -> None:
    rows = load(datasets, "single-turn", "v0.1.1", "validation", tmp_path / "cache")
    urls = [row["image_url"] for row in rows if row["image"] is None]
    assert urls == [make_scene_url("t_s002")] == ["https://images.mini-crag-mm.example/scenes/t_s002.webp"]
    cached = datasets.image_cache / cache_name(urls[0])
    assert cached.read_bytes() == (built.scenes / "t_s002.webp").read_bytes()
    assert all(not row["image_url"] for row in rows if row["image"] is not None)


def test_cache_name_is_the_hash_of_the_url() -> None:
    name = cache_name("https://a.example/b/c.WEBP?size=3")
    assert name == "9a2f28c49c4d33c55c63c3a0a02feb02c302d848ec15662dbaa0104bc67b0c01.webp"
    assert cache_name("https://a.example/b") != cache_name("https://a.example/c")


def test_facts_and_accept_forms_by_interaction(datasets: BuiltDatasets) -> None:
    accept = json.loads(datasets.accept.read_text())
    assert accept[make_interaction_id("t_q001")] == ["330 m", "330 metres"]
    assert accept[make_interaction_id("t_q003")] == []
    facts = json.loads(datasets.content_ids.read_text())
    assert set(facts) == set(accept)
    fact = facts[make_interaction_id("t_q001")]
    assert (fact["content_id"], fact["entity"], fact["source"], fact["hops"]) == ("t_q001", "red_square", "kg", 1)
    assert fact["image_quality"] == "low-light" and len(fact["boxes"]) == 1 and len(fact["boxes"][0]) == 4
    assert facts[make_interaction_id("t_m001#1")]["boxes"] == []
    assert (fact["same_photo"], fact["in_graph"], fact["photo_group"]) == (True, True, "altered-copy")
    assert len(fact["cosines"]) == 1 and fact["cosines"][0] < 1
    nothing = facts[make_interaction_id("t_m001#1")]
    assert (nothing["same_photo"], nothing["in_graph"], nothing["photo_group"]) == (None, None, "no-entity")
    assert facts[make_interaction_id("t_q003")]["answerable"] is False
    assert fact["identity"] is nothing["identity"] is False


def test_what_general_knowledge_answers_is_neither_answerable_nor_unanswerable(
    built: SetPaths, tiny_content: Content
) -> None:
    question = tiny_content.questions["t_q003"].model_copy(update={"general_knowledge": True})
    scene = tiny_content.scenes[question.scene]
    assert (
        collect_turn_facts("t_q003", question, scene, read_layout(built.layout)[scene.id], tiny_content)["answerable"]
        is None
    )


@pytest.mark.parametrize(
    ("category", "accept", "asks"),
    [
        ("simple-recognition", ("a square", "red square"), True),
        ("simple-recognition", ("paint",), False),
        ("comparison", ("red square",), False),
    ],
)
def test_a_turn_asks_for_a_name_if_it_is_to_recognise_what_an_accepted_answer_names(
    tiny_content: Content, category: str, accept: tuple[str, ...], asks: bool
) -> None:
    question = tiny_content.questions["t_q001"].model_copy(update={"query_category": category, "accept": accept})
    assert asks_name(question, tiny_content.entities["red_square"]) is asks
    assert not asks_name(question, None)


@pytest.mark.parametrize(
    ("in_graph", "same_photo", "group"),
    [
        (False, True, "not-in-graph"),
        (False, None, "not-in-graph"),
        (True, True, "altered-copy"),
        (True, False, "other-photo"),
        (True, None, "not-shown"),
    ],
)
def test_groups_of_photographs(tiny_content: Content, in_graph: bool, same_photo: bool | None, group: str) -> None:
    entity = tiny_content.entities["red_square"].model_copy(update={"in_graph": in_graph})
    assert classify_photo(entity, same_photo) == group
    assert classify_photo(None, same_photo) == "no-entity"


def test_built_once_and_again_after_a_change(
    datasets: BuiltDatasets, built: SetPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("it was up to date")

    monkeypatch.setattr(organiser_format, "_write_all", fail)
    assert build_datasets(datasets.root, built).root == datasets.root
    files = tiny_files()
    files["single"][0]["query"] = "How wide is that?"
    write_files(built.root, files)
    with pytest.raises(AssertionError, match="up to date"):
        build_datasets(datasets.root, built)
    # The failed build left the old one as it was, and nothing half-done beside it.
    assert (
        datasets.accept.exists()
        and [path.name for path in datasets.root.parent.iterdir() if path.is_dir() and path.name.startswith(".out.")]
        == []
    )
    monkeypatch.undo()
    build_datasets(datasets.root, built)
    parquet = datasets.folder("single-turn", "v0.1.1") / "data" / "validation-00000-of-00001.parquet"
    assert b"How wide is that?" in parquet.read_bytes()


def test_foreign_folders_are_left_alone(built: SetPaths, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("precious")
    with pytest.raises(FileExistsError):
        build_datasets(tmp_path / "home", built)
    assert (tmp_path / "home" / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("effects", "thing", "expected"),
    [
        ({}, {}, "normal"),
        ({"darken": 0.6, "blur": 2}, {}, "low-light"),
        ({"blur": 1.5}, {}, "blurred"),
        ({}, {"shown": 0.7}, "truncated"),
        ({"rotate": 10}, {"covered": 0.4}, "occluded"),
        ({"rotate": -8}, {}, "rotated"),
        ({"rotate": 2, "blur": 0.3, "darken": 0.95}, {}, "normal"),
    ],
)
def test_quality_comes_from_what_was_done_to_the_picture(
    tiny: SetPaths, effects: dict[str, float], thing: dict[str, float], expected: str
) -> None:
    scene = load_content(tiny.content).scenes["t_s001"]
    scene = scene.model_validate({**scene.model_dump(), "effects": effects})
    layout = {"objects": [{"entity": "red_square", "shown": 1.0, "covered": 0.0, **thing}]}
    assert label_image_quality(scene, layout, "red_square") == expected
    if thing:
        assert label_image_quality(scene, layout, None) in ("normal", "rotated")
