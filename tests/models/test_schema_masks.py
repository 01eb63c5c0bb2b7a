"""What holds Llama-3.2-Vision's replies to a schema, on vLLM 0.10.2's first engine: the decoding loop is that engine's."""

import json
from typing import Any

import pytest
import torch

from agents.models.base import ModelError
from agents.models.chat.schema_masks import SchemaMasks
from tests.models.tiny_checkpoints import tokenizer
from tests.vllm.asking import SCHEMA


@pytest.fixture(scope="module")
def words() -> Any:
    return tokenizer()


def decode(words: Any, constraint: Any, seed: int, vocabulary: int) -> str:
    """A reply drawn from random logits, as ``_apply_logits_processors`` of 0.10.2 calls a processor."""
    generator = torch.Generator().manual_seed(seed)
    token_ids: list[int] = []
    for _ in range(200):
        logits = constraint(token_ids, torch.randn(vocabulary, generator=generator))
        token_ids.append(int(logits.argmax()))
        if token_ids[-1] == words.eos_token_id:
            return words.decode(token_ids[:-1])
    raise AssertionError(f"no end: {words.decode(token_ids)}")


@pytest.mark.parametrize("padding", [-2, 0, 64])
def test_random_logits_say_json_of_the_schema(words: Any, padding: int) -> None:
    constraints = SchemaMasks(words)
    replies = []
    for seed in range(40):
        text = decode(words, constraints.mask(SCHEMA), seed, len(words) + padding)
        assert "\n" not in text
        replies.append(json.loads(text))
    assert all(set(reply) == {"seen", "kind"} for reply in replies)
    assert {reply["kind"] for reply in replies} == {"castle", "bridge"}
    assert {reply["seen"] for reply in replies} == {True, False}


def test_requests_side_by_side_do_not_disturb_each_other(words: Any) -> None:
    constraints = SchemaMasks(words)
    one, other = constraints.mask(SCHEMA), constraints.mask({"enum": ["bridge"]})
    logits = torch.zeros(len(words))
    allowed = [set(torch.isfinite(item([], logits)).nonzero().flatten().tolist()) for item in (one, other)]
    assert words.convert_tokens_to_ids("{") in allowed[0] - allowed[1]
    assert words.convert_tokens_to_ids('"') in allowed[1] - allowed[0]


def test_a_schema_that_is_none_is_refused(words: Any) -> None:
    with pytest.raises(ModelError, match="schema"):
        SchemaMasks(words).mask({"type": "no such type"})
