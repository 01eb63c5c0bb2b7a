"""The detector of the embedded profile: salient objects by inner feature maps of the image classifier.

No package carries weights of a detector that knows phrases, so every salient object is boxed, whatever it is called:
activations of two inner blocks of EfficientNet-Lite2, and colours, are compared with the picture's border; regions that
stand out become boxes. Phrases only change the order, by the classifier's own names for the things in the boxes; no box carries one.

The border of a photograph is mostly background (the boundary prior of Wei et al., "Geodesic saliency using background
priors", ECCV 2012); features of a network tell objects from textured ground better than colours do, and both together best.
"""

from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
from PIL import Image

from agents.models.base import Box, Detection, FloatArray, TextEncoder
from agents.models.pixels import to_rgb
from agents.models.vision.box_proposals import propose
from agents.models.vision.boxes import crop, pad, suppress
from agents.models.vision.efficientnet import STRIDE, EfficientNetLite2

BLOCKS = (4, 7)
"""MBConv blocks whose maps are used, strides 8 and 16: deeper ones are too coarse for boxes, earlier ones see edges only."""

JUST_VISIBLE = 2.3  # smallest difference in CIELAB that an eye notices (Mahy, Van Eycken and Oosterlinck 1994)
ANYTHING = "object"  # phrase of every detection: none was found by a name


MAX_BOXES, MAX_OVERLAP = 6, 0.5  # boxes of an image; of boxes that overlap more than this (IoU) the best-scored stays
LONG_SIDE = 512  # longer side of the network's input in pixels

BONUS, LABELS = 0.5, 3
"""A box whose class names (so many, likeliest first) are as close to a phrase as can be (cosine 1) has its score multiplied by
1 + ``BONUS``."""

DARK, BRIGHT = 5.0, 99.0  # percentiles of a map that become 0 and 1: a few odd cells do not set the scale

MIN_DEVIATION = 1e-3
"""Added to a channel's standard deviation, so that a flat channel says nothing rather than anything."""


SKIPPED, COUNTED = 0.02, 0.05
"""Shares of the border cells: the most alike to a cell, left out as possibly the object itself where it touches the border, and the next
ones, whose distances are averaged. Tuned on the validation scenes of the mini set."""


class SalientObjectDetector:
    """A ``Detector`` without class list: up to ``MAX_BOXES`` salient regions, best first; phrases count only with an ``encoder``."""

    def __init__(self, network: EfficientNetLite2, encoder: TextEncoder | None = None) -> None:
        self.name = f"saliency({network.name})"
        self._network, self._encoder = network, encoder

    def detect(self, images: Sequence[Image.Image], phrases: Sequence[Sequence[str]]) -> list[list[Detection]]:
        """Detect objects; see ``Detector.detect``. Boxes are in pixels of the upright image, scores in 0..1 + ``BONUS``.

        A picture without any contrast has no boxes. Phrases drop nothing: boxes that look like one come first. The ``phrase`` of every box
        is ``ANYTHING``, because the nearest of several phrases is mostly another thing's (16 of 36 right on validation).

        Raises:
            ValueError: An image cannot be decoded, or the lists differ in length.
        """
        if len(images) != len(phrases):
            raise ValueError(f"{len(images)} images, but {len(phrases)} lists of phrases")
        upright = [to_rgb(image) for image in images]
        maps = self._maps(upright)
        detections = [self._salient(image, own) for image, own in zip(upright, maps, strict=True)]
        return self._reorder(upright, detections, phrases)

    def _maps(self, images: Sequence[Image.Image]) -> list[tuple[FloatArray, ...]]:
        """Feature maps of each image; images of like proportions share a pass."""
        sizes: dict[tuple[int, int], list[int]] = {}
        for row, image in enumerate(images):
            sizes.setdefault(_input_size(image), []).append(row)
        maps: dict[int, tuple[FloatArray, ...]] = {}
        for size, rows in sizes.items():
            batch_maps = self._network.stage_maps([images[row] for row in rows], size, BLOCKS)
            maps.update(zip(rows, batch_maps, strict=True))
        return [maps[row] for row in range(len(images))]

    def _salient(self, image: Image.Image, maps: tuple[FloatArray, ...]) -> list[Detection]:
        _, height, width = maps[0].shape
        shades = colours(image, height, width)
        if np.ptp(shades, axis=(1, 2)).max() < JUST_VISIBLE:
            return []  # the rest would be the network's own padding at the border
        values = saliency([*maps, shades], 2 * height, 2 * width)
        across, down = image.width / values.shape[1], image.height / values.shape[0]
        everything = [
            Detection(Box(box.left * across, box.top * down, box.right * across, box.bottom * down), ANYTHING, score)
            for box, score in propose(values)
        ]
        return suppress(everything, MAX_OVERLAP)[:MAX_BOXES]

    def _reorder(
        self, images: Sequence[Image.Image], all_detections: list[list[Detection]], phrases: Sequence[Sequence[str]]
    ) -> list[list[Detection]]:
        """Raise the score of each detection by its closeness to the closest phrase, and sort the detections anew.

        All crops go through the network in one pass. Images without phrases keep their detections.
        """
        if self._encoder is None:
            return all_detections
        concerned = [
            (row, detection)
            for row, detections in enumerate(all_detections)
            if phrases[row]
            for detection in detections
        ]
        if not concerned:
            return all_detections
        crops = [crop(images[row], pad(candidate.box, 0.05, *images[row].size)) for row, candidate in concerned]
        labels = self._network.recognise(crops, k=LABELS)
        names = [label.name for named in labels for label in named]
        words = list(dict.fromkeys(names + [phrase for row, _ in concerned for phrase in phrases[row]]))
        vectors = dict(zip(words, self._encoder.encode(words), strict=True))
        rescored: dict[int, list[Detection]] = {row: [] for row, _ in concerned}
        for (row, candidate), named in zip(concerned, labels, strict=True):
            classes = np.stack([vectors[label.name] for label in named])
            closeness = max(float((classes @ vectors[phrase]).max()) for phrase in phrases[row])
            score = candidate.score * (1.0 + BONUS * max(0.0, closeness))
            rescored[row].append(replace(candidate, score=score))
        return [
            sorted(rescored[row], key=lambda candidate: -candidate.score) if row in rescored else detections
            for row, detections in enumerate(all_detections)
        ]


