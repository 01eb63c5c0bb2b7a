"""Multi-hop questions are bridged by the attributes of the entity."""

import pytest

from agents.methods.bridging import has_bridge, split_names, write_hop_questions
from agents.search.hits import Entity

STATUE = Entity(
    "Statue of Liberty",
    {"sculptor": "[[Frédéric Auguste Bartholdi]]", "height": "93 m", "location": "New York, [[United States]]"},
)
ZEBRA = Entity("Plains zebra", {"national_animal_of": "[[Botswana]]", "diet": "Grass"})
MUSHROOM = Entity("Boletus edulis", {"binomial_authority": "[[Pierre Bulliard]] (1782)"})


@pytest.mark.parametrize(
    ("question", "entity", "hops"),
    [
        (
            "In which town was the man who designed this statue born?",
            STATUE,
            ["In which town was Frédéric Auguste Bartholdi born?"],
        ),
        ("When did the sculptor of the statue on the left die?", STATUE, ["When did Frédéric Auguste Bartholdi die?"]),
        (
            "What is the capital of the country that has the animal on the right as its national animal?",
            ZEBRA,
            ["What is the capital of Botswana?"],
        ),
        (
            "In what year was the botanist born who first described this mushroom?",
            MUSHROOM,
            ["In what year was Pierre Bulliard born who first described this mushroom?"],
        ),
        ("How tall is this?", STATUE, []),
        ("Who was the sculptor?", Entity("x", {"height": "3 m"}), []),
        ("Who was the sculptor?", None, []),
        ("Who was the sculptor of this statue?", STATUE, []),
        ("What is the name of the sculptor?", STATUE, []),
    ],
)
def test_the_thing_a_question_goes_through_is_named(question: str, entity: Entity | None, hops: list[str]) -> None:
    assert write_hop_questions(question, entity) == hops


@pytest.mark.parametrize(
    ("question", "through"),
    [
        ("How much does the animal on the left weigh?", False),
        ("How long does the planet on this poster take to go around the sun?", False),
        ("How long does it take until the eggs of the bird hatch?", False),
        ("What is the large bird in front of the house called in Latin?", False),
        ("How long was the ship on which this man sailed?", True),
        ("What is the capital of the country that has the animal on the left as its national animal?", True),
        ("Which plant does the man on this coin have in his hand?", True),
        ("In which town was the architect born?", True),
    ],
)
def test_what_is_pointed_at_is_nothing_that_a_question_goes_through(question: str, through: bool) -> None:
    assert has_bridge(question) is through


def test_a_thing_that_is_pointed_at_is_not_replaced_by_a_name_of_its_attributes() -> None:
    coin = Entity("Sacagawea dollar", {"reverse": "Soaring Eagle"})
    assert write_hop_questions("How heavy is the bird on the right?", coin) == []


def test_names_are_taken_out_of_lists_and_numbers_left() -> None:
    assert split_names("Gustave Eiffel (engineer); Paris, France; 330 m") == ["Gustave Eiffel", "Paris", "France"]
