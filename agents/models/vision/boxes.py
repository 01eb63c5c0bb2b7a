"""Boxes around objects: padded, clipped, without duplicates, and cut out at full resolution, with their ground or without."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from PIL import Image

from agents.models.base import Box, Detection
from agents.models.pixels import GROUND

_MIN_SHARE = 0.1  # of a box; a mask of less is taken for a failure


def overlap(one: Box, other: Box) -> float:
    """Intersection over union of two boxes, 0 to 1."""
    shared = _intersect(one, other).area
    return shared / (one.area + other.area - shared) if shared else 0.0


def share_inside(inner: Box, outer: Box) -> float:
    """Return the share of a box's area that another box covers, 0 to 1."""
    shared = _intersect(inner, outer).area
    return shared / inner.area if shared else 0.0


def _intersect(one: Box, other: Box) -> Box:
    """Return the box that two boxes share; it has no area if they share none."""
    return Box(
        max(one.left, other.left),
        max(one.top, other.top),
        min(one.right, other.right),
        min(one.bottom, other.bottom),
    )


def pad(box: Box, fraction: float, width: int, height: int) -> Box:
    """Grow a box on each side by a fraction of its own sides.

    Returns:
        The box clipped to an image of ``width`` x ``height`` pixels.
    """
    across, down = fraction * (box.right - box.left), fraction * (box.bottom - box.top)
    return Box(
        min(max(0.0, box.left - across), float(width)),
        min(max(0.0, box.top - down), float(height)),
        max(0.0, min(float(width), box.right + across)),
        max(0.0, min(float(height), box.bottom + down)),
    )


def scale(box: Box, across: float, down: float) -> Box:
    """Convert a box to the pixels of an image that is ``across`` times as wide and ``down`` times as high."""
    return Box(box.left * across, box.top * down, box.right * across, box.bottom * down)


def suppress(detections: Sequence[Detection], max_overlap: float) -> list[Detection]:
    """Greedy non-maximum suppression: of boxes that overlap more than ``max_overlap`` (IoU) only the best-scored stays."""
    selection: list[Detection] = []
    for detection in sorted(detections, key=lambda item: -item.score):
        if all(overlap(detection.box, other.box) <= max_overlap for other in selection):
            selection.append(detection)
    return selection


_STRIDES = (0.9, 0.8, 0.7, 0.6)  # of a side, from one window to the next


def windows(width: int, height: int) -> list[Box]:
    """Squares of an image's shorter side along its longer one, each once (task 2's winner, NVIDIA).

    At both ends, in the middle, and at every 0.9, 0.8, 0.7 and 0.6 sides from the beginning. None in a square image.
    """
    side, way = min(width, height), abs(width - height)
    places = [0, way // 2, way]
    for stride in _STRIDES:
        places += range(0, way + 1, max(1, int(side * stride)))
    lefts_and_tops = [(0, at) if height > width else (at, 0) for at in dict.fromkeys(places)] if way else []
    return [Box(left, top, left + side, top + side) for left, top in lefts_and_tops]


def usable(
    detections: Sequence[Detection],
    width: int,
    height: int,
    *,
    padding: float,  # fraction of its sides by which a box is grown on each side
    max_overlap: float,  # IoU above which two boxes are one
    min_side: int,  # pixels; boxes with a shorter side are dropped
    max_area: float,  # of the image; larger boxes are dropped: the whole image is searched anyway
    limit: int,  # boxes kept
    min_area: float = 0.0,  # of the image; smaller boxes are dropped
) -> list[Detection]:
    """Select the boxes that are worth a search of their own, best first.

    Detections are in pixels of an image of ``width`` x ``height``.
    """
    padded = [replace(detection, box=pad(detection.box, padding, width, height)) for detection in detections]
    fitting = [
        detection
        for detection in padded
        if min(detection.box.right - detection.box.left, detection.box.bottom - detection.box.top) >= min_side
        and min_area * width * height <= detection.box.area <= max_area * width * height
    ]
    return suppress(fitting, max_overlap)[:limit]


def corners(box: Box) -> tuple[int, int, int, int]:
    """Round a box to whole pixels, at least one: left, top, right, bottom.

    Right and bottom are exclusive.
    """
    left, top = int(box.left), int(box.top)
    return left, top, max(left + 1, round(box.right)), max(top + 1, round(box.bottom))


def crop(image: Image.Image, box: Box) -> Image.Image:
    """Crop a box out of an image, at the image's resolution and at least one pixel large."""
    return image.crop(corners(box))


def cut_out(image: Image.Image, detection: Detection) -> Image.Image:
    """Crop a detection's box and paint everything but the object grey.

    Without a mask, or with one that covers too little of the box, the crop stays as it is. The mask may be that of a smaller copy of the
    image; it is scaled to the crop.
    """
    plain = crop(image, detection.box)
    if detection.mask is None:
        return plain
    height, width = detection.mask.shape
    left, top, right, bottom = corners(scale(detection.box, width / image.width, height / image.height))
    inside = detection.mask[top:bottom, left:right]
    if inside.mean() < _MIN_SHARE:
        return plain
    outline = Image.fromarray(inside.astype(np.uint8) * 255).resize(plain.size, Image.Resampling.NEAREST)
    return Image.composite(plain, Image.new("RGB", plain.size, GROUND), outline)
