"""Cross-encoder reranking by a transformers sequence classifier with one output, such as bge-reranker-v2-m3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from agents.models.base import FloatArray, ModelError
from agents.models.pretrained import Pretrained, distinct


@dataclass(kw_only=True, eq=False)
class CrossEncoderReranker(Pretrained):
    """Scores each pair by the sigmoid of the classifier's logit: 0 to 1.

    Attributes:
        max_tokens: A pair is cut to this many tokens, from the passage's end first.
    """

    max_tokens: int = 512

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Shape (len(pairs),); each distinct pair is scored once, pairs of like length together.

        Raises:
            ModelError: The checkpoint cannot be loaded or is no reranker.
        """
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        tokenizer, model = self._loaded
        asked, places = distinct(pairs)
        found = np.zeros(len(asked), dtype=np.float32)
        for rows in self.passes([len(query) + len(passage) for query, passage in asked]):
            inputs = tokenizer(
                [asked[row][0] for row in rows],
                [asked[row][1] for row in rows],
                padding=True,
                truncation="longest_first",
                max_length=self.max_tokens,
                return_tensors="pt",
            ).to(self.device)
            with torch.inference_mode():
                logits = model(**inputs).logits.float().squeeze(-1)
            found[rows] = torch.sigmoid(logits).cpu().numpy()
        return found[places]

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        tokenizer, model = self.load("reranker", "AutoTokenizer", "AutoModelForSequenceClassification")
        if model.config.num_labels != 1:
            raise ModelError(f"{self.path} has {model.config.num_labels} outputs; a reranker has one.")
        return tokenizer, model
