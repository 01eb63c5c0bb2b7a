"""What a trained domain head looks at: one vector for a question and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from PIL import Image

from agents.models.base import FloatArray, ImageEncoder, TextEncoder
from agents.models.domain_classifier import check_batch


@runtime_checkable
class QuestionImageFeatures(Protocol):
    """Turns questions about pictures into vectors; ``Blip2QFormer`` is one, ``EmbeddedFeatures`` another."""

    name: str

    def features(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> FloatArray:
        """One row a question, float32."""
        ...


class EmbeddedFeatures:
    """The embedding of the question beside the embedding of the picture, each of length 1; zeros for a missing picture.

    Args:
        text: Embeds the question.
        images: Embeds the picture.
    """

    def __init__(self, text: TextEncoder, images: ImageEncoder) -> None:
        self.name = f"{text.name} + {images.name}"
        self._text = text
        self._images = images

    def features(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> FloatArray:
        """Shape (len(questions), text dimensions + image dimensions), float32.

        Raises:
            ValueError: There are not as many images as questions.
        """
        check_batch(images, questions)
        rows = [row for row, image in enumerate(images) if image is not None]
        seen = self._images.encode([image for image in images if image is not None])
        pictures = np.zeros((len(images), seen.shape[1]), dtype=np.float32)
        pictures[rows] = seen
        return np.concatenate([self._text.encode(questions), pictures], axis=1)
