"""GrabCut of OpenCV: separates the object in a box from its surroundings by colours (Rother, Kolmogorov and Blake, SIGGRAPH 2004)."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from agents.models.base import Box, Mask
from agents.models.pixels import to_rgb
from agents.models.vision.boxes import corners, pad

# Chosen on the validation scenes of the mini set: lab/notes/retrieval.md.
_SIDE = 240  # longer side in pixels of the scaled surroundings of a box: about 90 ms of processor time
_ROUNDS = 3  # fitting of colours and cutting, each after the other
_AROUND = (
    0.25  # of its sides: how far the surroundings of a box reach, from which the colours of the background are taken
)

_MIN_SIDE = 8  # pixels of the scaled surroundings
_WORKERS = 2  # boxes at once; OpenCV lets go of the interpreter while it works
_MODEL = (1, 65)  # shape in which OpenCV keeps a mixture of five Gaussians

Bytes = npt.NDArray[np.uint8]


class GrabCutSegmenter:
    """A ``Segmenter`` without weights. Everything outside of a box is background."""

    name = "grab-cut"

    def segment(self, images: Sequence[Image.Image], boxes: Sequence[Sequence[Box]]) -> list[list[Mask]]:
        """Segment with GrabCut; see ``Segmenter.segment``.

        Raises:
            ValueError: The lists differ in length, or an image cannot be decoded.
        """
        if len(images) != len(boxes):
            raise ValueError(f"{len(images)} images, but {len(boxes)} lists of boxes")
        pixels = [np.asarray(to_rgb(image)) if own else None for image, own in zip(images, boxes, strict=True)]
        work = [(picture, box) for picture, own in zip(pixels, boxes, strict=True) for box in own]
        with ThreadPoolExecutor(_WORKERS) as pool:
            masks = pool.map(lambda one: _segment(*one), work)
            return [[next(masks) for _ in own] for own in boxes]


def _segment(picture: Bytes, box: Box) -> Mask:
    height, width = picture.shape[:2]
    left, top, right, bottom = corners(pad(box, _AROUND, width, height))
    around = picture[top:bottom, left:right]
    scale = min(1.0, _SIDE / max(around.shape[:2]))
    size = (max(_MIN_SIDE, round((right - left) * scale)), max(_MIN_SIDE, round((bottom - top) * scale)))
    small = cv2.cvtColor(cv2.resize(around, size, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2BGR)
    cells = np.full(small.shape[:2], cv2.GC_BGD, dtype=np.uint8)
    across, down = size[0] / (right - left), size[1] / (bottom - top)
    inner = corners(
        Box((box.left - left) * across, (box.top - top) * down, (box.right - left) * across, (box.bottom - top) * down)
    )
    # A box as large as the image leaves nothing around it: its rim is background then.
    rows, columns = (
        slice(max(1, inner[1]), min(inner[3], size[1] - 1)),
        slice(max(1, inner[0]), min(inner[2], size[0] - 1)),
    )
    cells[rows, columns] = cv2.GC_PR_FGD
    mask = np.zeros((height, width), dtype=np.bool_)
    if (
        np.count_nonzero(cells) == 0 or (small == small[0, 0]).all()
    ):  # one colour tells nothing apart, after half a minute
        return mask
    cv2.setRNGSeed(0)
    cv2.grabCut(
        small, cells, (0, 0, 1, 1), np.zeros(_MODEL), np.zeros(_MODEL), _ROUNDS, cv2.GC_INIT_WITH_MASK
    )  # the rectangle is not looked at
    full = cv2.resize(cells, (right - left, bottom - top), interpolation=cv2.INTER_NEAREST)
    mask[top:bottom, left:right] = full == cv2.GC_PR_FGD
    return mask
