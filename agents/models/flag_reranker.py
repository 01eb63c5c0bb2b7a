"""bge-reranker-v2-m3 and its kin through their makers' own library, FlagEmbedding (optional)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from agents.models.base import FloatArray, ModelError

REQUIREMENTS = "FlagEmbedding==1.4.2"


class FlagEmbeddingReranker:
    """A ``Reranker``: the sigmoid of FlagReranker's score, 0 to 1.

    ``CrossEncoderReranker`` gives the same scores without the library for pairs that fit; the two cut long ones differently.

    Args:
        path: Checkpoint folder, or a model id of the local Hugging Face cache.
        max_tokens: A pair is cut to this many tokens, the query to three quarters of them first.
        batch_size: Pairs in one pass.
        device: ``cpu``, ``cuda:0`` ...
        half: Whether to compute in float16 (not on the CPU).
        name: Name in traces; the last part of ``path`` if None.
    """

    def __init__(
        self,
        path: str | Path,
        max_tokens: int = 512,
        batch_size: int = 32,
        device: str = "cpu",
        half: bool = False,
        name: str | None = None,
    ) -> None:
        self.name = name or Path(path).name
        self._path = path
        self._max_tokens = max_tokens
        self._batch_size = batch_size
        self._device = device
        self._half = half

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Shape (len(pairs),); all distinct pairs go to the library in one call, which sorts them by length itself.

        Raises:
            ModelError: FlagEmbedding is not installed, or the checkpoint cannot be loaded.
        """
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        distinct = list(dict.fromkeys(pairs))
        scores = self._reranker.compute_score([list(pair) for pair in distinct], normalize=True)
        found = dict(zip(distinct, scores, strict=True))
        return np.asarray([found[pair] for pair in pairs], dtype=np.float32)

    @cached_property
    def _reranker(self) -> Any:
        try:
            from FlagEmbedding import FlagReranker
        except ImportError as error:
            raise ModelError(f"This reranker takes: pip install {REQUIREMENTS} ({error})") from error
        try:
            return FlagReranker(
                str(self._path),
                use_fp16=self._half,
                devices=self._device,
                batch_size=self._batch_size,
                max_length=self._max_tokens,
            )
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise ModelError(f"Cannot load reranker {self._path}: {error}") from error
