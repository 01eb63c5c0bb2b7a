"""Entity selection by pictures of the index: the entity whose picture is in the photo is preferred, at the place that is asked about."""

from __future__ import annotations

from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from agents.models.base import Box, Detection
from agents.search.gateway import SearchGateway
from agents.search.hits import Entity, ImageHit
from agents.search.pages.web_cache import cache_name
from agents.search.provided_context import ProvidedContext
from agents.settings.presets import settings_from
from agents.stages.select_entity import SelectEntity
from agents.turn import Target, Turn, View
from tests.agent.scripted import Alike, Scripted, context, run, turn

LEFT, RIGHT = (Detection(Box(x, 0, x + 480, 480), "x", 0.9) for x in (0, 480))


def picture(number: int) -> Image.Image:
    """A textured picture, another for each number: blocks of random grey."""
    blocks = np.random.default_rng(number).integers(0, 256, (24, 24), dtype=np.uint8)
    return Image.fromarray(blocks).resize((400, 400), Image.Resampling.BICUBIC).convert("RGB")


def photo() -> Image.Image:
    """The first picture on the left, the second on the right."""
    canvas = Image.new("RGB", (960, 480), (90, 90, 90))
    canvas.paste(picture(1).resize((300, 300)), (60, 60))
    canvas.paste(picture(2).resize((300, 300)), (560, 60))
    return canvas


def hits(**scores: float) -> tuple[ImageHit, ...]:
    return tuple(
        ImageHit(place, score, f"https://i.example/{name}.png", (Entity(name),))
        for place, (name, score) in enumerate(scores.items())
    )


def make_turn(question: str, **fields: Any) -> Turn:
    """Other is found to be more alike than One and Two, which the photo shows."""
    views = (
        View(None, hits(Other=0.9, One=0.5, Two=0.4)),
        View(LEFT, hits(Other=0.8, Two=0.6, One=0.5)),
        View(RIGHT, hits(Other=0.7, One=0.6, Two=0.5)),
    )
    dialog_turn = turn(question, views=views, regions=(LEFT, RIGHT), **fields)
    dialog_turn.image = photo()
    return dialog_turn


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    for name, number in {"One": 1, "Two": 2, "Other": 3}.items():
        picture(number).save(tmp_path / cache_name(f"https://i.example/{name}.png"))
    return tmp_path


def parts(folder: Path, encoder: Any = None, **options: Any) -> Scripted:
    stage_context = context(
        settings_from({"stages": ["finalise"], "select_entity": options}), text_encoder=encoder or Alike()
    )
    object.__setattr__(stage_context, "search", SearchGateway(SimpleNamespace(picture_folder=folder)))
    return stage_context


def select_entity(dialog_turn: Turn, stage_context: Scripted) -> Any:
    run(SelectEntity, [dialog_turn], stage_context)
    return dialog_turn.entity_name


def test_the_entity_whose_picture_is_in_the_photo_is_preferred(cached: Path) -> None:
    assert select_entity(make_turn("What is this?"), parts(cached)) == "Other"
    assert select_entity(make_turn("What is this?"), parts(cached, rescore=True)) == "One"
    assert select_entity(make_turn("What is this?"), parts(cached, rescore=True, min_inliers=5000)) == "Other"


@pytest.mark.parametrize(("place", "name"), [("left", "One"), ("right", "Two")])
def test_at_a_place_only_what_lies_there_counts(cached: Path, place: Any, name: str) -> None:
    dialog_turn = make_turn("What is this?", target=Target(position=place))
    assert select_entity(dialog_turn, parts(cached, rescore=True)) == name


def test_of_several_those_that_are_shown_come_first(cached: Path) -> None:
    dialog_turn = make_turn("Which of these two is older?")
    run(SelectEntity, [dialog_turn], parts(cached, rescore=True))
    assert {entity.name for entity in dialog_turn.entities} == {"One", "Two"}


def test_without_pictures_nothing_changes(tmp_path: Path) -> None:
    assert select_entity(make_turn("What is this?"), parts(tmp_path, rescore=True)) == "Other"


