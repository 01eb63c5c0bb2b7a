"""What an answer comes from, and which box shows which thing."""

from __future__ import annotations

from typing import Any

import pytest

from agents.methods.candidates import find_origin
from agents.methods.thing_regions import assign_regions
from agents.models.base import Box, Detection
from agents.turn import Candidate, Evidence, Look, Thing
from tests.agent.scripted import turn

PAGE = Evidence("It was finished in 1889.", "web", "Eiffel Tower")
ATTRIBUTE = Evidence("The height of Eiffel Tower is 330 m.", "kg", "Eiffel Tower")


@pytest.mark.parametrize(
    ("candidate", "shown", "needs", "origin"),
    [
        (Candidate("330 m", None), (PAGE, ATTRIBUTE), "both", "graph"),
        (Candidate("In 1889.", None), (ATTRIBUTE, PAGE), "both", "page"),
        (Candidate("In 1887.", None), (ATTRIBUTE, PAGE), "both", "own"),
        (Candidate("In 1887.", None), (), "picture", "photo"),
        (Candidate("In 1887.", None), (), None, "own"),
        (Candidate("330 m", None, origin="page"), (ATTRIBUTE,), "both", "page"),  # a stage knows better
        (Candidate("200", None, computed=True), (ATTRIBUTE,), "both", "computed"),
    ],
)
def test_the_origin_is_what_holds_the_answer(
    candidate: Candidate, shown: tuple[Evidence, ...], needs: Any, origin: str
) -> None:
    look = None if needs is None else Look(needs, by_model=True)
    assert find_origin(turn("How high is this?", shown=shown, look=look), candidate) == origin


def box(left: float, phrase: str = "object") -> Detection:
    return Detection(Box(left, 0, left + 10, 10), phrase, 0.9)


def test_each_thing_has_the_box_at_its_place_and_no_box_is_given_twice() -> None:
    left, right = box(0), box(80)
    things = (Thing("cup", "right"), Thing("plate", "left"), Thing("fork"))
    assert assign_regions(things, (left, right), 100, 10) == [right, left, None]


def test_a_box_that_the_detector_calls_by_the_phrase_comes_first() -> None:
    cup, plate = box(0, "plate"), box(80, "cup")
    assert assign_regions((Thing("red cup"),), (cup, plate), 100, 10) == [plate]
    assert assign_regions((Thing("fork"),), (cup, plate), 100, 10) == [cup]
