"""How alike a thing of a scene and the graph's photograph of it are, and scenes in which they are no more alike than two
photographs by different cameras.

The measure is the one that image search uses under the embedded profile: the cosine of EfficientNet-Lite2's features of
the thing's own crop and of the graph's photograph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from demo.build.compose import Layout, flattened, set_up, take
from demo.build.content import Scene
from demo.build.kg import INDEX_MARGIN
from demo.build.noise import generator
from demo.build.paths import DemoPaths

# Cosines of other photographs of 53 entities of the set, measured with that encoder: 0.33 to 0.69.
OTHER_PHOTOS = (0.33, 0.69)
# No copy is shown as the graph has it, not even where the scene alone makes it unlike.
LEAST_STRENGTH = 0.25
SEARCH_STEPS = 6


class ImageEncoder(Protocol):
    """Embeddings of images, float32, shape (n, d), each of length 1."""

    def encode(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        """One embedding an image."""


@lru_cache(maxsize=1)
def embedded_encoder() -> ImageEncoder:
    """The image encoder of the embedded profile."""
    import torch

    from agents.models.efficientnet import EfficientNetLite2

    torch.set_num_threads(1)  # scenes are composed in one process a core
    return EfficientNetLite2()


def target_cosine(seed: str) -> float:
    """How alike a copy shall be: uniform over the range of other photographs, fixed by the seed."""
    return float(generator(f"{seed}/target").uniform(*OTHER_PHOTOS))


def crops(picture: Image.Image, layout: Layout) -> list[Image.Image]:
    """The things of a scene by their boxes."""
    boxes = [thing["box"] for thing in layout.objects]
    return [picture.crop((left, top, left + wide, top + high)) for left, top, wide, high in boxes]


def compose_alike(scene: Scene, paths: DemoPaths, encoder: ImageEncoder | None = None) -> tuple[Image.Image, Layout]:
    """The scene with copies altered until their cosines come nearest to their targets; each step halves the interval.

    Its layout gives each object's `cosine`, and the `target` of a copy. ComposeError when a photo is missing.
    """
    encoder = encoder or embedded_encoder()
    studio = set_up(scene, paths)
    subjects = studio.subjects
    if not subjects:
        return take(studio, [])
    graph = []
    for subject in subjects:
        with Image.open(paths.photos / f"{subject.entity}.webp") as photo:
            graph.append(flattened(photo, INDEX_MARGIN))
    references = encoder.encode(graph)
    targets = [target_cosine(subject.seed) for subject in subjects]
    low, high = np.full(len(subjects), LEAST_STRENGTH), np.ones(len(subjects))
    tried: list[tuple[Sequence[float], NDArray[np.float32]]] = []
    steps = SEARCH_STEPS if any(subject.same_photo for subject in subjects) else 1
    for step in range(steps):
        # The strongest first: the likeness of most copies must fall far.
        strengths = np.where([s.same_photo for s in subjects], high if step == 0 else (low + high) / 2, 0.0)
        picture, layout = take(studio, strengths.tolist())
        cosines = np.sum(encoder.encode(crops(picture, layout)) * references, axis=1)
        tried.append((strengths.tolist(), cosines))
        if step:
            alike = cosines > targets
            low, high = np.where(alike, strengths, low), np.where(alike, high, strengths)
    best = [int(np.argmin([abs(cosines[i] - targets[i]) for _, cosines in tried])) for i in range(len(subjects))]
    picture, layout = take(studio, [tried[row][0][i] for i, row in enumerate(best)])
    cosines = np.sum(encoder.encode(crops(picture, layout)) * references, axis=1)
    for thing, subject, cosine, target in zip(layout.objects, subjects, cosines, targets, strict=True):
        thing["cosine"] = round(float(cosine), 3)
        if subject.same_photo:
            thing["target"] = round(target, 3)
    return picture, layout
