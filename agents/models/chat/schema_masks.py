"""Constrains replies to a JSON schema by masks over the next token (llguidance)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from agents.models.base import ModelError


class SchemaMasks:
    """Compiles schemas for one fast Hugging Face tokenizer, whose own end token ends a reply."""

    def __init__(self, tokenizer: Any) -> None:
        import llguidance.hf

        self._tokenizer = llguidance.hf.from_tokenizer(tokenizer)

    def mask(self, schema: Mapping[str, Any]) -> SchemaMask:
        """Create a fresh mask for one reply.

        Raises:
            ModelError: llguidance does not understand the schema.
        """
        import llguidance

        try:
            grammar = llguidance.LLMatcher.grammar_from_json_schema(
                json.dumps(schema),
                defaults={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "},
            )
        except (ValueError, TypeError) as error:
            raise ModelError(f"The schema cannot be turned into a grammar: {error}") from error
        matcher = llguidance.LLMatcher(self._tokenizer, grammar)
        if matcher.is_error():
            raise ModelError(f"The schema cannot be turned into a grammar: {matcher.get_error()}")
        return SchemaMask(matcher)


class SchemaMask:
    """The tokens that may come next in one reply: a logits processor as vLLM's first engine (V0) calls them."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher
        self._seen = 0

    def __call__(self, generated: Sequence[int], scores: torch.Tensor) -> torch.Tensor:
        """Set the score of each next token that would break the schema to minus infinity.

        Args:
            generated: The tokens of the reply so far.
            scores: Scores of the next token, shape (vocabulary,).

        Returns:
            The masked scores, shape (vocabulary,).
        """
        for token in generated[self._seen :]:
            if not self._matcher.is_stopped():
                self._matcher.consume_token(int(token))
        self._seen = len(generated)
        bias = np.frombuffer(self._matcher.compute_logit_bias(), dtype=np.uint8)  # 0 for forbidden tokens
        # Embeddings are often padded beyond the tokenizer's vocabulary: no reply may contain such a token.
        allowed = np.zeros(len(scores), dtype=bool)
        common = min(len(bias), len(allowed))
        allowed[:common] = bias[:common] > 0
        return scores.masked_fill(~torch.from_numpy(allowed).to(scores.device), float("-inf"))
