"""Boxes that vision models give: every family's form, and what a reply may hold instead."""

from __future__ import annotations

from typing import Any

import pytest

from agents.base.box_forms import BoxForm
from agents.models.base import Box
from agents.models.vision.model_boxes import convert_corners, describe_form, find_corners, measure_sent, read_corners

CAR = Box(100, 300, 500, 600)  # of a photo of 2000 x 1000


@pytest.mark.parametrize(
    ("form", "numbers"),
    [("xyxy-1000", (50, 300, 250, 600)), ("yxyx-1000", (300, 50, 600, 250)), ("pixels", (50, 150, 250, 300))],
)
def test_numbers_of_every_form_are_the_same_box(form: BoxForm, numbers: Any) -> None:
    sent = measure_sent((2000, 1000), 1000)
    assert sent == (1000, 500)
    assert convert_corners(numbers, form, sent, (2000, 1000)) == CAR
    left, top, right, bottom = numbers
    assert convert_corners((right, bottom, left, top), form, sent, (2000, 1000)) == CAR, "corners in any order"
    assert convert_corners(numbers, "none", sent, (2000, 1000)) is None
    assert describe_form(form, sent) and ("1000 x 500" in describe_form(form, sent)) == (form == "pixels")


def test_a_picture_within_the_models_size_is_sent_as_it_is() -> None:
    assert measure_sent((640, 480), 1024) == measure_sent((640, 480), None) == (640, 480)


@pytest.mark.parametrize(
    ("numbers", "box"),
    [
        ((-20, 0, 1040, 1000), Box(0, 0, 1000, 1000)),  # a little beyond the picture
        ((0, 0, 1400, 900), None),  # pixels of a larger picture
        ((-300, 0, 500, 500), None),
        ((100, 100, 130, 130), None),  # too small to be searched with
        ((0, 100, 1000, 180), None),  # a strip
        ((400, 400, 400, 800), None),
    ],
)
def test_a_box_is_clipped_or_none(numbers: Any, box: Box | None) -> None:
    assert convert_corners(numbers, "xyxy-1000", (1000, 1000), (1000, 1000)) == box


@pytest.mark.parametrize(
    "value", [[1, 2, 3, 4], (1, 2, 3, 4.0), [[1, 2, 3, 4]], "[1, 2, 3, 4]", "1, 2, 3, 4", "[[1,2,3,4]]", "(1, 2, 3, 4)"]
)
def test_four_numbers_are_read_however_they_are_written(value: Any) -> None:
    assert read_corners(value) == (1.0, 2.0, 3.0, 4.0)
    assert find_corners({"box_2d": value}) == find_corners({"bbox_2d": value, "box": []}) == (1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        [1, 2, 3],
        [1, 2, 3, 4, 5],
        "left",
        "",
        [1, 2, 3, "4"],
        [1, 2, 3, None],
        [True, 2, 3, 4],
        {"x1": 1},
        7,
        [1, 2, 3, float("nan")],
        [1, 2, 3, 10**400],
        "[1, 2, 3, 1e999]",
        [[[]]],
        "[" * 500,
        [[1, 2], [3, 4]],
    ],
)
def test_anything_else_is_no_box(value: Any) -> None:
    assert read_corners(value) is None
