"""Text encoders that embed each text once: the same passages come up for many questions of a training set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agents.models.base import FloatArray, TextEncoder
from agents.models.registry import ModelRegistry, Spec


class RememberingEncoder:
    """A ``TextEncoder`` that keeps what it has embedded."""

    def __init__(self, encoder: TextEncoder) -> None:
        self.name = encoder.name
        self._encoder = encoder
        self._known: dict[str, FloatArray] = {}

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """As the encoder's own."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new or not texts:
            vectors = self._encoder.encode(new)
            if not texts:
                return vectors
            self._known.update(zip(new, vectors, strict=True))
        return np.stack([self._known[text] for text in texts])

    def encode_tokens(self, texts: Sequence[str]) -> list[FloatArray]:
        """As the encoder's own, which is asked each time."""
        return self._encoder.encode_tokens(texts)


class RememberingRegistry(ModelRegistry):
    """A registry whose text encoders remember; rerankers and readers that are made of one share it."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._remembering: dict[int, RememberingEncoder] = {}

    def load(self, spec: Spec) -> Any:
        """As ``ModelRegistry.load``."""
        model = super().load(spec)
        if isinstance(model, TextEncoder):
            return self._remembering.setdefault(id(model), RememberingEncoder(model))
        return model
