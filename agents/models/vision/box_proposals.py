"""Boxes around the bright parts of a saliency map: connected regions over many thresholds, scored by contrast and stability."""

from collections.abc import Iterator

import cv2
import numpy as np
import numpy.typing as npt

from agents.models.base import Box, FloatArray

IntArray = npt.NDArray[np.int64]


THRESHOLDS = 16
"""Levels between ``LOWEST`` and ``HIGHEST`` at which a map (0 to 1) is cut. This and the next eight: tuned on the validation scenes of
the mini set."""
LOWEST, HIGHEST = 0.15, 0.85
MIN_AREA, MAX_AREA = 0.01, 0.7  # boxes outside this range of shares of the map are dropped
RING = 0.15  # width of the surroundings that a box is compared with, as a fraction of its sides
SAME = 0.8
"""IoU from which boxes of different thresholds count as one; the more there are, the more stable the box is (the idea of maximally
stable extremal regions, Matas et al., BMVC 2002)."""
STABILITY, SIZE = 0.5, 0.3  # exponents of the share of thresholds at which a box is found, and of its share of the map


def propose(saliency: FloatArray) -> list[tuple[Box, float]]:
    """Propose boxes in a saliency map (values 0 to 1), in cells, with scores 0 to 1, best first; many overlap."""
    boxes = np.array(list(_regions(saliency)), dtype=np.int64).reshape(-1, 4)
    if not len(boxes):
        return []
    areas = _areas(boxes)
    stable = (pairwise_overlap(boxes) >= SAME).sum(axis=1) / THRESHOLDS
    contrast = np.clip(_contrast(saliency, boxes), 0.0, 1.0)
    # A region with an inner twin can be found twice at one threshold, hence the bound.
    scores = contrast * np.minimum(stable, 1.0) ** STABILITY * (areas / saliency.size) ** SIZE
    order = np.argsort(-scores, kind="stable")
    return [(Box(*boxes[row].tolist()), float(scores[row])) for row in order if scores[row] > 0]


def _regions(saliency: FloatArray) -> Iterator[tuple[int, int, int, int]]:
    """Yield the bounding boxes of the connected regions at each threshold. A region includes its holes, as a frame does."""
    for threshold in np.linspace(LOWEST, HIGHEST, THRESHOLDS):
        mask = (saliency > threshold).astype(np.uint8)
        outlines, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        cv2.drawContours(mask, outlines, -1, 1, cv2.FILLED)
        # Neighbours by an edge only: things that touch at a corner are apart.
        _, _, statistics, _ = cv2.connectedComponentsWithStats(mask, connectivity=4)
        for left, top, width, height in statistics[1:, :4].tolist():
            if MIN_AREA <= width * height / saliency.size <= MAX_AREA:
                yield left, top, left + width, top + height


def pairwise_overlap(boxes: IntArray) -> npt.NDArray[np.float64]:
    """Intersection over union of all pairs of non-empty boxes (left, top, right, bottom), shape (n, n)."""
    corners = boxes.astype(np.float64)
    starts = np.maximum(corners[:, None, :2], corners[None, :, :2])
    ends = np.minimum(corners[:, None, 2:], corners[None, :, 2:])
    shared = np.clip(ends - starts, 0.0, None).prod(axis=2)
    areas = (corners[:, 2:] - corners[:, :2]).prod(axis=1)
    overlap: npt.NDArray[np.float64] = shared / (areas[:, None] + areas[None, :] - shared)
    return overlap


def _contrast(saliency: FloatArray, boxes: IntArray) -> npt.NDArray[np.float64]:
    """Mean saliency inside each box less that of the ring around it; 0 for a box with nothing around it."""
    table = np.pad(saliency.astype(np.float64).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    height, width = saliency.shape
    margins = np.maximum(2, (RING * (boxes[:, 2:] - boxes[:, :2])).astype(np.int64))
    outer = np.concatenate(
        [np.maximum(boxes[:, :2] - margins, 0), np.minimum(boxes[:, 2:] + margins, (width, height))], axis=1
    )
    inner_sum, outer_sum = _sums(table, boxes), _sums(table, outer)
    inner_area, outer_area = _areas(boxes), _areas(outer)
    around = np.where(outer_area > inner_area, (outer_sum - inner_sum) / np.maximum(outer_area - inner_area, 1), np.inf)
    contrast: npt.NDArray[np.float64] = np.where(np.isinf(around), 0.0, inner_sum / inner_area - around)
    return contrast


def _areas(boxes: IntArray) -> IntArray:
    areas: IntArray = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return areas


def _sums(table: npt.NDArray[np.float64], boxes: IntArray) -> npt.NDArray[np.float64]:
    """Sum over each box with a summed-area table that has a leading row and column of zeros."""
    left, top, right, bottom = boxes.T
    sums: npt.NDArray[np.float64] = table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]
    return sums
