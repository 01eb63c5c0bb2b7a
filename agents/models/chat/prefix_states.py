"""Key-value states of prompts that a transformers model has read: what a prompt shares with one of them is not read again.

Prompts of one method begin alike: with the same instructions, and a verdict with the evidence of its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Cache, StaticLayer

KEPT_TOKENS = 32_768
"""Tokens whose states are kept; one takes 56 KiB with Qwen2.5-1.5B (28 layers, 2 heads of 128, 32 bit)."""


@dataclass(frozen=True)
class _Read:
    """A prompt and its states, shape (layers, 2, heads, tokens, width)."""

    tokens: list[int]
    states: torch.Tensor


class _FilledLayer(StaticLayer):  # type: ignore[misc]  # transformers is untyped
    """States of one layer, shape (rows, heads, places, width); the first ``filled`` places are taken."""

    is_compileable = False

    def __init__(self, states: torch.Tensor, filled: int) -> None:
        self.keys, self.values = states
        super().__init__(max_cache_len=self.keys.shape[2])
        self.keys, self.values = states
        self.is_initialized = True
        self._filled = filled

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the states of new tokens behind those that are there."""
        end = self._filled + keys.shape[2]
        self.keys[:, :, self._filled : end] = keys
        self.values[:, :, self._filled : end] = values
        self._filled = end
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self._filled


class PrefixStates:
    """The states of the prompts read last.

    Args:
        config: The model's configuration.
        most_tokens: Older prompts are dropped beyond this many tokens together.
    """

    def __init__(self, config: Any, most_tokens: int = KEPT_TOKENS) -> None:
        self._config = config.get_text_config()
        self._most_tokens = most_tokens
        self._read: deque[_Read] = deque()

    def __len__(self) -> int:
        return len(self._read)

    def begin(self, inputs: Any, new_tokens: int) -> tuple[dict[str, torch.Tensor], Cache]:
        """A batch as ``generate`` takes it with a cache that holds what each row shares with a prompt that was read.

        Rows become: padding, what is shared, padding, the rest; the states of all shared parts end at the same place.

        Args:
            inputs: ``input_ids`` and ``attention_mask`` of shape (rows, tokens).
            new_tokens: Places for the reply.
        """
        rows = [ids[mask.bool()] for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True)]
        shared = [self._longest(row.tolist()) for row in rows]
        before = max(length for length, _ in shared)
        width = before + max(len(row) - length for row, (length, _) in zip(rows, shared, strict=True))
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        mask = torch.zeros_like(ids)
        states = self._empty(len(rows), width + new_tokens)
        for index, (row, (length, read)) in enumerate(zip(rows, shared, strict=True)):
            for place, part in ((before, row[:length]), (width, row[length:])):
                ids[index, place - len(part) : place] = part
                mask[index, place - len(part) : place] = 1
            if read is not None:
                states[:, :, index, :, before - length : before] = read.states[:, :, :, :length]
        cache = Cache(layers=[_FilledLayer(layer, before) for layer in states])
        return {"input_ids": ids, "attention_mask": mask}, cache

    def keep(self, inputs: dict[str, torch.Tensor], cache: Cache) -> None:
        """Remember the prompts of a batch that ``begin`` made and the model has read."""
        for row, (ids, mask) in enumerate(zip(inputs["input_ids"], inputs["attention_mask"], strict=True)):
            places = mask.nonzero().squeeze(-1)
            states = torch.stack(
                [torch.stack([layer.keys[row][:, places], layer.values[row][:, places]]) for layer in cache.layers]
            )
            self._read.append(_Read(ids[places].tolist(), states))
        while len(self._read) > 1 and sum(len(read.tokens) for read in self._read) > self._most_tokens:
            self._read.popleft()

    def _longest(self, tokens: Sequence[int]) -> tuple[int, _Read | None]:
        """How many first tokens a prompt shares with which one; its last is always read, for what comes after it is wanted."""
        best: tuple[int, _Read | None] = (0, None)
        for read in tuple(self._read):
            length = _shared(tokens[:-1], read.tokens)
            if length > best[0]:
                best = (length, read)
        return best

    def _empty(self, rows: int, places: int) -> torch.Tensor:
        config = self._config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return torch.zeros(config.num_hidden_layers, 2, rows, config.num_key_value_heads, places, width)


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    differs = (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differs, min(len(one), len(other)))
