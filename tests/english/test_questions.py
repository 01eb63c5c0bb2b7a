"""What the words of recorded questions tell: the object and its place, the kind of question, whether several things are meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.english.object_phrases import extract_object_phrases, find_pointed_phrase, find_position
from agents.english.question_kinds import (
    classify_question,
    is_about_packaged,
    is_about_several,
    parse_named_number,
)
from agents.stages.tools import ToolRouter, rule_tools
from agents.turn import Tools
from tests.agent.scripted import turn
from tests.support.recorded_turns import find_turn

OBJECTS = {
    "ani_q001": ("animal", None),  # How tall can this animal get?
    "ani_q018": ("animal", "left"),  # Is the animal on the left usually heavier than the one on the right?
    "mon_m004#0": ("poster", "left"),  # Which planet is on the poster on the left?
    "mon_q002": ("round fort", None),
    "mon_q003": ("faces", "right"),  # Who carved the faces on the card on the right?
    "mon_q012": ("statue", None),  # Which sculptor did the face of this statue?
    "nat_q012": ("yellow flower", None),
    "nat_q013": ("woman born", "middle"),
    "nat_q028": ("fruit", None),  # Can I feed the fruit on the right to the bird on the postcard?
    "nat_m003#0": ("green apple", "right"),
    "obj_q004": ("coin", "middle"),  # I got these as change. What animal is on the coin in the middle?
    "obj_q013": ("man", None),  # ... the man on the silver-coloured coin ...
    "obj_q016": ("ship", "left"),  # Off which country was the ship on the left coin finally wrecked?
    "obj_m001#0": ("big instrument", "left"),
    "obj_m005#2": ("sports car", "right"),
    "ani_q003": (None, "right"),  # How long is the one on the right pregnant?
    "ani_m001#3": (None, None),  # To which state did those go?
    "nat_q001": (None, None),  # What kind of parrot am I looking at?
    "obj_q024": (None, None),  # What does this come to?
}
POINTED = {
    "mon_m001#0": "tower",  # What tower is this?
    "nat_m005#0": "tree",  # Can you tell me what tree this is?
    "ani_m001#0": "animal",  # What animal am I looking at?
    "ani_m004#0": "big cats",  # Which big cats are these?
    "ani_m001#1": None,  # How fast can it run?
}
KINDS = {
    "mon_q024": {"text"},  # What does a ticket cost according to the sign?
    "nat_q025": {"text"},  # What does this sign ask me not to do?
    "nat_q027": {"calculation"},  # What is the total on this receipt?
    "obj_q021": {"calculation"},  # ... how much change do I get?
    "obj_q024": {"calculation"},  # What does this come to?
    "mon_q025": {"visible"},  # How many red post boxes are standing here?
    "nat_q026": {"visible"},  # How many red apples are lying on the table?
    "ani_q002": {"recognition"},  # What kind of animal is sitting there?
    "ani_q035": {"recognition"},  # What is the animal with the hump on the left called?
    "mon_q004": {"recognition"},  # What do you call the red thing on the left?
    "mon_m004#0": {"recognition"},  # Which planet is on the poster on the left?
    "nat_q001": {"recognition"},  # What kind of parrot am I looking at?
    "nat_q032": {"recognition"},  # What is this animal with the long feelers?
    "nat_m003#0": {"recognition"},  # Which variety is the green apple on the right?
    "obj_q002": {"recognition"},  # Which fighter jet is that up there?
    "obj_m002#0": {"recognition"},  # What's that floating over there?
    "obj_m003#2": {"recognition"},  # And what's the name of the child on the golden one?
    "ani_q026": {"open_world", "now"},  # What does this cat food cost in the store right now?
    "ani_q028": {"open_world", "now"},  # How many of these live in Henbury Park this year?
    "ani_m001#4": {"open_world", "now"},  # And how many were born in that herd this spring?
    "ani_m003#3": {"open_world", "now"},  # And how many are alive this very day?
    "nat_q007": {"open_world", "now"},  # How threatened is this bird at present ...?
    "obj_q026": {"open_world", "now"},  # What does one of these go for on the used car market today?
    "ani_q001": {"open_world"},
    "ani_q005": {"open_world"},  # What do you call a female of these?
    "mon_q022": {"open_world"},  # A scale here shows 50 kilos ...
    "nat_q004": {"open_world"},  # Which two varieties were crossed to get the apple on the left?
    "obj_q012": {"open_world"},  # In which country was the man who designed this plane's paint scheme born?
}
SEVERAL = {
    "ani_q017": 2,  # Which of these two animals carries its young longer?
    "mon_q018": 3,  # Which of the three forts on this shelf is the oldest?
    "mon_q019": 3,
    "nat_q020": 2,  # If both of these birds lay a full clutch ...
    "nat_m003#2": 2,  # Which of the two came first?
    "ani_m006#2": 3,  # To which animal family do all three of them belong?
    "ani_q018": None,  # Is the animal on the left usually heavier than the one on the right?
    "nat_q019": None,
    "nat_q024": None,  # What do I pay for one avocado and one broccoli together?
    "obj_q019": None,  # How much money is lying here in total?
}
OF_ONE = (
    "ani_q020",  # How many of these pull the sleigh ...?
    "nat_q002",  # How much does one of these weigh?
    "nat_q033",  # What do the five petals of this flower stand for ...?
    "obj_m005#2",  # And where was the sports car on the right put together?
    "obj_q015",  # In which two wars were the men killed ...?
)


@pytest.mark.parametrize("name", OBJECTS)
def test_the_object_asked_about_and_its_place(name: str) -> None:
    question = find_turn(name).question
    phrases = extract_object_phrases(question, 5)
    assert (phrases[0] if phrases else None, find_position(question)) == OBJECTS[name]


@pytest.mark.parametrize("name", POINTED)
def test_the_thing_pointed_at_is_called_so(name: str) -> None:
    assert find_pointed_phrase(find_turn(name).question) == POINTED[name]


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_of_a_question(name: str) -> None:
    kind = classify_question(find_turn(name).question)
    fields = ("text", "calculation", "visible", "recognition", "open_world", "now")
    assert {field for field in fields if getattr(kind, field)} == KINDS[name]


@pytest.mark.parametrize("name", ["mon_q024", "nat_q025", "nat_q027", "obj_q024"])
def test_what_stands_in_the_picture_is_not_searched(name: str) -> None:
    question = find_turn(name).question
    assert classify_question(question).self_contained
    assert rule_tools(turn(question), ToolRouter.Options()) == Tools(image=False, text=False)


@pytest.mark.parametrize("name", ["ani_q001", "ani_q026", "nat_q004", "mon_q022"])
def test_what_cannot_be_seen_is_searched(name: str) -> None:
    question = find_turn(name).question
    assert not classify_question(question).self_contained
    assert rule_tools(turn(question), ToolRouter.Options()) == Tools(image=True, text=True)


@pytest.mark.parametrize("name", SEVERAL)
def test_a_question_about_several_things(name: str) -> None:
    question = find_turn(name).question
    assert is_about_several(question)
    assert parse_named_number(question) == SEVERAL[name]


@pytest.mark.parametrize("name", OF_ONE)
def test_a_question_about_one_thing(name: str) -> None:
    assert not is_about_several(find_turn(name).question)


def test_packaged_goods_are_told_by_their_package() -> None:
    assert is_about_packaged("What is the logo on this box?")
    assert not is_about_packaged(find_turn("obj_q005").question)


@given(st.text(max_size=120))
def test_no_question_breaks_the_rules(question: str) -> None:
    for phrase in extract_object_phrases(f"what is this {question}", 5):
        assert 1 <= len(phrase.split()) <= 3
    find_position(question)
    classify_question(question)
