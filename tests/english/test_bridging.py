"""Multi-hop questions are bridged by the attributes of the entity."""

from __future__ import annotations

import pytest

from agents.english.bridging import has_bridge, split_names, write_hop_questions
from agents.search.hits import Entity
from tests.support.recorded_turns import find_turn

HOPS = {
    "ani_q012": ["What is the capital of Botswana?"],
    "mon_q013": ["In which town was Frédéric Auguste Bartholdi born?"],
    "mon_q016": ["Where was Henry Bacon born?", "Where was Daniel Chester French born?"],
    "mon_m002#3": ["What is the capital of Cusco Region?", "What is the capital of Peru?"],
    "nat_q013": ["In which village was Maria Ann Smith born who gave the apple in the middle its name?"],
    "nat_q014": ["Which city did Roscoe represent in Parliament?"],
    "nat_q015": ["In what year was Bulliard born who first described this mushroom?"],
    "nat_q031": ["In which year was Karlis Lapins born?"],
    "nat_q033": ["What do the five petals of this flower stand for in Malaysia?"],
    "obj_q012": ["In which country was Raymond Loewy born?"],
    "obj_q013": [
        "Which office did John R. Sinnock hold from 1929 to 1932?",
        "Which office did Franklin D. Roosevelt hold from 1929 to 1932?",
    ],
    "obj_q014": ["Who founded Russell Hobbs?"],
    "mon_q002": [],  # Who was the architect of this round fort?
    "ani_q001": [],  # How tall can this animal get?
    "mon_q015": [],  # The ruler this place was built for: which number was he ...? It begins with its bridge
}
THROUGH = {
    "mon_q015": True,
    "nat_q016": True,  # In which city did the man this flower is named after die?
    "obj_q020": True,  # How many space missions did the woman on this card fly?
    "ani_q001": False,
    "mon_q002": False,
    "nat_q030": False,  # How fast can the spotted bird on the left run?
    "nat_q019": False,  # Does the bird on the right have a bigger wingspan than ...?
    "mon_q005": False,  # How long does the planet on this poster take ...?
}


@pytest.mark.parametrize("name", HOPS)
def test_the_thing_a_question_goes_through_is_named(name: str) -> None:
    turn = find_turn(name)
    assert write_hop_questions(turn.question, turn.entity) == HOPS[name]
    assert write_hop_questions(turn.question, None) == []


@pytest.mark.parametrize("name", THROUGH)
def test_what_is_pointed_at_is_nothing_that_a_question_goes_through(name: str) -> None:
    assert has_bridge(find_turn(name).question) is THROUGH[name]


def test_a_thing_that_is_pointed_at_is_not_replaced_by_a_name_of_its_attributes() -> None:
    question = "How fast can the spotted bird on the left run?"
    assert write_hop_questions(question, Entity("Sacagawea dollar", {"reverse_bird": "Soaring Eagle"})) == []


def test_names_are_taken_out_of_lists_and_numbers_left() -> None:
    assert split_names("Gustave Eiffel (engineer); Paris, France; 330 m") == ["Gustave Eiffel", "Paris", "France"]
