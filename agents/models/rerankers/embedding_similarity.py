"""Rerankers made of a text encoder: cosine of whole texts, and tokens of the query against the whole passage."""

from collections.abc import Sequence

import numpy as np

from agents.models.base import FloatArray, TextEncoder
from agents.models.pretrained import deduplicate


class CosineReranker:
    """Cosine of the sentence embeddings of query and passage, -1 to 1; each distinct text is embedded once."""

    def __init__(self, encoder: TextEncoder) -> None:
        self.name = f"cosine({encoder.name})"
        self._encoder = encoder

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Shape (len(pairs),); see ``Reranker.score``."""
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        texts, rows = deduplicate(text for pair in pairs for text in pair)
        vectors = self._encoder.encode(texts)[rows]
        return np.asarray((vectors[::2] * vectors[1::2]).sum(axis=1), dtype=np.float32)


class TokenMaxSimReranker:
    """The best cosine of any token of the query to the passage as a whole, -1 to 1; each distinct text is embedded once.

    QA-Dragon's coarse reranking (section 3.6.2, eq. 2) with a text encoder in place of the Q-Former: the tokens of the question stand for
    the query tokens z_q, the sentence embedding of the passage for its [CLS] token z_t. A query without tokens scores 0.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self.name = f"token-maxsim({encoder.name})"
        self._encoder = encoder

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Shape (len(pairs),); see ``Reranker.score``."""
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        queries, query_rows = deduplicate(query for query, _ in pairs)
        passages, passage_rows = deduplicate(passage for _, passage in pairs)
        tokens, whole = self._encoder.encode_tokens(queries), self._encoder.encode(passages)
        scores = [
            (tokens[query] @ whole[passage]).max(initial=-1.0) if len(tokens[query]) else 0.0
            for query, passage in zip(query_rows, passage_rows, strict=True)
        ]
        return np.asarray(scores, dtype=np.float32)
