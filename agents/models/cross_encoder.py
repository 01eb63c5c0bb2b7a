"""Cross-encoder reranking by a transformers sequence classifier with one output, such as bge-reranker-v2-m3."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agents.models.base import FloatArray, ModelError
from agents.models.transformers_loading import DTYPES


class CrossEncoderReranker:
    """Scores each pair by the sigmoid of the classifier's logit: 0 to 1.

    Args:
        path: Checkpoint folder, or a model id of the local Hugging Face cache.
        max_tokens: A pair is cut to this many tokens, from the passage's end first.
        batch_size: Pairs in one pass.
        device: ``cpu``, ``cuda`` ...
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        name: Name in traces; the last part of ``path`` if None.
    """

    def __init__(
        self,
        path: str | Path,
        max_tokens: int = 512,
        batch_size: int = 32,
        device: str = "cpu",
        dtype: str = "float32",
        name: str | None = None,
    ) -> None:
        if dtype not in DTYPES:
            raise ModelError(f"Unknown dtype {dtype!r}; known: {', '.join(DTYPES)}.")
        self.name = name or Path(path).name
        self._path = path
        self._max_tokens = max_tokens
        self._batch_size = batch_size
        self._device = device
        self._dtype = DTYPES[dtype]

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Shape (len(pairs),); each distinct pair is scored once, pairs of like length together.

        Raises:
            ModelError: The checkpoint cannot be loaded or is no reranker.
        """
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        tokenizer, model = self._loaded
        distinct = sorted(set(pairs), key=lambda pair: len(pair[0]) + len(pair[1]), reverse=True)
        found: dict[tuple[str, str], float] = {}
        for start in range(0, len(distinct), self._batch_size):
            batch = distinct[start : start + self._batch_size]
            inputs = tokenizer(
                [query for query, _ in batch],
                [passage for _, passage in batch],
                padding=True,
                truncation="longest_first",
                max_length=self._max_tokens,
                return_tensors="pt",
            ).to(self._device)
            with torch.inference_mode():
                logits = model(**inputs).logits.float().squeeze(-1)
            found.update(zip(batch, torch.sigmoid(logits).tolist(), strict=True))
        return np.asarray([found[pair] for pair in pairs], dtype=np.float32)

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(self._path)
            model = AutoModelForSequenceClassification.from_pretrained(self._path, dtype=self._dtype)
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"Cannot load reranker {self._path}: {error}") from error
        if model.config.num_labels != 1:
            raise ModelError(f"{self._path} has {model.config.num_labels} outputs; a reranker has one.")
        return tokenizer, model.eval().to(self._device)
