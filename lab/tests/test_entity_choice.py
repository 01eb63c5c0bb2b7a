"""The benchmark of the entity that is chosen: what it counts, and that each way to choose starts from the same searches."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.search.hits import Entity, ImageHit
from agents.settings.presets import settings_from
from agents.turn import Target, Turn, View
from lab.benchmarks.entity_choice import (
    STAGE,
    format_shares,
    format_shares_by_photo,
    is_among_choices,
    is_chosen,
    is_first_of_a_list,
    read_shown_names,
    recognises_nothing,
    run_on_copies,
)
from tests.agent.scripted import context, turn

SHOWN = frozenset({"Yak"})


class Same:
    """Embeds the question and the yak alike, all else apart."""

    name = "same"

    def encode(self, texts: Any) -> Any:
        return np.asarray([[1.0, 0.0] if "?" in text or "Yak" in text else [0.0, 1.0] for text in texts])


def searched(**names: float) -> Turn:
    searched_turn = turn("How heavy is this?")
    searched_turn.views = tuple(
        View(None, (ImageHit(place, score, f"u{place}", (Entity(name),)),))
        for place, (name, score) in enumerate(names.items())
    )
    return searched_turn


def test_each_setting_chooses_from_the_same_searches() -> None:
    before = [(searched(Bison=0.5, Yak=0.4), SHOWN)]
    for weight, right in ((0.0, False), (0.5, True)):
        settings = settings_from({"stages": [STAGE, "finalise"], "select_entity": {"word_weight": weight}})
        parts = context(settings, text_encoder=Same())
        [(result, names)] = run_on_copies(
            before, settings, [STAGE], models=parts.models, search=parts.search, prompts=parts.prompts
        )
        assert is_chosen(result, names) is right
    [(untouched, _)] = before
    assert untouched.entity is None and recognises_nothing(untouched) and not recognises_nothing(result)
    assert not is_chosen(untouched, SHOWN)
    assert is_first_of_a_list(untouched, SHOWN) and is_among_choices(untouched, SHOWN)
    assert not is_first_of_a_list(untouched, frozenset({"Elk"})) and not is_among_choices(untouched, frozenset({"Elk"}))


def test_one_of_several_entities_counts() -> None:
    result = searched(Bison=0.5)
    result.entity, result.entities = Entity("Bison"), (Entity("Bison"), Entity("Yak"))
    assert is_chosen(result, SHOWN) and not is_chosen(result, frozenset({"Elk"}))


def test_shares_by_hand() -> None:
    """Three turns, one of which names a place and is wrong."""
    questions = [(searched(Yak=0.5), SHOWN), (searched(Yak=0.5), SHOWN), (searched(Elk=0.5), SHOWN)]
    questions[2][0].target = Target(position="left")
    assert format_shares(questions, is_first_of_a_list) == ["2 of 3 (67%)", "0 of 1 (0%)", "2 of 2 (100%)"]
    assert format_shares(questions[:2], is_first_of_a_list)[1] == "-"


def test_altered_copies_are_counted_apart() -> None:
    questions = [(searched(Yak=0.5), SHOWN), (searched(Elk=0.5), SHOWN), (searched(Yak=0.5), SHOWN)]
    groups = ["altered-copy", "altered-copy", "not-shown"]
    assert format_shares_by_photo(questions, groups, is_first_of_a_list) == ["-", "1 of 2 (50%)"]


def test_a_photograph_may_show_several_entities() -> None:
    assert {"Eileen Collins", "Space Shuttle"} in read_shown_names("validation").values()
