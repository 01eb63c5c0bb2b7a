"""Holds replies of a transformers model to a JSON schema, by masks over the next token (llguidance)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from agents.models.base import ModelError


class SchemaMasks:
    """Compiles schemas for one fast Hugging Face tokenizer; ``end_ids`` are the tokens that may end a reply."""

    def __init__(self, tokenizer: Any, end_ids: Sequence[int]) -> None:
        import llguidance.hf

        self._end_ids = sorted(end_ids)
        self._tokenizer = llguidance.hf.from_tokenizer(tokenizer, eos_token=self._end_ids or None)

    def mask(self, schema: Mapping[str, Any]) -> SchemaMask:
        """A fresh mask for one reply; ModelError where llguidance does not understand the schema."""
        import llguidance

        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(
                json.dumps(schema),
                defaults={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "},
            )
        except ValueError as error:
            raise ModelError(f"The schema cannot be turned into a grammar: {error}") from error
        matcher = llguidance.LLMatcher(self._tokenizer, grammar)
        if matcher.is_error():
            raise ModelError(f"The schema cannot be turned into a grammar: {matcher.get_error()}")
        return SchemaMask(matcher, self._tokenizer.vocab_size, self._end_ids)


class SchemaMask:
    """The tokens that may come next in one reply."""

    def __init__(self, matcher: Any, vocabulary: int, end_ids: Sequence[int]) -> None:
        import llguidance.torch

        self._matcher = matcher
        self._end_ids = list(end_ids)
        self._bits = llguidance.torch.allocate_token_bitmask(1, vocabulary)

    def apply(self, scores: torch.Tensor) -> torch.Tensor:
        """The scores of one row, shape (vocabulary,), with minus infinity for each token that would break the schema."""
        import llguidance.torch

        if self._matcher.is_stopped():  # the value is whole
            ended = torch.full_like(scores, float("-inf"))
            ended[self._end_ids] = scores[self._end_ids]
            return ended
        llguidance.torch.fill_next_token_bitmask(self._matcher, self._bits)
        masked = scores.float().unsqueeze(0).clone()
        llguidance.torch.apply_token_bitmask_inplace(masked, self._bits.to(scores.device))
        return masked[0]

    def chose(self, token: int) -> None:
        """Record the next token of the reply."""
        if not self._matcher.is_stopped():
            self._matcher.consume_token(token)
