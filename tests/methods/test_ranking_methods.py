"""Fusion and boxes: the formulas on numbers worked out by hand, and properties over random input."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agents.methods.ranking import fuse
from agents.models.base import Box, Detection
from agents.models.vision.boxes import crop, overlap, pad, suppress, usable

Item = tuple[str, float]


def names(lists: list[list[Item]]) -> list[tuple[str, float]]:
    fused = fuse(lists, key=lambda item: item[0], score=lambda item: item[1])
    return [(item[0], score) for item, score in fused]


LISTS = [[("a", 0.9), ("b", 0.8)], [("b", 0.85), ("c", 0.2)]]


def test_fusion_by_score_takes_the_best_score_of_each_item() -> None:
    assert names(LISTS) == [("a", 0.9), ("b", 0.85), ("c", 0.2)]


def test_an_item_named_twice_in_one_list_counts_where_it_stands_first() -> None:
    assert names([[("a", 0.4), ("a", 0.5)]]) == [("a", 0.4)]


@given(st.lists(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 1)), max_size=6), max_size=4))
def test_fusion_names_every_item_once_best_first(lists: list[list[Item]]) -> None:
    fused = names(lists)
    assert sorted(name for name, _ in fused) == sorted({name for ranked in lists for name, _ in ranked})
    assert [score for _, score in fused] == sorted((score for _, score in fused), reverse=True)


def detection(left: float, top: float, right: float, bottom: float, score: float = 1.0) -> Detection:
    return Detection(Box(left, top, right, bottom), "thing", score)


def test_overlap_by_hand() -> None:
    assert overlap(Box(0, 0, 10, 10), Box(5, 0, 15, 10)) == pytest.approx(50 / 150)
    assert overlap(Box(0, 0, 1, 1), Box(2, 2, 3, 3)) == 0.0


def test_padding_grows_by_the_box_and_stays_in_the_image() -> None:
    assert pad(Box(10, 10, 20, 30), 0.1, 100, 100) == Box(9, 8, 21, 32)
    assert pad(Box(0, 0, 100, 100), 0.5, 100, 80) == Box(0, 0, 100, 80)


def test_doubles_tiny_and_whole_image_boxes_are_dropped() -> None:
    detections = [
        detection(0, 0, 50, 50, 0.9),
        detection(2, 2, 52, 52, 0.8),
        detection(60, 60, 90, 90, 0.7),
        detection(0, 0, 5, 5, 0.95),
        detection(0, 0, 100, 100, 0.99),
    ]
    rules = {"padding": 0.0, "max_overlap": 0.5, "min_side": 16, "max_area": 0.9, "limit": 8}
    assert [round(box.score, 2) for box in usable(detections, 100, 100, **rules)] == [0.9, 0.7]
    assert [round(box.score, 2) for box in usable(detections, 100, 100, min_area=0.1, **rules)] == [
        0.9
    ]  # 0.25 and 0.09


def test_two_objects_of_one_name_are_both_kept() -> None:
    assert len(suppress([detection(0, 0, 10, 10), detection(20, 0, 30, 10)], 0.5)) == 2


def test_a_crop_keeps_the_resolution() -> None:
    image = Image.new("RGB", (4000, 3000))
    assert crop(image, Box(1000, 500, 3000, 2500)).size == (2000, 2000)
    assert crop(image, Box(10, 10, 10, 10)).size == (1, 1)


coordinates = st.floats(-500, 1500)


@given(coordinates, coordinates, coordinates, coordinates, st.floats(0, 1))
def test_padded_boxes_always_lie_in_the_image(
    left: float, top: float, right: float, bottom: float, fraction: float
) -> None:
    box = pad(Box(min(left, right), min(top, bottom), max(left, right), max(top, bottom)), fraction, 640, 480)
    assert 0 <= box.left <= 640
    assert 0 <= box.right <= 640
    assert 0 <= box.top <= 480
    assert 0 <= box.bottom <= 480
