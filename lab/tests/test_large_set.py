"""Questions by rule: what a photo's things are called, what counts as known, and what is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.large_set import __main__ as large_set
from lab.large_set.questions import (
    PageTexts,
    QuestionMaker,
    Span,
    find_source,
    list_accepted,
    make_pair_scenes,
    read_known_entities,
    read_span,
)
from lab.large_set.templates import AttributeTemplate, NounRule, Templates, read_templates
from mini_crag_mm.content_models import Content, Entity, Photo, PlacedObject, Scene, Split, load_content
from mini_crag_mm.loader import SET, WebPage
from mini_crag_mm.organiser_format import BuiltDatasets

WEIGHT = AttributeTemplate(
    key="weight",
    question=("How much does {this} weigh?",),
    sentence="{This} weighs {value}.",
    words="weigh",
    more="Which of these two is heavier?",
    together="How much do they weigh together?",
)
TEMPLATES = Templates(noun=(NounRule(noun="animal", keys=frozenset({"weight"})),), attribute=(WEIGHT,))


def _entity(name: str, weight: str, *, in_graph: bool = True, second: bool = False) -> Entity:
    photo = Photo(source="gcompris", file="x.webp")
    return Entity(
        id=name.lower(),
        split="validation",
        origin="ani/entities.yaml",
        name=name,
        photo=photo,
        other_photo=photo if second else None,
        in_graph=in_graph,
        attributes={"weight": weight},
    )


def _page(text: str) -> WebPage:
    return {"split": None, "page_url": "https://x", "page_name": "Page", "page_snippet": text, "kind": "wiki"}


def _scene(*things: tuple[str, int]) -> tuple[Scene, dict[str, Any]]:
    objects = tuple(PlacedObject(entity=name, box=(0.1, 0.1, 0.2, 0.2)) for name, _ in things)
    layout = {"size": [960, 720], "objects": [{"entity": name, "box": [left, 0, 100, 100]} for name, left in things]}
    return Scene(id="s1", split="validation", background="grass", objects=objects), layout


def _make(entities: list[Entity], scene: tuple[Scene, dict[str, Any]], *texts: str) -> dict[str, Any]:
    content = Content(entities={each.id: each for each in entities}, scenes={"s1": scene[0]})
    maker = QuestionMaker(content, {"s1": scene[1]}, [_page(text) for text in texts], TEMPLATES, "validation")
    return {question.id: question for question in maker.make_all()}


def test_two_things_of_a_kind_are_told_apart_by_their_side() -> None:
    questions = _make([_entity("Yak", "500 kg"), _entity("Cow", "300 kg")], _scene(("yak", 50), ("cow", 700)))
    assert questions["rule_yak_weight"].query == "How much does the animal on the left weigh?"
    assert questions["rule_cow_weight"].query == "How much does the animal on the right weigh?"
    assert questions["rule_cow_weight"].answer == "The animal on the right weighs 300 kg."


def test_things_that_overlap_are_not_pointed_at() -> None:
    questions = _make([_entity("Yak", "500 kg"), _entity("Cow", "300 kg")], _scene(("yak", 50), ("cow", 150)))
    assert [name for name in questions if name.endswith("yak_weight")] == []


def test_a_sentence_of_its_article_is_asked_with_the_thing_pointed_at() -> None:
    jaguar = _entity("Jaguar", "90 kg", in_graph=False).model_copy(update={"wiki": "Page"})
    article = "The Page is a large cat. It was first described by Carl Linnaeus in 1758. The Page was discovered by Jan Gehl in 1800."
    content = Content(entities={"jaguar": jaguar}, scenes={"s1": _scene(("jaguar", 50))[0]})
    maker = QuestionMaker(content, {"s1": _scene(("jaguar", 50))[1]}, [_page(article)], TEMPLATES, "validation")
    questions = [question for question in maker.make_all() if "_article_" in question.id]
    assert questions
    assert all(question.source == "web" and "this animal" in question.query for question in questions)


def test_a_year_alone_names_nobody() -> None:
    assert "1758" not in list_accepted("(Linnaeus, 1758)", True)


def test_two_things_are_compared_and_added_by_their_numbers() -> None:
    questions = _make([_entity("Yak", "500 kg"), _entity("Cow", "300 kg")], _scene(("yak", 50), ("cow", 700)))
    assert questions["rule_s1_weight"].accept == ("Yak",)
    assert questions["rule_s1_weight_sum"].accept == ("800",)


@pytest.mark.parametrize("other", ["490 kg", "400 - 600 kg", "900 lb", "about a ton"])
def test_what_could_be_disputed_is_not_compared(other: str) -> None:
    questions = _make([_entity("Yak", "500 kg"), _entity("Cow", other)], _scene(("yak", 50), ("cow", 700)))
    assert "rule_s1_weight" not in questions


def test_what_the_graph_lacks_is_answered_by_a_page_or_by_nothing_or_left_out() -> None:
    jaguar = _entity("Jaguar", "90 kg", in_graph=False)
    (known_entity,) = read_known_entities(Content(entities={"jaguar": jaguar}), TEMPLATES, "validation").values()

    def source(*texts: str) -> str:
        return find_source(known_entity, WEIGHT, PageTexts(map(_page, texts)))

    assert source("Cats sleep.") == "nowhere"
    assert source("A jaguar weighs 90 kg.") == "page"
    assert source("A jaguar weighs as much as a man.") == "doubtful"
    assert source("A tapir weighs 90 kg.") == "nowhere"


def test_nothing_answers_by_i_dont_know() -> None:
    (question,) = _make([_entity("Jaguar", "90 kg", in_graph=False)], _scene(("jaguar", 50))).values()
    assert (question.answer, question.accept, question.source) == ("I don't know", (), "nowhere")
    assert not question.answerable


@pytest.mark.parametrize(
    ("value", "any_item", "accepted"),
    [
        ("(Linnaeus, 1758)", True, {"Linnaeus"}),
        ("calf (or cow)", False, {"calf (or cow)", "calf"}),
        ("about nine months (c. 283 days)", False, {"nine months (c. 283 days)", "nine months"}),
        ("Tanzania, Botswana", True, {"Tanzania, Botswana", "Tanzania", "Botswana"}),
    ],
)
def test_short_answers_of_an_attribute(value: str, any_item: bool, accepted: set[str]) -> None:
    assert accepted <= set(list_accepted(value, any_item))


def test_figures_of_an_attribute() -> None:
    assert read_span("460 - 988 kg (adults)") == Span(460, 988, read_span("1 kg").unit)  # type: ignore[union-attr]
    assert read_span("tall") is None
    assert Span(460, 988, None).exceeds(Span(1, 400, None)) is True
    assert Span(460, 988, None).exceeds(Span(1, 401, None)) is False  # less than 1.15 times


def test_pairs_are_shown_by_their_second_photographs_alone() -> None:
    entities = [_entity("Yak", "1 kg", second=True), _entity("Cow", "2 kg", second=True), _entity("Cat", "3 kg")]
    scenes = make_pair_scenes(Content(entities={each.id: each for each in entities}), TEMPLATES, "validation")
    assert [set(scene.entity_ids()) for scene in scenes] == [{"yak", "cow"}]


@pytest.mark.parametrize(("split", "number"), [("validation", 52), ("public_test", 25)])
def test_every_pair_has_its_committed_picture(split: Split, number: int) -> None:
    content, templates = load_content(SET.content), read_templates()
    scenes = make_pair_scenes(content, templates, split)
    assert len(scenes) == number
    assert large_set.list_pair_scenes(content, templates, split) == scenes
    assert all((large_set.PAIRS / f"{scene.id}.webp").is_file() for scene in scenes)


@pytest.fixture
def validation_table(tmp_path: Path) -> Path:
    """Write a table as a set that was built of validation below ``tmp_path`` has it."""
    folder = BuiltDatasets(tmp_path / "datasets").folder("single-turn", "v0.1.2") / "data"
    folder.mkdir(parents=True)
    table = folder / "validation-00000-of-00001.parquet"
    table.write_bytes(b"rows")
    return table


def test_the_set_of_another_split_is_not_replaced(
    validation_table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(large_set, "list_pages", lambda *_: [])
    assert large_set.main(["--split", "public_test", "--out", str(tmp_path)]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "the set of validation" in printed and "name another folder with --out" in printed
    assert validation_table.read_bytes() == b"rows" and not (tmp_path / "content").exists()


def test_the_set_of_a_split_may_be_built_again(validation_table: Path, tmp_path: Path) -> None:
    assert large_set.list_other_splits(tmp_path, "validation") == []
    assert large_set.list_other_splits(tmp_path, "public_test") == ["validation"]
