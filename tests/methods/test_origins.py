"""What an answer comes from, and which box shows which thing."""

from __future__ import annotations

from typing import Any

import pytest

from agents.methods.candidates import find_origin
from agents.methods.thing_regions import assign_regions, find_small_things
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


def corners(left: float, top: float, right: float, bottom: float, phrase: str = "object") -> Detection:
    return Detection(Box(left, top, right, bottom), phrase, 0.9)


def test_a_thing_has_the_box_that_covers_it_and_not_that_of_a_part() -> None:
    """Boxes that the detector finds in two scenes: "left" was a card's picture, "right" a wheel at the vehicle's end."""
    tower, statue = corners(88, 174, 294, 471), corners(614, 191, 960, 439)
    picture, around = corners(421, 159, 561, 464), corners(355, 142, 635, 488)
    row = corners(0, 14, 960, 542)
    things = (Thing("iron tower", "left"), Thing("green statue", "middle"), Thing("statue on hill", "right"))
    assert assign_regions(things, (tower, around, row, statue, picture), 960, 720) == [tower, around, statue]
    tracked, wheeled = corners(0, 112, 487, 615), corners(472, 114, 960, 584)
    parts = (corners(498, 288, 770, 560), corners(506, 361, 589, 501), corners(225, 491, 398, 582))
    sides = (Thing("tracked vehicle", "left"), Thing("wheeled vehicle", "right"))
    assert assign_regions(sides, (*parts, tracked, wheeled), 960, 720) == [tracked, wheeled]


def test_what_holds_several_things_has_no_parts() -> None:
    """A box of most of the photo, or from border to border, holds the ground or a row of things."""
    cup, plate = corners(10, 40, 30, 60), corners(60, 40, 80, 60)
    for holder in (corners(0, 0, 90, 90), corners(0, 35, 100, 70)):
        assert assign_regions((Thing("cup", "left"), Thing("plate", "right")), (holder, cup, plate), 100, 100) == [
            cup,
            plate,
        ]


def test_a_thing_that_the_detector_found_by_its_name_is_no_part_of_another() -> None:
    car, wheel = corners(0, 0, 60, 40, "car"), corners(10, 20, 30, 40, "wheel")
    assert assign_regions((Thing("wheel"), Thing("car")), (car, wheel), 100, 100) == [wheel, car]
    assert assign_regions((Thing("wheel"),), (car, corners(10, 20, 30, 40, "car")), 100, 100) == [car]


def test_a_small_box_is_a_small_thing_unless_a_large_one_may_be_the_thing() -> None:
    patch, ball = corners(40, 40, 50, 50), corners(10, 60, 30, 80)
    body = corners(0, 0, 90, 90)
    giraffe, toy = Thing("giraffe"), Thing("ball", "left")
    assert find_small_things((giraffe,), (patch, body), 100, 100, 0.2) == []
    assert find_small_things((giraffe,), (patch, ball), 100, 100, 0.2) == [(giraffe, patch)]
    assert find_small_things((toy,), (patch, ball, body), 100, 100, 0.2) == [(toy, ball)]


def test_a_thing_keeps_the_box_that_the_model_drew_of_it() -> None:
    """Neither the detector's better box for its place nor another thing takes it; one that fills the photo has none."""
    drawn = corners(8, 8, 34, 34, "red cup")
    detected = corners(0, 50, 20, 70)
    cup = Thing("red cup", "left", box=Box(10, 10, 32, 32))
    assert assign_regions((Thing("plate", "left"), cup), (drawn, detected), 100, 100) == [detected, drawn]
    assert assign_regions((cup, Thing("plate")), (drawn,), 100, 100) == [drawn, None]
    fort = Thing("fort", box=Box(0, 0, 98, 98))
    assert assign_regions((fort,), (detected,), 100, 100) == [None]
    small = Thing("red cup", box=cup.box)
    assert find_small_things((small,), (drawn, corners(0, 0, 90, 90)), 100, 100, 0.2) == [(small, drawn)]


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
