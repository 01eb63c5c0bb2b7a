"""Sentence embeddings by a transformers encoder: MiniLM, BGE, E5 and their kin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from agents.models.base import FloatArray, ModelError
from agents.models.transformers_loading import DTYPES

Pooling = Literal["mean", "cls"]


class TransformerTextEncoder:
    """A ``TextEncoder``; texts are sorted by length so that little is padded, and long ones are cut.

    Args:
        path: Checkpoint folder, or a model id of the local Hugging Face cache.
        pooling: ``mean`` over the tokens (MiniLM, E5) or the ``cls`` token (BGE).
        max_tokens: Longer texts are cut at this many tokens.
        batch_size: Texts in one pass.
        device: ``cpu``, ``cuda`` ...
        dtype: ``float32``, ``bfloat16`` or ``float16``; the embeddings are float32 anyhow.
        name: Name in traces; the last part of ``path`` if None.
    """

    def __init__(
        self,
        path: str | Path,
        pooling: Pooling = "mean",
        max_tokens: int = 256,
        batch_size: int = 64,
        device: str = "cpu",
        dtype: str = "float32",
        name: str | None = None,
    ) -> None:
        if pooling not in ("mean", "cls"):
            raise ModelError(f"Unknown pooling {pooling!r}; known: mean, cls.")
        if dtype not in DTYPES:
            raise ModelError(f"Unknown dtype {dtype!r}; known: {', '.join(DTYPES)}.")
        self.name = name or Path(path).name
        self._path = path
        self._pooling = pooling
        self._max_tokens = max_tokens
        self._batch_size = batch_size
        self._device = device
        self._dtype = DTYPES[dtype]

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Embeddings, float32, shape (len(texts), dimensions), each of length 1; equal texts are computed once.

        Raises:
            ModelError: The checkpoint cannot be loaded.
        """
        distinct = list(dict.fromkeys(texts))
        found = np.zeros((len(distinct), self._dimensions), dtype=np.float32)
        for rows, states, inputs in self._passes(distinct):
            found[rows] = _unit(self._pool(states, inputs["attention_mask"]))
        place = {text: row for row, text in enumerate(distinct)}
        return found[[place[text] for text in texts]] if texts else found

    def encode_tokens(self, texts: Sequence[str]) -> list[FloatArray]:
        """For each text the vectors of its tokens without the special ones, float32, shape (tokens, dimensions)."""
        found: dict[str, FloatArray] = {}
        distinct = list(dict.fromkeys(texts))
        for rows, states, inputs in self._passes(distinct):
            wanted = inputs["attention_mask"].bool() & ~inputs["special_tokens_mask"].bool()
            for row, vectors, mask in zip(rows, states, wanted, strict=True):
                found[distinct[row]] = _unit(vectors[mask])
        return [found[text] for text in texts]

    def _passes(self, texts: Sequence[str]) -> Iterator[tuple[list[int], torch.Tensor, Any]]:
        """Row numbers, last hidden states (rows, tokens, dimensions) and tokenized input of each batch, longest first."""
        tokenizer, model = self._loaded
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]), reverse=True)
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size]
            inputs = tokenizer(
                [texts[row] for row in rows],
                padding=True,
                truncation=True,
                max_length=self._max_tokens,
                return_special_tokens_mask=True,
                return_tensors="pt",
            ).to(self._device)
            with torch.inference_mode():
                fed = {key: value for key, value in inputs.items() if key != "special_tokens_mask"}
                states = model(**fed).last_hidden_state.float()
            yield rows, states, inputs

    def _pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self._pooling == "cls":
            return states[:, 0]
        weights = mask.unsqueeze(-1).float()
        return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)

    @property
    def _dimensions(self) -> int:
        return int(self._loaded[1].config.hidden_size)

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        from transformers import AutoModel, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(self._path)
            model = AutoModel.from_pretrained(self._path, dtype=self._dtype).eval().to(self._device)
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"Cannot load text encoder {self._path}: {error}") from error
        tokenizer.padding_side = "right"  # the cls token must come first
        return tokenizer, model


def _unit(vectors: torch.Tensor) -> FloatArray:
    array: FloatArray = torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy()
    return array
