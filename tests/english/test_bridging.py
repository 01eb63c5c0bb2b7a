"""Multi-hop questions are bridged by the attributes of the entity."""

import pytest

from agents.english.bridging import has_bridge, split_names, write_hop_questions
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


@pytest.mark.parametrize(
    ("question", "entity"),
    [
        ("How high is the mountain?", Entity("Matterhorn", {"location": "Zermatt, Switzerland", "mountain_range": "Pennine Alps"})),
        ("How deep is the lake?", Entity("Lake Geneva", {"location": "Switzerland; France"})),
        ("How long is the river in this photo?", Entity("River Thames", {"source_location": "Thames Head"})),
        ("What is the population of the city?", Entity("Lyon", {"region": "Auvergne-Rhône-Alpes", "sister_city": "Milan"})),
        ("What is the population of the old town on the left?", Entity("Lyon", {"state": "France"})),
        ("What is the area of the island?", Entity("Oahu", {"location": "Pacific Ocean"})),
        ("When was the queen born?", Entity("Queen Victoria", {"buried": "Frogmore, Windsor"})),
    ],
)  # fmt: skip
def test_what_the_photo_shows_is_not_replaced_by_where_it_is(question: str, entity: Entity) -> None:
    assert write_hop_questions(question, entity) == []
    assert not has_bridge(question)


@pytest.mark.parametrize(
    ("question", "entity", "hop"),
    [
        ("How long is the river?", Entity("Tower Bridge", {"crosses": "River Thames", "location": "London"}), "How long is River Thames?"),
        ("How long is the river that it crosses?", Entity("Tower Bridge", {"crosses": "Thames"}), "How long is Thames?"),
        ("How many live in the city?", Entity("Eiffel Tower", {"city": "Paris", "region": "Europe"}), "How many live in Paris?"),
        (
            "What is the population of the city where it was made?",
            Entity("Porcelain", {"location": "Meissen"}),
            "What is the population of Meissen?",
        ),
        ("When did the emperor die?", Entity("Taj Mahal", {"commissioned_by": "Shah Jahan"}), "When did Shah Jahan die?"),
        ("Where was the founder born?", Entity("Fordson", {"founded_by": "Henry Ford"}), "Where was Henry Ford born?"),
        ("What is the capital of the country?", Entity("Machu Picchu", {"location": "Peru"}), "What is the capital of Peru?"),
    ],
)  # fmt: skip
def test_what_an_attribute_names_is_gone_through(question: str, entity: Entity, hop: str) -> None:
    assert write_hop_questions(question, entity) == [hop]


def test_names_are_taken_out_of_lists_and_numbers_left() -> None:
    assert split_names("Gustave Eiffel (engineer); Paris, France; 330 m") == ["Gustave Eiffel", "Paris", "France"]
