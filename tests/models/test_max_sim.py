"""Eq. 2 with a text encoder, by hand and on the real MiniLM."""

from collections.abc import Sequence

import numpy as np

from agents.models.base import FloatArray
from agents.models.rerankers.embedding_similarity import TokenMaxSimReranker


class _Plane:
    """An encoder into the plane: a word is an angle in degrees, a text the angle of its first word."""

    name = "plane"

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> FloatArray:
        self.encoded += texts
        return np.stack([self._vector(text.split()[0]) for text in texts])

    def encode_tokens(self, texts: Sequence[str]) -> list[FloatArray]:
        self.encoded += texts
        return [
            np.array([self._vector(word) for word in text.split()], dtype=np.float32).reshape(-1, 2) for text in texts
        ]

    @staticmethod
    def _vector(word: str) -> FloatArray:
        angle = np.deg2rad(float(word))
        return np.array([np.cos(angle), np.sin(angle)], dtype=np.float32)


def test_the_best_token_counts() -> None:
    reranker = TokenMaxSimReranker(_Plane())
    scores = reranker.score([("0 90", "60"), ("0", "60"), ("180", "0"), ("", "0")])
    np.testing.assert_allclose(scores, [np.cos(np.deg2rad(30)), 0.5, -1.0, 0.0], atol=1e-6)


def test_each_text_is_encoded_once() -> None:
    encoder = _Plane()
    TokenMaxSimReranker(encoder).score([("0", "10"), ("0", "20"), ("30", "10")])
    assert sorted(encoder.encoded) == ["0", "10", "20", "30"]
