"""Holds a reply to a JSON schema inside vLLM's old engine, which has logits processors but no structured outputs.

vLLM 0.10.2 runs Llama-3.2-Vision on its first engine (V0) alone, and there ``guided_decoding`` is accepted and ignored.
XGrammar (Dong et al. 2024, "XGrammar: Flexible and Efficient Structured Generation Engine for Large Language Models"),
which the newer engine uses and vLLM installs, does the work here too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from agents.models.base import ModelError

BITS = 32  # XGrammar's masks are int32 words


class JsonConstraints:
    """Compiles schemas for one Hugging Face tokenizer, ``end_ids`` may end a reply; XGrammar keeps those it has compiled."""

    def __init__(self, tokenizer: Any, end_ids: Sequence[int]) -> None:
        import xgrammar

        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, stop_token_ids=sorted(end_ids) or None)
        self._vocabulary: int = info.vocab_size
        self._compiler = xgrammar.GrammarCompiler(info)

    def constraint(self, schema: Mapping[str, Any]) -> JsonConstraint:
        """A fresh logits processor for one request; ModelError where XGrammar does not understand the schema."""
        import xgrammar

        try:
            grammar = self._compiler.compile_json_schema(json.dumps(schema), any_whitespace=False)
        except (RuntimeError, ValueError, TypeError) as error:
            raise ModelError(f"The schema cannot be turned into a grammar: {error}") from error
        return JsonConstraint(xgrammar.GrammarMatcher(grammar), self._vocabulary)


class JsonConstraint:
    """A logits processor of vLLM's first engine: called once a token with what the request has generated so far."""

    def __init__(self, matcher: Any, vocabulary: int) -> None:
        import xgrammar

        self._matcher = matcher
        self._seen = 0
        self._mask = xgrammar.allocate_token_bitmask(1, vocabulary)

    def __call__(self, generated: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        """The logits, shape (vocabulary,), with minus infinity for each token that would break the schema."""
        for token in generated[self._seen :]:
            if not self._matcher.is_terminated():
                self._matcher.accept_token(int(token))
        self._seen = len(generated)
        if self._matcher.is_terminated():
            return logits
        self._matcher.fill_next_token_bitmask(self._mask)
        return logits.masked_fill(~self._allowed(logits), float("-inf"))

    def _allowed(self, logits: torch.Tensor) -> torch.Tensor:
        words = self._mask[0].to(logits.device)
        shifts = torch.arange(BITS, device=logits.device, dtype=torch.int32)
        bits = torch.bitwise_and(torch.bitwise_right_shift(words.unsqueeze(-1), shifts), 1).bool().flatten()
        # Embeddings are often padded beyond the tokenizer's vocabulary: no reply may hold such a token.
        allowed = torch.zeros_like(logits, dtype=torch.bool)
        common = min(len(bits), len(allowed))
        allowed[:common] = bits[:common]
        return allowed
