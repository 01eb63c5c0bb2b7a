"""Key-value states of prompts that a transformers model has read: a shared beginning is not read again.

Prompts of one method begin alike: with the same instructions, and a verdict with the evidence of its answer. Each is read by itself, a
piece at a time: nothing is padded, and the activations of a piece stay near the processor where those of a whole batch would fill memory.
"""

import inspect
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from transformers import Cache
from transformers.cache_utils import DynamicLayer

from agents.time_limits.deadline import Deadline

KEPT_TOKENS = 32_768
"""Tokens whose states are kept; one takes 56 KiB with Qwen2.5-1.5B (28 layers, 2 heads of 128, 32 bit)."""

PIECE_TOKENS = 512
"""Tokens read at a time; the widest activations of Qwen2.5-1.5B take 18 MB then (8,960 numbers of 32 bit a token)."""


def cache_argument(model: Any) -> str:
    """Return the argument by which a model takes a cache; transformers 5.24 has renamed it."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


@dataclass(frozen=True)
class _PromptStates:
    """A prompt and its states, shape (layers, 2, heads, tokens, width)."""

    tokens: list[int]
    states: torch.Tensor


class _FilledLayer(DynamicLayer):  # type: ignore[misc]  # transformers is untyped
    """Keys and values of one layer, each of shape (rows, heads, places, width); the first ``filled`` places are in use.

    New states follow them. Attention sees only the places in use, as in a ``DynamicLayer``, which would copy all of them for each new
    token.
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, filled: int) -> None:
        super().__init__()
        self.keys, self.values = keys, values
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True
        self._filled = filled

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the states of new tokens behind the existing ones."""
        end = self._filled + keys.shape[2]
        self.keys[:, :, self._filled : end] = keys
        self.values[:, :, self._filled : end] = values
        self._filled = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def get_seq_length(self) -> int:
        return self._filled

    def select(self, rows: torch.Tensor, start: int) -> "_FilledLayer":
        """Return some of the rows, without the places before ``start``."""
        return _FilledLayer(self.keys[rows, :, start:], self.values[rows, :, start:], self._filled - start)


def select_rows(
    tokens: torch.Tensor, mask: torch.Tensor, cache: Cache, rows: Sequence[int]
) -> tuple[dict[str, torch.Tensor], Cache]:
    """Return the input of ``generate`` for some rows of a batch, without the places of padding in all of them.

    Args:
        tokens: Prompts with the generated tokens, shape (rows, tokens), padded on the left.
        mask: The attention mask of the prompts, shape (rows, tokens of prompts).
        cache: From ``PrefixStates.begin``; it has the states of all tokens but the last.
        rows: Numbers of the rows.

    Returns:
        ``input_ids`` and ``attention_mask``, and their cache.
    """
    index = torch.tensor(rows)
    mask = functional.pad(mask[index], (0, tokens.shape[1] - mask.shape[1]), value=1)
    start = int(mask.argmax(dim=1).min())
    inputs = {"input_ids": tokens[index, start:], "attention_mask": mask[:, start:]}
    return inputs, Cache(layers=[layer.select(index, start) for layer in cache.layers])


class PrefixStates:
    """The states of the prompts read last; older ones are dropped beyond ``max_tokens`` together."""

    def __init__(self, config: Any, max_tokens: int = KEPT_TOKENS) -> None:
        self._config = config.get_text_config()
        self._max_tokens = max_tokens
        self._prompts: deque[_PromptStates] = deque()

    def __len__(self) -> int:
        return len(self._prompts)

    def begin(self, model: Any, inputs: Any, new_tokens: int, deadline: Deadline) -> Cache | None:
        """Read the prompts of a batch but for the last token of each, which is left to ``generate``.

        Args:
            model: The model that reads.
            inputs: ``input_ids`` and ``attention_mask`` of shape (rows, tokens), padded on the left.
            new_tokens: Places for the reply.
            deadline: When reading has to end.

        Returns:
            The cache that ``generate`` continues; None if the deadline came first.
        """
        rows = [ids[mask.bool()] for ids, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True)]
        filled = inputs["input_ids"].shape[1] - 1
        states = self._empty(len(rows), filled + 1 + new_tokens)
        for index, row in enumerate(rows):
            row_states = self._states(model, row[:-1], deadline)
            if row_states is None:
                return None
            start = filled + 1 - len(row)
            states[:, :, index, :, :start] = 0  # masked, but the memory there may be NaN
            states[:, :, index, :, start:filled] = row_states
        return Cache(layers=[_FilledLayer(keys, values, filled) for keys, values in states])

    def _states(self, model: Any, row: torch.Tensor, deadline: Deadline) -> torch.Tensor | None:
        """Return the states of a prompt, and compute missing ones.

        Returns:
            Shape (layers, 2, heads, tokens, width), or None if the deadline passes first.
        """
        tokens = row.tolist()
        length, read = self._longest(tokens)
        if read is not None and length == len(tokens):
            return read.states[:, :, :, :length]
        states = self._empty(1, len(tokens))
        if read is not None:
            states[:, :, 0, :, :length] = read.states[:, :, :, :length]
        cache = Cache(layers=[_FilledLayer(keys, values, length) for keys, values in states])
        for start in range(length, len(tokens), PIECE_TOKENS):
            if deadline.passed():
                return None
            end = min(start + PIECE_TOKENS, len(tokens))
            mask = torch.ones(1, end, dtype=torch.long)
            inputs = {"input_ids": row[None, start:end], "attention_mask": mask, cache_argument(model): cache}
            model.base_model(**inputs)
        self._keep(_PromptStates(tokens, states[:, :, 0]))
        return states[:, :, 0]

    def _keep(self, read: _PromptStates) -> None:
        """Keep the states of a prompt, and drop the oldest ones beyond the limit."""
        self._prompts.append(read)
        while len(self._prompts) > 1 and sum(len(each.tokens) for each in self._prompts) > self._max_tokens:
            self._prompts.popleft()

    def _longest(self, tokens: Sequence[int]) -> tuple[int, _PromptStates | None]:
        """Find the prompt that shares most first tokens with this one, and return how many."""
        best: tuple[int, _PromptStates | None] = (0, None)
        for read in tuple(self._prompts):
            length = _count_shared(tokens, read.tokens)
            if length > best[0]:
                best = (length, read)
        return best

    def _empty(self, rows: int, places: int) -> torch.Tensor:
        config = self._config
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return torch.empty(config.num_hidden_layers, 2, rows, config.num_key_value_heads, places, width)


def _count_shared(one: Sequence[int], other: Sequence[int]) -> int:
    differs = (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differs, min(len(one), len(other)))
