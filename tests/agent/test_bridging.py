"""Multi-hop questions are bridged by the attributes of the entity."""

from agents.bridging import bridge_queries, names_in_value
from agents.search.types import Entity

TOWER = Entity(
    "Eiffel Tower",
    {
        "architect": "[[Stephen Sauvestre]]<br />[[Maurice Koechlin]]",
        "height": "330 m",
        "location": "Paris, [[France]]",
    },
)


def test_the_attribute_that_the_question_mentions_is_asked_about() -> None:
    assert bridge_queries("When did the architect of this die?", TOWER) == [
        "Stephen Sauvestre die",
        "Maurice Koechlin die",
    ]


def test_a_question_without_a_bridge_is_not_split() -> None:
    assert bridge_queries("How tall is this?", TOWER) == []
    assert bridge_queries("Who was the architect?", TOWER) == []
    assert bridge_queries("When did the architect die?", None) == []


def test_names_are_taken_out_of_lists_and_numbers_left() -> None:
    assert names_in_value("Gustave Eiffel; Paris, France; 330 m") == ["Gustave Eiffel", "Paris", "France"]