def test_pictures_are_asked_for_once_without_fetching_and_not_when_time_is_short(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[list[str], bool]] = []
    real = SearchGateway.pictures

    def count_calls(self: SearchGateway, urls: Any, fetch: bool = False, **more: Any) -> Any:
        calls.append((list(urls), fetch))
        return real(self, urls, fetch, **more)

    monkeypatch.setattr(SearchGateway, "pictures", count_calls)
    stage_context = parts(cached, rescore=True)
    stage = SelectEntity(stage_context.settings.options(SelectEntity))
    many = make_turn("What is this?")
    many.views = (View(None, hits(**{f"E{n}": 0.5 for n in range(40)})),)
    stage.run([make_turn("What is this?"), make_turn("What is that?"), many], stage_context)
    assert [(len(urls), fetch) for urls, fetch in calls] == [(3, False), (6, False)]  # of the choices alone
    calls.clear()
    object.__setattr__(stage_context, "short", True)
    stage.run([make_turn("What is this?")], stage_context)
    assert calls == []


def test_a_dissimilar_entity_is_not_recognised_and_kept_as_the_nearest(cached: Path) -> None:
    dialog_turn = make_turn("What is this?")
    dialog_turn.views = (View(None, hits(Other=0.5, One=0.45)),)
    assert select_entity(dialog_turn, parts(cached, min_score=0.6)) is None
    assert dialog_turn.nearest is not None and (dialog_turn.nearest.name, dialog_turn.nearest.score) == ("Other", 0.5)
    assert (dialog_turn.entity_score, dialog_turn.names_shown(), dialog_turn.grounded_question) == (
        0.0,
        (),
        "What is this?",
    )
    assert select_entity(dialog_turn, parts(cached, min_score=0.5)) == "Other" and dialog_turn.nearest is None


def test_the_same_picture_is_recognised_however_low_its_cosine(cached: Path) -> None:
    dialog_turn = make_turn("What is this?")
    assert (
        select_entity(dialog_turn, parts(cached, min_score=0.95, rescore=True)) == "One" and dialog_turn.nearest is None
    )
    assert [entity.name for entity in dialog_turn.sure_entities] == ["One"]


def test_an_object_elsewhere_does_not_replace_an_unrecognised_one_at_the_position(cached: Path) -> None:
    """Other is well recognised in the whole photo, and what lies on the right is unlike everything."""
    dialog_turn = make_turn("What is this?", target=Target(position="right"))
    dialog_turn.views = (View(None, hits(Other=0.9)), View(RIGHT, hits(Two=0.5)))
    assert select_entity(dialog_turn, parts(cached, min_score=0.6)) is None
    assert dialog_turn.nearest is not None and dialog_turn.nearest.name == "Two"


def test_of_several_objects_the_recognised_ones_are_kept(cached: Path) -> None:
    dialog_turn = make_turn("Which of these two is older?", target=Target(position="right"))
    dialog_turn.views = (View(None, hits(Other=0.9, One=0.7)), View(RIGHT, hits(Two=0.5)))
    assert select_entity(dialog_turn, parts(cached, min_score=0.6)) == "Other" and dialog_turn.entity_score == 0.9
    assert {entity.name for entity in dialog_turn.entities} <= {"Other", "One"} and dialog_turn.nearest is None


def test_what_the_evaluator_found_needs_no_cosine(cached: Path) -> None:
    dialog_turn = make_turn("What is this?", provided=ProvidedContext())
    dialog_turn.views = (View(None, hits(Other=0.75, One=0.75)),)
    stage_context = parts(cached, min_score=0.8)
    assert select_entity(dialog_turn, stage_context) is None
    object.__setattr__(stage_context, "search", SearchGateway(None))
    assert select_entity(dialog_turn, stage_context) == "Other"


class KindEncoder:
    """Texts are alike that speak of the same kind; descriptions begin with the entity's name."""

    name = "of kinds"
    kinds: ClassVar = {"Other": "planet", "One": "coin", "Two": "animal"}

    def encode(self, texts: Any) -> Any:
        words = ["planet", "coin", "animal"]
        return np.array([[float(self.kinds.get(text.split(";")[0], text) == word) for word in words] for text in texts])


