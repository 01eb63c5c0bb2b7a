"""A sheet of several pictures: each in a place of its own, whole, in its colours, under its label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agents.models.vision.montage import SIDE, cells, montage

COLOURS = ("red", "green", "blue", "purple", "orange", "brown")


@given(st.integers(1, 40))
def test_places_lie_on_the_sheet_beside_each_other(count: int) -> None:
    boxes = cells(count)
    assert len(boxes) == count
    for left, top, width, height in boxes:
        assert left >= 0 and top >= 0 and left + width <= SIDE and top + height <= SIDE
        assert min(width, height) > 60
    for index, (left, top, width, height) in enumerate(boxes):
        for other_left, other_top, other_width, other_height in boxes[:index]:
            assert (
                left >= other_left + other_width
                or other_left >= left + width
                or top >= other_top + other_height
                or other_top >= top + height
            )


def test_five_entries_stand_in_one_row_below_the_photo() -> None:
    assert cells(6) == [(0, 0, 1120, 672), *((224 * place, 672, 224, 448) for place in range(5))]


@pytest.mark.parametrize("size", [(10, 10), (4000, 30), (30, 4000), (960, 1280)])
def test_each_picture_is_shown_whole_in_its_place_under_its_label(size: tuple[int, int]) -> None:
    sheet = montage([(f"label {colour}", Image.new("RGB", size, colour)) for colour in COLOURS])
    assert sheet.size == (SIDE, SIDE) and sheet.mode == "RGB"
    for colour, (left, top, width, height) in zip(COLOURS, cells(len(COLOURS)), strict=True):
        place = sheet.crop((left, top, left + width, top + height))
        pixel_counts = [
            count
            for count, value in place.getcolors(1 << 20) or []
            if value == Image.new("RGB", (1, 1), colour).getpixel((0, 0))
        ]
        scale = min((width - 8) / size[0], (height - 36) / size[1])
        assert pixel_counts[0] == pytest.approx(max(1, size[0] * scale) * max(1, size[1] * scale), rel=0.3)
        strip = place.crop((0, 0, width, 28)).convert("L")
        assert strip.getextrema() == (0, 255)  # black letters on white


def test_labels_tell_pictures_apart() -> None:
    plain = Image.new("RGB", (64, 64), "grey")
    one, other = (montage([("Photo", plain), (letter, plain)]) for letter in "AB")
    assert one.tobytes() != other.tobytes()


def test_pictures_of_any_mode_are_taken_and_none_is_an_error() -> None:
    assert montage([("Photo", Image.new("RGBA", (8, 8))), ("A", Image.new("I;16", (8, 8)))]).mode == "RGB"
    with pytest.raises(ValueError, match="needs a picture"):
        montage([])
