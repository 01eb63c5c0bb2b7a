"""Grounding DINO on a tiny random checkpoint: what it finds means nothing, where and how it says so does."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import GroundingDinoForObjectDetection, GroundingDinoProcessor

from agents.models.base import Detection, Detector, ModelError
from agents.models.vision.grounding_dino import ANYTHING, GroundingDinoDetector, caption, plain
from agents.models.vision.grounding_dino import _phrase as phrase_of
from tests.models.tiny_rankers import save_grounding_dino


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_grounding_dino(tmp_path_factory.mktemp("dino"))


@pytest.fixture(scope="module")
def detector(checkpoint: Path) -> GroundingDinoDetector:
    """Thresholds so low that every query of the model becomes a box."""
    return GroundingDinoDetector(checkpoint, box_threshold=0.0, text_threshold=0.0, batch_size=2)


def _picture(seed: int, size: tuple[int, int]) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def _corners(detections: list[Detection]) -> list[tuple[float, float, float, float]]:
    return [
        (detection.box.left, detection.box.top, detection.box.right, detection.box.bottom) for detection in detections
    ]


def test_boxes_are_those_of_the_model_in_pixels_of_the_image(checkpoint: Path, detector: GroundingDinoDetector) -> None:
    assert isinstance(detector, Detector)
    image = _picture(0, (300, 200))
    (detections,) = detector.detect([image], [["red car", "Tower."]])
    model = GroundingDinoForObjectDetection.from_pretrained(checkpoint).eval()
    processor = GroundingDinoProcessor.from_pretrained(checkpoint)
    inputs = processor(images=image, text="red car . tower .", return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs)
    scores = outputs.logits[0].sigmoid().max(dim=-1).values
    order = scores.argsort(descending=True)
    x, y, w, h = (outputs.pred_boxes[0, order] * torch.tensor([300, 200, 300, 200])).unbind(-1)
    expected = torch.stack(
        [(x - w / 2).clamp(0, 300), (y - h / 2).clamp(0, 200), (x + w / 2).clamp(0, 300), (y + h / 2).clamp(0, 200)],
        dim=-1,
    )
    assert len(detections) == 12
    np.testing.assert_allclose(_corners(detections), expected, atol=1e-3)
    np.testing.assert_allclose([detection.score for detection in detections], scores[order], atol=1e-5)
    assert {detection.phrase for detection in detections} <= {"red car", "tower"}


def test_the_box_threshold_drops_weak_boxes(checkpoint: Path, detector: GroundingDinoDetector) -> None:
    image = _picture(0, (120, 90))
    (every,) = detector.detect([image], [["cat"]])
    middle = (every[5].score + every[6].score) / 2
    (strong,) = GroundingDinoDetector(checkpoint, box_threshold=middle, text_threshold=0.0).detect([image], [["cat"]])
    assert len(strong) == 6


def test_a_batch_keeps_its_order_whatever_the_proportions(detector: GroundingDinoDetector) -> None:
    """Padding moves the boxes of a tiny random model a little, so only sizes, counts and phrases are compared."""
    images = [_picture(1, (300, 100)), _picture(2, (64, 64)), _picture(3, (80, 240))]
    all_detections = detector.detect(images, [["cat"], [], ["dog", "tree"]])
    for image, detections in zip(images, all_detections, strict=True):
        assert len(detections) > 6
        assert all(
            0 <= s.box.left < s.box.right <= image.width and 0 <= s.box.top < s.box.bottom <= image.height
            for s in detections
        )
    assert {detection.phrase for detection in all_detections[0]} == {"cat"}
    assert {detection.phrase for detection in all_detections[1]} == {ANYTHING}
    assert {detection.phrase for detection in all_detections[2]} <= {"dog", "tree"}
    alone = detector.detect(images[1:2], [[]])[0]
    again = detector.detect([images[1], images[1]], [[], []])
    for same in again:
        np.testing.assert_allclose(_corners(same), _corners(alone), atol=0.5)


def test_a_turned_palette_picture_is_taken_upright(detector: GroundingDinoDetector) -> None:
    picture = _picture(4, (200, 100))
    picture.getexif()[0x0112] = 6
    (detections,) = detector.detect([picture], [["cat"]])
    assert max(detection.box.bottom for detection in detections) > 100


def test_the_caption_is_in_the_models_format() -> None:
    assert plain("  Red   Car. ") == "red car"
    assert caption(["red car", "tower", "tower"]) == "red car . tower ."


@pytest.mark.parametrize(
    ("words", "phrases", "expected"),
    [
        ("car", ["tower", "red car"], "red car"),
        ("red", ["red car", "red cat"], "red car"),
        ("tower cat", ["tower", "old tower cat"], "old tower cat"),
        ("", ["tower"], "tower"),
        ("", ["tower", "cat"], ANYTHING),
        ("##er", ["tower", "cat"], "##er"),
    ],
)
def test_words_are_led_back_to_phrases(words: str, phrases: list[str], expected: str) -> None:
    assert phrase_of(words, phrases) == expected


def test_very_many_phrases_are_cut_rather_than_refused(detector: GroundingDinoDetector) -> None:
    (detections,) = detector.detect([_picture(0, (64, 64))], [[f"red tower {number}" for number in range(60)]])
    assert detections


def test_bad_input_is_named(detector: GroundingDinoDetector, tmp_path: Path) -> None:
    assert detector.detect([], []) == []
    with pytest.raises(ValueError, match="1 images, but 0 lists"):
        detector.detect([_picture(0, (9, 9))], [])
    with pytest.raises(ModelError, match="Cannot load detector"):
        GroundingDinoDetector(tmp_path).detect([_picture(0, (9, 9))], [[]])
