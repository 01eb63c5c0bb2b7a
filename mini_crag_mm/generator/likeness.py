"""Similarity of the objects of a scene to the graph's photographs of them.

A scene is composed so that it is no higher than that of two photographs by different cameras. The measure is the cosine of
EfficientNet-Lite2's plain features of the thing's own crop and of the graph's photograph. Image search changes these features
(``agents.models.vision.object_embedding``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from mini_crag_mm.content_models import Scene
from mini_crag_mm.generator.compose import Layout, set_up, take
from mini_crag_mm.generator.noise import make_generator
from mini_crag_mm.loader import INDEX_MARGIN, SetPaths, flatten_photo

if TYPE_CHECKING:
    from agents.models.base import ImageEncoder

# Cosines of other photographs of 53 entities of the set, measured with that encoder: 0.33 to 0.69.
OTHER_PHOTOS = (0.33, 0.69)
# No copy is shown as the graph has it, not even where the scene alone makes it unlike.
MIN_STRENGTH = 0.25
# The usual likeness of a thing in a scene, unaltered and with the strongest change: where the search begins.
USUAL_LIKENESS = ((0.0, 0.9), (1.0, 0.5))
CLOSE_ENOUGH = 0.06
SEARCH_STEPS = 3


@lru_cache(maxsize=1)
def load_embedded_encoder() -> ImageEncoder:
    """Load the image encoder of the embedded profile."""
    import torch

    from agents.models.vision.efficientnet import EfficientNetLite2

    torch.set_num_threads(1)  # scenes are composed in one process a core
    return EfficientNetLite2()


def draw_target_cosine(seed: str) -> float:
    """Draw the target cosine of a copy: uniform over the range of other photographs, fixed by the seed."""
    return float(make_generator(f"{seed}/target").uniform(*OTHER_PHOTOS))


def estimate_next_strength(tried: Sequence[tuple[float, float]], target: float) -> float:
    """Estimate the strength that reaches `target`, in bounds.

    A line goes through the two pairs of (strength, cosine) that are nearest to it.
    """
    nearest = sorted(tried, key=lambda pair: abs(pair[1] - target))
    (one, at_one), (other, at_other) = nearest[0], nearest[min(1, len(nearest) - 1)]
    slope = (at_other - at_one) / (other - one) if other != one else 0.0
    # Likeness falls with strength; where two samples say otherwise, a usual slope takes their place.
    step = (target - at_one) / min(slope, -0.3)
    return float(np.clip(one + step, MIN_STRENGTH, 1.0))


def compose_alike(scene: Scene, paths: SetPaths, encoder: ImageEncoder | None = None) -> tuple[Image.Image, Layout]:
    """Compose a scene with copies altered until their cosines come near to their targets.

    The secant method serves all copies at once. The layout gives each object's `cosine`, and the `target` of a copy.

    Raises:
        ComposeError: A photo is missing.
    """
    studio = set_up(scene, paths)
    subjects = studio.subjects
    if not subjects:
        return take(studio, [])
    encoder = encoder or load_embedded_encoder()
    graph = []
    for subject in subjects:
        with Image.open(paths.photos / f"{subject.entity}.webp") as photo:
            graph.append(flatten_photo(photo, INDEX_MARGIN))
    references = encoder.encode(graph)
    targets = [draw_target_cosine(subject.seed) for subject in subjects]
    tried: list[list[tuple[float, float]]] = [[] for _ in subjects]

    def photograph(strengths: list[float]) -> tuple[Image.Image, Layout]:
        picture, layout = take(studio, strengths)
        boxes = [thing["box"] for thing in layout.objects]
        things = [picture.crop((left, top, left + wide, top + high)) for left, top, wide, high in boxes]
        cosines = np.sum(encoder.encode(things) * references, axis=1)
        for thing, pairs, strength, cosine in zip(layout.objects, tried, strengths, cosines, strict=True):
            thing["cosine"] = round(float(cosine), 3)
            pairs.append((strength, float(cosine)))
        return picture, layout

    strengths: list[float] = []
    for _ in range(SEARCH_STEPS):
        next_strengths = [
            estimate_next_strength(pairs or USUAL_LIKENESS, target) if subject.same_photo else 0.0
            for subject, pairs, target in zip(subjects, tried, targets, strict=True)
        ]
        if strengths and all(
            new == old or abs(pairs[-1][1] - target) <= CLOSE_ENOUGH
            for new, old, pairs, target in zip(next_strengths, strengths, tried, targets, strict=True)
        ):
            break
        strengths = next_strengths
        picture, layout = photograph(strengths)
    best = [min(pairs, key=lambda pair: abs(pair[1] - target))[0] for pairs, target in zip(tried, targets, strict=True)]
    if best != strengths:
        picture, layout = photograph(best)
    for thing, subject, target in zip(layout.objects, subjects, targets, strict=True):
        if subject.same_photo:
            thing["target"] = round(target, 3)
    return picture, layout
