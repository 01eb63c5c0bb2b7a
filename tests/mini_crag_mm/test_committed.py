"""The committed mini CRAG-MM: complete, consistent, loadable."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from agents.search.pages.web_cache import cache_name
from evaluation.data import crag_dataset
from evaluation.data.sampling import draw_balanced
from evaluation.records import ANSWER_KINDS
from mini_crag_mm.content_models import SPLITS, Content, load_content
from mini_crag_mm.generator.set_rules import check_all, compute_held_out_share
from mini_crag_mm.loader import SET_ROOT, SetPaths, read_index_image, read_kg, read_layout, read_pages
from mini_crag_mm.organiser_format import TASKS, BuiltDatasets, build_datasets, make_scene_url
from tests.mini_crag_mm.test_organiser_format import same_in_both_revisions

PATHS = SetPaths()


@pytest.fixture(scope="module")
def content() -> Content:
    return load_content(PATHS.content)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> BuiltDatasets:
    return build_datasets(tmp_path_factory.mktemp("datasets") / "out")


def test_all_rules_hold() -> None:
    assert [str(finding) for finding in check_all(PATHS) if finding.is_error] == []


def test_amounts(content: Content) -> None:
    assert len(content.entities) >= 200 and len(list(PATHS.photos.glob("*.webp"))) == len(content.entities)
    assert len(content.questions) >= 150 and len(content.dialogs) >= 40
    assert len(read_pages()) >= 400
    for split in SPLITS:
        assert sum(question.split == split for question in content.questions.values()) >= 75
        assert sum(dialog.split == split for dialog in content.dialogs.values()) >= 20


def test_scenes_decode_and_boxes_lie_inside(content: Content) -> None:
    layouts = read_layout(PATHS.layout)
    assert set(layouts) == set(content.scenes)
    for scene_id, layout in layouts.items():
        with Image.open(PATHS.scenes / f"{scene_id}.webp") as picture:
            picture.load()
            assert list(picture.size) == layout["size"]
        for thing in [*layout["objects"], *layout["texts"]]:
            left, top, width, height = thing["box"]
            assert left >= 0 and top >= 0 and width > 0 and height > 0
            assert left + width <= layout["size"][0] and top + height <= layout["size"][1]
        scene = content.scenes[scene_id]
        assert [thing["entity"] for thing in layout["objects"]] == list(scene.entity_ids())
        assert [thing["text"] for thing in layout["texts"]] == [text.text for text in scene.texts]


def test_what_is_asked_about_is_in_sight(content: Content) -> None:
    layouts = read_layout(PATHS.layout)
    for content_id, _, scene_id, turn in content.turns():
        things = [thing for thing in layouts[scene_id]["objects"] if thing["entity"] == turn.entity]
        for thing in things:
            assert thing["shown"] >= 0.25 and thing["covered"] <= 0.75, f"{content_id}: {thing}"


def test_no_question_shows_the_photograph_of_the_graph(content: Content, datasets: BuiltDatasets) -> None:
    for scene_id, layout in read_layout(PATHS.layout).items():
        for thing in layout["objects"]:
            has_other = content.entities[thing["entity"]].other_photo is not None
            assert thing["same_photo"] is not has_other, scene_id
            assert (thing["strength"] >= 0.25) is thing["same_photo"] and thing["cosine"] < 0.95, f"{scene_id}: {thing}"
    facts = json.loads(datasets.content_ids.read_text())
    groups = Counter(fact["photo_group"] for fact in facts.values())
    assert min(groups[group] for group in ("other-photo", "altered-copy", "not-in-graph")) >= 30
    assert all(fact["source"] not in ("kg", "both") for fact in facts.values() if fact["photo_group"] == "not-in-graph")


def test_held_out_entities_are_missing_from_the_graph_but_similar_ones_are_there(content: Content) -> None:
    for split in SPLITS:
        names = {entity["entity_name"] for line in read_kg(split) for entity in line["entities"]}
        held_out = [entity for entity in content.entities.values() if entity.split == split and not entity.in_graph]
        assert held_out and not names & {entity.name for entity in held_out}
        # As many again of each group stay in the graph, so that search has something like it to offer.
        for group in {entity.origin.split("/")[0] for entity in held_out}:
            graph_entities = [
                e for e in content.entities.values() if e.split == split and e.in_graph and e.origin.startswith(group)
            ]
            assert len(graph_entities) > sum(entity.origin.startswith(group) for entity in held_out)
        assert min(compute_held_out_share(content, split).values()) >= 1 / 6


def test_index_pictures_and_companions() -> None:
    for split in SPLITS:
        lines = read_kg(split)
        assert all(read_index_image(line).mode == "RGB" for line in lines[:10])
        assert any(len(line["entities"]) > 1 for line in lines)
        assert any(entity["entity_attributes"] == {} for line in lines for entity in line["entities"])


def test_data_sets_load_in_both_revisions(datasets: BuiltDatasets, content: Content, tmp_path: Path) -> None:
    items = {"single-turn": content.questions.values(), "multi-turn": content.dialogs.values()}
    for task in TASKS:
        for split in SPLITS:
            expected = sum(item.split == split for item in items[task])
            assert same_in_both_revisions(datasets, task, split, tmp_path) == expected
    facts = json.loads(datasets.content_ids.read_text())
    assert len(facts) == len(list(content.turns()))
    used = {item.scene for item in content.list_items() if not content.scenes[item.scene].egocentric}
    assert {path.name for path in datasets.image_cache.iterdir()} == {
        cache_name(make_scene_url(scene)) for scene in used
    }


def test_the_sample_of_the_demo_asks_what_something_is(datasets: BuiltDatasets, tmp_path: Path) -> None:
    makefile = (SET_ROOT.parent / "Makefile").read_text(encoding="utf-8")
    values = dict(re.findall(r"^(SPLIT|CONVERSATIONS|SEED) \?= (\S+)$", makefile, re.MULTILINE))
    samples = [
        draw_balanced(dataset.sessions, int(size), int(values["SEED"])).sessions
        for task, size in zip(TASKS, values["CONVERSATIONS"].split(","), strict=True)
        for dataset in [crag_dataset.load(task, values["SPLIT"], path=datasets.root, cache=tmp_path)]
    ]
    facts = crag_dataset.read_facts([datasets.root])
    kinds = [facts[turn.interaction_id].answer_kind for sample in samples for each in sample for turn in each.turns]
    assert {*kinds} == {*ANSWER_KINDS}, Counter(kinds)


def test_nothing_names_a_machine() -> None:
    texts = [*SET_ROOT.rglob("*.yaml"), *SET_ROOT.rglob("*.py"), *SET_ROOT.rglob("*.md"), *SET_ROOT.rglob("*.json*")]
    for path in texts:
        text = path.read_text(encoding="utf-8")
        assert str(SET_ROOT.parent) not in text and f"{Path.home()}/" not in text, path
