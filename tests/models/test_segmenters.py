"""The two segmenters: GrabCut on pictures drawn here, Segment Anything on a tiny random checkpoint whose masks mean nothing."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from transformers import SamModel, SamProcessor

from agents.models.base import Box, Detection, Mask, ModelError, Segmenter
from agents.models.vision.boxes import cut_out
from agents.models.vision.grab_cut import GrabCutSegmenter
from agents.models.vision.sam import SamSegmenter
from tests.models.tiny_rankers import save_sam

DISC, BOX = (120, 60, 220, 160), Box(110, 50, 230, 170)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_sam(tmp_path_factory.mktemp("sam"))


def _disc(size: tuple[int, int] = (320, 240)) -> Image.Image:
    """A red disc on green noise."""
    noise = np.random.default_rng(0).integers(0, 40, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(noise + np.array([20, 120, 20], dtype=np.uint8))
    ImageDraw.Draw(image).ellipse(DISC, fill=(220, 30, 30))
    return image


def _true(size: tuple[int, int] = (320, 240)) -> Mask:
    mask = Image.new("1", size)
    ImageDraw.Draw(mask).ellipse(DISC, fill=1)
    return np.asarray(mask)


def _overlap(one: Mask, other: Mask) -> float:
    return float((one & other).sum() / (one | other).sum())


def test_the_object_is_told_from_its_ground() -> None:
    segmenter = GrabCutSegmenter()
    assert isinstance(segmenter, Segmenter)
    ((mask,),) = segmenter.segment([_disc()], [[BOX]])
    assert mask.dtype == np.bool_ and mask.shape == (240, 320)
    assert _overlap(mask, _true()) > 0.9


def test_masks_do_not_depend_on_the_batch_and_keep_its_order() -> None:
    images = [_disc(), _disc((300, 200)), _disc((500, 400))]
    boxes = [[BOX, Box(0, 0, 40, 40)], [], [BOX]]
    together = GrabCutSegmenter().segment(images, boxes)
    assert [[mask.shape for mask in own] for own in together] == [[(240, 320)] * 2, [], [(400, 500)]]
    alone = [
        GrabCutSegmenter().segment([image], [[box]])[0][0]
        for image, own in zip(images, boxes, strict=True)
        for box in own
    ]
    for mask, again in zip([mask for own in together for mask in own], alone, strict=True):
        np.testing.assert_array_equal(mask, again)


@pytest.mark.parametrize(
    "box", [Box(0, 0, 320, 240), Box(0, 0, 1, 1), Box(319, 239, 320, 240), Box(0, 100, 320, 102), Box(5, 5, 5, 5)]
)
def test_odd_boxes_give_masks(box: Box) -> None:
    for image in (_disc(), Image.new("RGB", (320, 240), (90, 90, 90))):
        ((mask,),) = GrabCutSegmenter().segment([image], [[box]])
        assert mask.shape == (240, 320)


def test_in_a_picture_of_one_colour_there_is_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lens that is covered: OpenCV took half a minute to find nothing."""
    monkeypatch.setattr(cv2, "grabCut", lambda *_: pytest.fail("cut"))
    ((mask,),) = GrabCutSegmenter().segment([Image.new("RGB", (960, 1280))], [[Box(0, 0, 960, 1280)]])
    assert mask.shape == (1280, 960) and not mask.any()


def test_a_turned_photo_is_segmented_upright() -> None:
    turned = _disc()
    turned.getexif()[0x0112] = 6
    ((mask,),) = GrabCutSegmenter().segment([turned], [[Box(10, 10, 200, 200)]])
    assert mask.shape == (320, 240)


def test_only_the_object_is_cut_out_and_an_empty_mask_cuts_nothing() -> None:
    image = _disc()
    assert cut_out(image, Detection(BOX, "disc", 1.0)).tobytes() == image.crop((110, 50, 230, 170)).tobytes()
    cutout = cut_out(image, Detection(BOX, "disc", 1.0, _true()))
    assert cutout.size == (120, 120)
    assert (cutout.getpixel((0, 0)), cutout.getpixel((60, 60))) == ((128, 128, 128), (220, 30, 30))
    nothing = Detection(BOX, "disc", 1.0, np.zeros((240, 320), dtype=np.bool_))
    assert cut_out(image, nothing).tobytes() == image.crop((110, 50, 230, 170)).tobytes()


def test_masks_are_those_of_the_model_in_pixels_of_the_image(checkpoint: Path) -> None:
    segmenter = SamSegmenter(checkpoint)
    assert isinstance(segmenter, Segmenter)
    image, boxes = _disc(), [BOX, Box(0, 0, 60, 80)]
    (masks,) = segmenter.segment([image], [boxes])
    model, processor = SamModel.from_pretrained(checkpoint).eval(), SamProcessor.from_pretrained(checkpoint)
    for mask, box in zip(masks, boxes, strict=True):
        inputs = processor(image, input_boxes=[[[box.left, box.top, box.right, box.bottom]]], return_tensors="pt")
        sizes = inputs.pop("original_sizes"), inputs.pop("reshaped_input_sizes")
        with torch.no_grad():
            outputs = model(**{name: value.float() for name, value in inputs.items()}, multimask_output=False)
        expected = processor.post_process_masks(outputs.pred_masks, *sizes)[0][0, 0].numpy()
        assert mask.dtype == np.bool_ and mask.shape == (240, 320)
        assert 0 < expected.mean() < 1
        assert (mask == expected).mean() > 0.999


def test_a_batch_of_images_with_different_numbers_of_boxes_keeps_its_order(checkpoint: Path) -> None:
    images, boxes = [_disc(), _disc((300, 200)), _disc((400, 300))], [[BOX], [], [Box(0, 0, 50, 50), BOX, BOX]]
    segmenter = SamSegmenter(checkpoint, batch_size=2)
    masks = segmenter.segment(images, boxes)
    assert [[mask.shape for mask in own] for own in masks] == [[(240, 320)], [], [(300, 400)] * 3]
    np.testing.assert_array_equal(masks[2][1], masks[2][2])
    for row in (0, 2):
        (alone,) = segmenter.segment([images[row]], [boxes[row]])
        assert all((mask == again).mean() > 0.999 for mask, again in zip(masks[row], alone, strict=True))


def test_bad_input_is_named(tmp_path: Path, checkpoint: Path) -> None:
    for segmenter in (GrabCutSegmenter(), SamSegmenter(checkpoint)):
        assert segmenter.segment([], []) == []
        with pytest.raises(ValueError, match="1 images, but 0 lists"):
            segmenter.segment([_disc()], [])
    with pytest.raises(ModelError, match="Cannot load segmenter"):
        SamSegmenter(tmp_path).segment([_disc()], [[BOX]])
