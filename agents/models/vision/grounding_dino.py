"""Grounding DINO through transformers: boxes for phrases (Liu et al., ECCV 2024), QA-Dragon's detector (section 3.4.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from PIL import Image

from agents.models.base import Box, Detection
from agents.models.pixels import to_rgb
from agents.models.pretrained import Pretrained

BOX_THRESHOLD, TEXT_THRESHOLD = 0.35, 0.25
"""Lowest scores of a box's best token, and of the tokens that name it (the authors' own demo, github.com/IDEA-Research/GroundingDINO)."""

ANYTHING = "object"  # what is asked for where no phrase is given


@dataclass(kw_only=True, eq=False)
class GroundingDinoDetector(Pretrained):
    """A ``Detector``; all boxes of a phrase that reach the thresholds are kept."""

    batch_size: int = 8
    box_threshold: float = BOX_THRESHOLD  # lowest score of a box's best token, 0 to 1
    text_threshold: float = TEXT_THRESHOLD  # lowest score of a token that names a box, 0 to 1

    def detect(self, images: Sequence[Image.Image], phrases: Sequence[Sequence[str]]) -> list[list[Detection]]:
        """Detect phrases in images; see ``Detector.detect``. Boxes are in pixels of the upright image and clipped to it.

        ``Detection.phrase`` is the phrase that contains the words which the model found in the box, or these words if they belong to none.

        Raises:
            ValueError: An image cannot be decoded, or the lists differ in length.
        """
        if len(images) != len(phrases):
            raise ValueError(f"{len(images)} images, but {len(phrases)} lists of phrases")
        upright = [to_rgb(image) for image in images]
        clean_phrases = [[clean for phrase in own if (clean := plain(phrase))] or [ANYTHING] for own in phrases]
        detections_by_row: dict[int, list[Detection]] = {}
        for rows in self.passes([image.width / image.height for image in upright]):  # of like proportions
            detections = self._pass([upright[row] for row in rows], [clean_phrases[row] for row in rows])
            detections_by_row.update(zip(rows, detections, strict=True))
        return [detections_by_row[row] for row in range(len(upright))]

    def _pass(self, images: Sequence[Image.Image], phrases: Sequence[Sequence[str]]) -> list[list[Detection]]:
        processor, model = self._loaded
        limit = int(model.config.max_text_len)
        inputs = processor(
            images=list(images),
            text=[caption(own) for own in phrases],
            padding=True,
            truncation=True,
            max_length=limit,
            return_tensors="pt",
        ).to(self.device)
        inputs["pixel_values"] = inputs["pixel_values"].to(self.torch_dtype)
        with torch.inference_mode():
            outputs = model(**inputs)
        outputs.logits, outputs.pred_boxes = outputs.logits.float(), outputs.pred_boxes.float()
        results = processor.post_process_grounded_object_detection(
            outputs,
            inputs["input_ids"],
            threshold=self.box_threshold,
            text_threshold=self.text_threshold,
            target_sizes=[(image.height, image.width) for image in images],
        )
        return [
            _detections(result, own, image.size) for result, own, image in zip(results, phrases, images, strict=True)
        ]

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        return self.load("detector", "AutoProcessor", "AutoModelForZeroShotObjectDetection")


def plain(phrase: str) -> str:
    """Normalise a phrase for a caption: lower case, single spaces, no full stops.

    Full stops separate the phrases of a caption.
    """
    return " ".join(phrase.lower().replace(".", " ").split())


def caption(phrases: Sequence[str]) -> str:
    """Join phrases in the format that the model was trained with: ``red car . tower .``."""
    return " . ".join(dict.fromkeys(phrases)) + " ."


def _detections(result: Any, phrases: Sequence[str], size: tuple[int, int]) -> list[Detection]:
    """Convert the model's result for one image to detections, best first.

    Boxes that have no area after clipping are dropped.
    """
    width, height = size
    detections = []
    for corners, score, words in zip(
        result["boxes"].tolist(), result["scores"].tolist(), result["text_labels"], strict=True
    ):
        left, right = (min(max(side, 0.0), float(width)) for side in corners[::2])
        top, bottom = (min(max(side, 0.0), float(height)) for side in corners[1::2])
        box = Box(left, top, right, bottom)
        if box.area > 0:
            detections.append(Detection(box, _phrase(words, phrases), score))
    return sorted(detections, key=lambda detection: -detection.score)


def _phrase(words: str, phrases: Sequence[str]) -> str:
    """Return the phrase that shares most words with the model's name for a box.

    Returns:
        On a tie the earlier phrase. If no phrase shares a word, the model's name. If the model named nothing, the
        only phrase, or ``ANYTHING`` if there are several.
    """
    named = set(plain(words).split())
    shared = [len(named & set(phrase.split())) for phrase in phrases]
    best = max(range(len(phrases)), key=lambda row: shared[row])
    if shared[best]:
        return phrases[best]
    return plain(words) or (phrases[0] if len(phrases) == 1 else ANYTHING)
