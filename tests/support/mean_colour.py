"""An image encoder that sees the mean colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from agents.models.base import FloatArray


class MeanColour:
    """Embeddings of length 1, shape (images, 3): the means of red, green and blue."""

    name = "mean colour"

    def encode(self, images: Sequence[Image.Image]) -> FloatArray:
        """One embedding an image."""
        means = np.array([np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) for image in images])
        units: FloatArray = means / np.linalg.norm(means, axis=1, keepdims=True)
        return units
