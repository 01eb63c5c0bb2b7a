"""bge-reranker-v2-m3 and related models through their authors' library, FlagEmbedding."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from agents.base.revisions import snapshot
from agents.models.base import FloatArray, ModelError
from agents.models.config_files import read_config
from agents.models.pretrained import CANNOT_LOAD, Pretrained, deduplicate

REQUIREMENTS = "FlagEmbedding==1.4.2"
_HEAD = "ForSequenceClassification"


@dataclass(kw_only=True, eq=False)
class FlagEmbeddingReranker(Pretrained):
    """A ``Reranker``: the sigmoid of FlagReranker's score, 0 to 1.

    Under transformers 5 FlagEmbedding 1.4.2 takes an empty passage for none at all. On the CPU the library takes float32 anyhow.
    """

    max_tokens: int = 512  # a pair is cut to so many, the query to three quarters of them first

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype == "bfloat16":
            raise ModelError("FlagEmbedding computes in float32 or float16, not in bfloat16.")

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Shape (len(pairs),); all distinct pairs in one call of the library, which sorts them by length; ModelError without it."""
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        unique_pairs, places = deduplicate(pairs)
        scores = self._reranker.compute_score([list(pair) for pair in unique_pairs], normalize=True)
        return np.asarray(scores, dtype=np.float32)[places]

    @cached_property
    def _reranker(self) -> Any:
        try:
            from FlagEmbedding import FlagReranker
        except ImportError as error:
            raise ModelError(f"This reranker takes: pip install {REQUIREMENTS} ({error})") from error
        try:
            kinds = read_config(self.path, self.revision).get("architectures") or [_HEAD]
            if not any(
                str(kind).endswith(_HEAD) for kind in kinds
            ):  # the library would fill in a head of random numbers
                raise ValueError(f"it is a {kinds[0]} and lacks the weights that score a pair; take a reranker")
            return FlagReranker(
                snapshot(self.path, self.revision),
                use_fp16=self.dtype == "float16",
                devices=self.device,
                batch_size=self.batch_size,
                max_length=self.max_tokens,
            )
        except CANNOT_LOAD as error:
            raise ModelError(f"Cannot load reranker {self.path}: {error}") from error
