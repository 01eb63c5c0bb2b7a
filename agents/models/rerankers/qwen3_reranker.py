"""Qwen3-Reranker: a causal language model that says whether a document answers a query.

As published with Qwen/Qwen3-Reranker-0.6B (Zhang et al., "Qwen3 Embedding", 2025; the model card's transformers example).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from agents.models.base import FloatArray, ModelError
from agents.models.pretrained import Pretrained, deduplicate, prepare_tokenizer

# The model was trained with this very wording and answers about nothing else: it is a format, not a prompt of ours.
PREFIX = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
    'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
SUFFIX = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
HEAD = "<Instruct>: {instruction}\n<Query>: {query}\n<Document>: "
YES, NO = "yes", "no"

MIN_DOCUMENT = 16
"""Tokens kept free for the document where instruction and query are too long; the query is cut for them."""


@dataclass(kw_only=True, eq=False)
class Qwen3Reranker(Pretrained):
    """A ``Reranker``: the probability of "yes" against "no" at the last position, 0 to 1 (QA-Dragon, eq. 3)."""

    instruction: str = field(kw_only=False)  # criterion of relevance, in one sentence
    max_tokens: int = 1024  # longest input; documents are cut so that prompt and suffix always fit
    batch_size: int = 16

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Shape (len(pairs),); distinct pairs are scored once, those of like length together; ModelError for other checkpoints."""
        if not pairs:
            return np.zeros(0, dtype=np.float32)
        tokenizer, model, (yes, no) = self._loaded
        unique_pairs, places = deduplicate(pairs)
        prompts = self.prompts(unique_pairs)
        scores = np.zeros(len(unique_pairs), dtype=np.float32)
        for rows in self.passes([len(prompt) for prompt in prompts]):
            inputs = tokenizer.pad({"input_ids": [prompts[row] for row in rows]}, padding=True, return_tensors="pt")
            with torch.inference_mode():
                logits = model(**inputs.to(self.device), logits_to_keep=1).logits[:, -1].float()
            scores[rows] = logits[:, [no, yes]].softmax(dim=-1)[:, 1].cpu().numpy()
        return scores[places]

    def prompts(self, pairs: Sequence[tuple[str, str]]) -> list[list[int]]:
        """Token ids of the input of each (query, document) pair, at most ``max_tokens``, the suffix complete; errors as for ``score``."""
        prefix, suffix = self._ids([PREFIX, SUFFIX])
        room = self.max_tokens - len(prefix) - len(suffix)
        if room < 2 * MIN_DOCUMENT:
            raise ModelError(
                f"max_tokens is {self.max_tokens}; this checkpoint needs {self.max_tokens - room + 2 * MIN_DOCUMENT}."
            )
        heads = [HEAD.format(instruction=self.instruction, query=query) for query, _ in pairs]
        # Cut as text first: a page of a megabyte need not be tokenized whole (tokens of 32 characters are rare).
        documents = [document[: 32 * self.max_tokens] for _, document in pairs]
        (mark,) = self._ids([HEAD.rpartition("\n")[2]])
        bodies = []
        # Head and document are tokenized in one piece, as in training: the space between them is part of a token.
        joined = self._ids([head + document for head, document in zip(heads, documents, strict=True)], data=True)
        for head, document, whole in zip(
            self._ids(heads, data=True), self._ids(documents, data=True), joined, strict=True
        ):
            if len(head) > room - MIN_DOCUMENT:
                whole = head[: room - MIN_DOCUMENT - len(mark)] + mark + document
            bodies.append(prefix + whole[:room] + suffix)
        return bodies

    def _ids(self, texts: Sequence[str], data: bool = False) -> list[list[int]]:
        """Token ids of texts; in data the names of control tokens are plain text, so that no document can end its turn."""
        ids: list[list[int]] = self._loaded[0](
            list(texts),
            add_special_tokens=False,
            split_special_tokens=data,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
        return ids

    @cached_property
    def _loaded(self) -> tuple[Any, Any, tuple[int, int]]:
        """Tokenizer, model, and the ids of "yes" and "no"."""
        tokenizer, model = self.load("reranker", "AutoTokenizer", "AutoModelForCausalLM")
        prepare_tokenizer(tokenizer)
        answers = tokenizer([YES, NO], add_special_tokens=False)["input_ids"]
        if any(len(ids) != 1 for ids in answers):
            raise ModelError(f'{self.path} is no Qwen3 reranker: "yes" and "no" are not one token each.')
        return tokenizer, model, (answers[0][0], answers[1][0])
