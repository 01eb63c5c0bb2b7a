"""Embeddings of EfficientNet-Lite2 by which another photograph of a thing is found.

Three changes to the pooled features, each chosen on the validation split of the mini set (figures: lab/notes/retrieval.md): cells of the
last feature map count more towards the middle, where a crop has its object; the picture and its mirror image are added, since a thing may
face either way; and the mean embedding of many photographs is taken away, since features that are never negative have most of their length
in common (Jegou and Chum 2012, "Negative evidences and co-occurences in image retrieval", section 2).
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from agents.models.base import FloatArray
from agents.models.vision.efficientnet import FEATURES, EfficientNetLite2

MIDDLE = 0.35  # standard deviation of the weight of a cell, in sides of the picture

MEAN_FILE = Path(__file__).with_name("object_embedding_mean.npy")
"""Mean embedding, float32, shape (1280,), of the photographs of validation's knowledge graph (``python -m training.embedding_mean``)."""


class ObjectEmbedding:
    """``ImageEncoder`` that tells things apart by EfficientNet-Lite2's features.

    Args:
        network: The network that computes the features; None: one of its own.
        centred: Whether the mean embedding is subtracted; not while that mean is computed.
    """

    name = "efficientnet-lite2, objects"

    def __init__(self, network: EfficientNetLite2 | None = None, centred: bool = True) -> None:
        self.network = network or EfficientNetLite2()
        self._centred = centred

    def encode(self, images: Sequence[Image.Image]) -> FloatArray:
        """Embed images: float32, shape (len(images), 1280), each of length 1; errors as for ``EfficientNetLite2.encode``."""
        embeddings = [self.embed(self.network.pixel_values([image])).cpu().numpy() for image in images]
        return np.concatenate(embeddings) if embeddings else np.zeros((0, FEATURES), dtype=np.float32)

    def embed(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Embed prepared input (``EfficientNetLite2.pixel_values``): shape (n, 1280), each of length 1."""
        pooled = [
            torch.nn.functional.normalize(pool_weighted(self.network.last_maps(pixels)), dim=-1)
            for pixels in (pixel_values, pixel_values.flip(-1))
        ]
        both = torch.nn.functional.normalize(pooled[0] + pooled[1], dim=-1)
        return torch.nn.functional.normalize(both - self._mean, dim=-1) if self._centred else both

    @cached_property
    def _mean(self) -> torch.Tensor:
        return torch.from_numpy(np.load(MEAN_FILE)).to(self.network.device)


def pool_weighted(maps: torch.Tensor) -> torch.Tensor:
    """Average feature maps (n, channels, height, width) over their cells, weighted towards the middle: shape (n, channels)."""
    across, down = (
        torch.exp(-0.5 * ((torch.arange(side) - (side - 1) / 2) / (side * MIDDLE)) ** 2) for side in maps.shape[:1:-1]
    )
    weights = torch.outer(down, across).to(maps)
    return (maps * (weights / weights.sum())).sum(dim=(2, 3))
