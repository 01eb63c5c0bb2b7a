"""QA-Dragon's coarse reranking (section 3.6.2) by BLIP-2's Q-Former."""

from collections.abc import Sequence

import numpy as np

from agents.models.base import FloatArray, MultimodalPair
from agents.models.encoders.blip2 import Blip2QFormer


class Blip2CoarseReranker:
    """QA-Dragon's coarse reranking, eq. 2: the best cosine of any query token of (question, picture) to the passage's [CLS] token.

    Scores lie in -1..1. Without a picture the question's [CLS] token replaces the query tokens.
    """

    def __init__(self, encoder: Blip2QFormer) -> None:
        self.name = f"coarse({encoder.name})"
        self._encoder = encoder

    def score_multimodal(self, items: Sequence[MultimodalPair]) -> FloatArray:
        """Shape (len(items),); one pass over pictures, pairs and texts each; ValueError for a broken image."""
        if not items:
            return np.zeros(0, dtype=np.float32)
        sighted = [row for row, item in enumerate(items) if item.image is not None]
        blind = [row for row, item in enumerate(items) if item.image is None]
        texts = [item.passage for item in items] + [items[row].question for row in blind]
        vectors = self._encoder.text_tokens(texts)
        passages, questions = vectors[: len(items)], vectors[len(items) :]
        scores = np.zeros(len(items), dtype=np.float32)
        scores[blind] = (questions * passages[blind]).sum(axis=1)
        pairs = [(item.image, item.question) for item in items if item.image is not None]
        if pairs:
            tokens = self._encoder.query_tokens(pairs)
            scores[sighted] = np.einsum("nqd,nd->nq", tokens, passages[sighted]).max(axis=1)
        return scores
