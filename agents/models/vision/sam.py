"""Segment Anything through transformers: masks of the things in boxes (Kirillov et al., ICCV 2023)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from PIL import Image

from agents.models.base import Box, Mask
from agents.models.pixels import to_rgb
from agents.models.pretrained import Pretrained


@dataclass(kw_only=True, eq=False)
class SamSegmenter(Pretrained):
    """A ``Segmenter``; ``batch_size`` images in one pass, each with all of its boxes, one mask a box.

    In bfloat16 the corners of boxes would be rounded to a two hundredth of the image's side, hence float32 by default.
    """

    batch_size: int = 4

    def segment(self, images: Sequence[Image.Image], boxes: Sequence[Sequence[Box]]) -> list[list[Mask]]:
        """Segment with SAM; see ``Segmenter.segment``.

        Raises:
            ValueError: The lists differ in length, or an image cannot be decoded.
        """
        if len(images) != len(boxes):
            raise ValueError(f"{len(images)} images, but {len(boxes)} lists of boxes")
        masks_by_image: list[list[Mask]] = [[] for _ in boxes]
        nonempty_rows = [row for row, own in enumerate(boxes) if own]
        # Images with about as many boxes share a pass: the model takes the same number for each.
        for places in self.passes([len(boxes[row]) for row in nonempty_rows]):
            rows = [nonempty_rows[place] for place in places]
            masks = self._pass([to_rgb(images[row]) for row in rows], [boxes[row] for row in rows])
            for row, own in zip(rows, masks, strict=True):
                masks_by_image[row] = own
        return masks_by_image

    def _pass(self, images: Sequence[Image.Image], boxes: Sequence[Sequence[Box]]) -> list[list[Mask]]:
        processor, model = self._loaded
        most = max(len(own) for own in boxes)
        filled = [[*own, *[own[-1]] * (most - len(own))] for own in boxes]
        sides = [[[box.left, box.top, box.right, box.bottom] for box in own] for own in filled]
        inputs = processor(images=list(images), input_boxes=sides, return_tensors="pt")
        model_inputs = {
            name: inputs[name].to(self.device, self.torch_dtype) for name in ("pixel_values", "input_boxes")
        }
        with torch.inference_mode():
            outputs = model(**model_inputs, multimask_output=False)  # a box says which object is meant
        masks = processor.post_process_masks(
            outputs.pred_masks.float().cpu(), inputs["original_sizes"], inputs["reshaped_input_sizes"]
        )
        return [
            [mask[0].numpy() for mask in image_masks[: len(own)]] for image_masks, own in zip(masks, boxes, strict=True)
        ]

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        return self.load("segmenter", "SamProcessor", "SamModel")
