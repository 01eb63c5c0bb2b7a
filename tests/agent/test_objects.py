"""The object a question is about, and where it is."""

import pytest

from agents.methods.object_phrases import extract_object_phrases, find_position, measure_offset
from agents.models.base import Box


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
    assert extract_object_phrases(question, 5) == phrases


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
    assert find_position(question) == position


def test_offsets_are_fractions_of_the_image() -> None:
    box = Box(10, 20, 30, 40)  # its centre lies at 20 %, 30 %
    assert [
        round(measure_offset(box, position, 100, 100), 3) for position in ("left", "right", "top", "bottom", "middle")
    ] == [
        0.2,
        0.8,
        0.3,
        0.7,
        0.5,
    ]
