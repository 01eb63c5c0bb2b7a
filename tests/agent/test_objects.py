"""The object a question is about, and where it is."""

import pytest

from agents.models.base import Box
from agents.objects import nearest, object_phrases, position_in


@pytest.mark.parametrize(
    ("question", "phrases"),
    [
        ("How tall is this tower?", ["tower"]),
        ("Who designed the building on the left?", ["building"]),
        ("What is the height of this stone arch?", ["stone arch"]),
        ("What is this?", []),
        ("How old can this get?", []),
        ("Is the red car faster than the blue bus?", ["red car", "blue bus"]),
        ("Which country does this animal on the right come from?", ["animal"]),
    ],
)
def test_objects_are_named_by_the_question(question: str, phrases: list[str]) -> None:
    assert object_phrases(question, 5) == phrases


@pytest.mark.parametrize(
    ("question", "position"),
    [
        ("Who designed the building on the left?", "left"),
        ("What is the rightmost animal?", "right"),
        ("What is the thing in the middle called?", "middle"),
        ("How tall is this?", None),
        ("Is it to the left of the river?", None),
        ("What is in the bottom left corner?", "bottom"),
    ],
)
def test_positions_are_read(question: str, position: str | None) -> None:
    assert position_in(question) == position


def test_the_nearest_box_to_a_position() -> None:
    boxes = [Box(0, 0, 10, 10), Box(45, 45, 55, 55), Box(90, 90, 100, 100)]
    assert [nearest(boxes, position, 100, 100) for position in ("left", "middle", "right", "top", "bottom")] == [
        0,
        1,
        2,
        0,
        2,
    ]