def _input_size(image: Image.Image) -> tuple[int, int]:
    """Return width and height of the network's input: the image's proportions, rounded to multiples of 32."""
    scale = LONG_SIDE / max(image.size)
    # Two cells of the coarsest map at least, or there would be no inside.
    width, height = (max(4 * STRIDE, round(side * scale / STRIDE) * STRIDE) for side in image.size)
    return width, height


def border_contrast(features: FloatArray) -> FloatArray:
    """Root mean square distance per channel of each cell to the border cells that are most like it, shape (height, width).

    ``features`` have shape (channels, height, width); each channel is standardised over the map first. 0 for a map without any contrast.
    """
    channels, height, width = features.shape
    cells = features.reshape(channels, -1).astype(np.float32)
    cells = (cells - cells.mean(axis=1, keepdims=True)) / (cells.std(axis=1, keepdims=True) + MIN_DEVIATION)
    at_border = np.ones((height, width), dtype=bool)
    at_border[1:-1, 1:-1] = False
    border = cells[:, at_border.ravel()]
    squared = (cells**2).sum(axis=0)[:, None] + (border**2).sum(axis=0)[None, :] - 2.0 * (cells.T @ border)
    first = min(int(SKIPPED * border.shape[1]) or 1, border.shape[1] - 1)
    last = min(first + max(1, int(COUNTED * border.shape[1])), border.shape[1])
    nearest = np.partition(np.maximum(squared, 0.0), last - 1, axis=1)[:, :last]
    nearest.sort(axis=1)
    distance: FloatArray = np.sqrt(nearest[:, first:] / channels).mean(axis=1).astype(np.float32)
    return distance.reshape(height, width)


def spread(values: FloatArray) -> FloatArray:
    """Stretch a map to 0..1 between two of its percentiles.

    Returns:
        The stretched map, or all 0 if the percentiles hardly differ.
    """
    low, high = np.percentile(values, [DARK, BRIGHT])
    if high - low < MIN_DEVIATION:
        return np.zeros_like(values)
    stretched: FloatArray = np.clip((values - low) / (high - low), 0.0, 1.0).astype(np.float32)
    return stretched


def colours(image: Image.Image, height: int, width: int) -> FloatArray:
    """CIELAB colours of an RGB image, averaged over the cells of a grid, shape (3, height, width)."""
    cells = np.asarray(image.resize((width, height), Image.Resampling.BOX, reducing_gap=3.0), dtype=np.float32) / 255.0
    lab_colours: FloatArray = np.asarray(cv2.cvtColor(cells, cv2.COLOR_RGB2LAB), dtype=np.float32).transpose(2, 0, 1)
    return lab_colours


def saliency(maps: Sequence[FloatArray], height: int, width: int) -> FloatArray:
    """Mean border contrast of several feature maps, each spread to 0..1, on a grid of ``height`` x ``width`` cells."""
    total = np.zeros((height, width), dtype=np.float32)
    for features in maps:
        contrast = spread(border_contrast(features))
        total += cv2.resize(contrast, (width, height), interpolation=cv2.INTER_LINEAR)
    total /= max(1, len(maps))
    return total
