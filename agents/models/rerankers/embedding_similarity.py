"""Rerankers made of a text encoder: cosine of whole texts, and late interaction of their tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agents.models.base import FloatArray, TextEncoder


class CosineReranker:
    """Cosine of the sentence embeddings of query and passage, -1 to 1.

    Args:
        encoder: Embeds both; each distinct text is embedded once.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self.name = f"cosine({encoder.name})"
        self._encoder = encoder

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Shape (len(pairs),); see ``Reranker.score``."""
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        row = {text: i for i, text in enumerate(texts)}
        vectors = self._encoder.encode(texts)
        queries = vectors[[row[query] for query, _ in pairs]]
        passages = vectors[[row[passage] for _, passage in pairs]]
        return np.asarray((queries * passages).sum(axis=1), dtype=np.float32)


class MaxSimReranker:
    """For each query token its highest cosine to a passage token, averaged over the query: -1 to 1.

    The late interaction of ColBERT (Khattab & Zaharia 2020), divided by the query's length so that scores of different
    queries compare. An empty text scores 0.

    Args:
        encoder: Embeds the tokens of both; each distinct text is embedded once.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self.name = f"maxsim({encoder.name})"
        self._encoder = encoder

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Shape (len(pairs),); see ``Reranker.score``."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        tokens = dict(zip(texts, self._encoder.encode_tokens(texts), strict=True)) if texts else {}
        scores = [_maxsim(tokens[query], tokens[passage]) for query, passage in pairs]
        return np.asarray(scores, dtype=np.float32)


def _maxsim(query: FloatArray, passage: FloatArray) -> float:
    if not len(query) or not len(passage):
        return 0.0
    return float((query @ passage.T).max(axis=1).mean())
