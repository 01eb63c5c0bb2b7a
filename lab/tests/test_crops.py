"""The crops benchmark on a scene drawn here, with an encoder that sees the mean colour."""

import pytest
from PIL import Image

from agents.models.base import Box, Detection, FloatArray
from lab.benchmarks.crops import main, search
from mini_crag_mm.loader import ShownScene, ShownThing
from tests.support.mean_colour import MeanColour

COLOURS = {"red": (250, 20, 20), "green": (20, 250, 20), "blue": (20, 20, 250)}
LEFT, RIGHT = Box(0, 0, 50, 100), Box(50, 0, 150, 100)


def _thing(entity: str, box: Box) -> ShownThing:
    return ShownThing(entity, (int(box.left), int(box.top), int(box.right), int(box.bottom)), False, True)


def _scene() -> ShownScene:
    image = Image.new("RGB", (150, 100), COLOURS["green"])
    image.paste(COLOURS["red"], (0, 0, 50, 100))
    return ShownScene("s", image, (_thing("red", LEFT), _thing("green", RIGHT)))


def _index() -> FloatArray:
    return MeanColour().encode([Image.new("RGB", (5, 5), colour) for colour in COLOURS.values()])


def test_a_crop_finds_what_the_whole_picture_hides() -> None:
    red, green = search(_scene(), [Detection(LEFT, "object", 0.9)], list(COLOURS), _index(), MeanColour(), padding=0.0)
    assert (red.whole, red.any_list, red.by_score, red.true_box) == (1, 0, 0, 0)
    assert (green.whole, green.any_list, green.true_box) == (0, 0, 0)
    assert green.by_score == 1  # the crop's score for red is the highest of all
    assert red.overlaps == (1.0,)
    assert green.overlaps == (0.0,)


def test_without_boxes_the_whole_picture_is_all_there_is() -> None:
    red, green = search(_scene(), [], list(COLOURS), _index(), MeanColour(), padding=0.0)
    assert (red.any_list, red.by_score, red.overlaps) == (red.whole, red.whole, ())
    assert green.true_box == 0


def test_a_wrong_specification_is_an_error_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--detector", '{"kind": "none such"}']) == 2
    assert "there is no model kind 'none such'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["--detector", "{"])
    assert stopped.value.code == 2 and "argument --detector: Invalid JSON" in capsys.readouterr().err