@pytest.mark.parametrize(
    ("kind", "limit", "name"),
    [
        ("celestial", 0.2, "Other"),
        ("money", 0.2, "One"),
        ("animal", 0.2, "Two"),
        ("structure", 0.2, None),  # all are of other kinds
        (None, 0.2, "Other"),
        ("money", None, "Other"),
    ],
)
def test_an_entity_of_another_kind_than_the_question_names_is_not_meant(
    kind: str | None, limit: float | None, name: str | None
) -> None:
    dialog_turn = make_turn("How much does it weigh?", target=Target(kind=kind))
    stage_context = context(
        settings_from({"stages": ["finalise"], "select_entity": {"max_misfit": limit, "word_weight": 0.0}}),
        text_encoder=KindEncoder(),
    )
    assert select_entity(dialog_turn, stage_context) == name


def test_at_a_place_and_among_same_pictures_another_kind_is_left_out_too(cached: Path) -> None:
    """The picture of One is at the left, and sure to be there; an animal is asked about."""
    dialog_turn = make_turn("Which animal is on the left?", target=Target(position="left", kind="animal"))
    stage_context = parts(cached, KindEncoder(), rescore=True, max_misfit=0.2, word_weight=0.0)
    assert select_entity(dialog_turn, stage_context) == "Two"


def test_the_lead_is_that_of_the_search_which_found_the_entity_best() -> None:
    one, two = Entity("One"), Entity("Two")
    views = (
        View(None, hits(Two=0.7, One=0.6)),
        View(LEFT, (*hits(One=0.9), *hits(One=0.8), *hits(Two=0.7, Other=0.5))),
    )
    assert turn("?", views=views).measure_lead(one) == pytest.approx(0.9 - 0.6)
    assert turn("?", views=views[:1]).measure_lead(one) == pytest.approx(0.6 - 0.7)
    assert turn("?", views=views[:1]).measure_lead(Entity("Other")) is None
    assert turn("?", views=(View(None, hits(Two=0.9)),)).measure_lead(two) is None  # alone it leads nothing
    assert turn("?", views=(View(None, (*hits(Two=0.9), *hits(Two=0.8))),)).measure_lead(two) == inf


def test_what_is_surely_recognised_may_be_called_anything(cached: Path) -> None:
    """A cat in a museum, the graph's own photograph, was dropped for "animal", because its table names collar and keeper."""
    dialog_turn = make_turn("What is this animal called?", target=Target(kind="animal"))
    dialog_turn.views = (View(None, hits(One=0.96, Two=0.73)), View(LEFT, hits(Other=0.99)))
    stage_context = parts(cached, KindEncoder(), max_misfit=0.2, sure_lead=0.2, word_weight=0.0)
    assert select_entity(dialog_turn, stage_context) == "One"
    assert [entity.name for entity in dialog_turn.sure_entities] == ["One"]
    dialog_turn.views = (View(None, hits(One=0.94, Two=0.75)),)
    assert select_entity(dialog_turn, stage_context) == "Two"
    assert dialog_turn.sure_entities == ()
    stage_context = parts(cached, KindEncoder(), max_misfit=0.2, sure_score=0.94, word_weight=0.0)
    assert select_entity(dialog_turn, stage_context) == "One"
    assert [entity.name for entity in dialog_turn.sure_entities] == ["One"]


def test_the_nearest_is_the_nearest_and_tells_why_it_was_left_out(cached: Path) -> None:
    dialog_turn = make_turn("What is this animal called?", target=Target(kind="animal"))
    dialog_turn.views = (View(None, hits(One=0.9, Two=0.7)),)
    stage_context = parts(cached, KindEncoder(), max_misfit=0.2, min_score=0.75, word_weight=0.0)
    assert select_entity(dialog_turn, stage_context) is None
    nearest = dialog_turn.nearest
    assert nearest is not None and (nearest.name, nearest.score) == ("One", 0.9) and "animal" in nearest.left_out
    dialog_turn.views = (View(None, hits(One=0.9)),)  # nothing else was found
    assert select_entity(dialog_turn, stage_context) is None
    assert dialog_turn.nearest == nearest
