"""Things are placed as their true boxes lie, and boxes and close-ups counted by how much of them they show."""

from __future__ import annotations

from PIL import Image

from agents.models.base import Box, Detection
from agents.turn import Thing
from lab.benchmarks.thing_boxes import PlacedThing, build_rows, count_boxes, place_things
from mini_crag_mm.loader import SET, ShownScene, ShownThing, load_content, read_scenes


def test_the_things_of_a_scene_have_their_names_and_the_places_of_their_boxes() -> None:
    content = load_content(SET.content)
    first, second, third = list(content.entities)[:3]
    boxes = {first: (60, 10, 90, 40), second: (0, 5, 20, 45), third: (30, 0, 50, 50)}
    image = Image.new("RGB", (100, 50))
    scene = ShownScene("s", image, tuple(ShownThing(name, box, False, True) for name, box in boxes.items()))
    placed = place_things(scene, content)
    assert [each.thing.position for each in placed] == ["right", "left", "middle"]
    assert placed[1].thing.phrase == content.entities[second].name and placed[1].box == Box(0, 5, 20, 45)
    alone = next(scene for scene in read_scenes("validation") if len(scene.things) == 1)
    assert [each.thing.position for each in place_things(alone, content)] == [None]


def test_boxes_are_counted_by_their_overlap_and_close_ups_by_what_they_show() -> None:
    placed = [
        PlacedThing(Thing("cup", "left"), Box(0, 0, 40, 40)),
        PlacedThing(Thing("plate", "right"), Box(60, 0, 100, 40)),
    ]
    part, aside = Detection(Box(0, 0, 40, 18), "object", 0.9), Detection(Box(60, 60, 100, 100), "object", 0.8)
    counts = count_boxes(placed, (part, aside), (100, 100), 0.2)
    assert counts == {
        "things": 2,
        "found": 0,
        "right": 0,
        "missed": 1,
        "close-ups": 2,
        "of another thing": 1,
        "of a part": 1,
    }
    whole = Detection(Box(0, 0, 42, 42), "object", 0.9)
    right = count_boxes(placed, (whole,), (100, 100), 0.1)
    assert (right["right"], right["found"], right["missed"], right["close-ups"]) == (1, 1, 1, 0)
    assert [row[:4] for row in build_rows([(2, counts), (1, right)])] == [
        ["of one thing", "2", "1", "1"],
        ["of several", "2", "0", "0"],
        ["all", "4", "1", "1"],
    ]
