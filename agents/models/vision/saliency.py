"""How far each part of a picture differs from the picture's border: background models for class-agnostic detection.

The border of a photograph is mostly background (the boundary prior of Wei et al., "Geodesic saliency using background
priors", ECCV 2012); features of a network tell objects from textured ground better than colours do, and both together best.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image

from agents.models.base import FloatArray

DARK, BRIGHT = 5.0, 99.0
"""Percentiles of a map that become 0 and 1: a few odd cells do not set the scale."""

LEAST_DEVIATION = 1e-3
"""Added to a channel's standard deviation, so that a flat channel says nothing rather than anything."""


SKIPPED, COUNTED = 0.02, 0.05
"""Shares of the border cells: the most alike to a cell, left out as possibly the object itself where it touches the border, and the next
ones, whose distances are averaged. Tuned on the validation scenes of the mini set."""


def border_contrast(features: FloatArray) -> FloatArray:
    """Distance of each cell to the border cells that are most like it.

    Args:
        features: Shape (channels, height, width); each channel is standardised over the map first.

    Returns:
        Root mean square distance per channel, shape (height, width); 0 everywhere for a map without any contrast.
    """
    channels, height, width = features.shape
    cells = features.reshape(channels, -1).astype(np.float32)
    cells = (cells - cells.mean(axis=1, keepdims=True)) / (cells.std(axis=1, keepdims=True) + LEAST_DEVIATION)
    border = cells[:, _border(height, width)]
    squared = (cells**2).sum(axis=0)[:, None] + (border**2).sum(axis=0)[None, :] - 2.0 * (cells.T @ border)
    first = min(int(SKIPPED * border.shape[1]) or 1, border.shape[1] - 1)
    last = min(first + max(1, int(COUNTED * border.shape[1])), border.shape[1])
    nearest = np.partition(np.maximum(squared, 0.0), last - 1, axis=1)[:, :last]
    nearest.sort(axis=1)
    distance: FloatArray = np.sqrt(nearest[:, first:] / channels).mean(axis=1).astype(np.float32)
    return distance.reshape(height, width)


def _border(height: int, width: int) -> npt.NDArray[np.bool_]:
    mask = np.ones((height, width), dtype=bool)
    mask[1:-1, 1:-1] = False
    return mask.ravel()


def spread(values: FloatArray) -> FloatArray:
    """The map stretched to 0..1 between two of its percentiles; all 0 where there is nothing to stretch."""
    low, high = np.percentile(values, [DARK, BRIGHT])
    if high - low < LEAST_DEVIATION:
        return np.zeros_like(values)
    stretched: FloatArray = np.clip((values - low) / (high - low), 0.0, 1.0).astype(np.float32)
    return stretched


def colours(image: Image.Image, height: int, width: int) -> FloatArray:
    """CIELAB colours of an RGB image, averaged over the cells of a grid, shape (3, height, width)."""
    cells = np.asarray(image.resize((width, height), Image.Resampling.BOX, reducing_gap=3.0), dtype=np.float32) / 255.0
    found: FloatArray = np.asarray(cv2.cvtColor(cells, cv2.COLOR_RGB2LAB), dtype=np.float32).transpose(2, 0, 1)
    return found


def saliency(maps: Sequence[FloatArray], height: int, width: int) -> FloatArray:
    """Mean border contrast of several feature maps, each spread to 0..1, on a grid of ``height`` x ``width`` cells."""
    total = np.zeros((height, width), dtype=np.float32)
    for features in maps:
        contrast = spread(border_contrast(features))
        total += cv2.resize(contrast, (width, height), interpolation=cv2.INTER_LINEAR)
    total /= max(1, len(maps))
    return total
