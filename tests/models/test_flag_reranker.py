"""FlagEmbedding's reranker on a tiny checkpoint of bge-reranker-v2-m3's class."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from agents.models.base import ModelError, Reranker
from agents.models.rerankers.flag_reranker import FlagEmbeddingReranker
from tests.models.tiny_checkpoints import save_bert
from tests.models.tiny_rankers import save_xlm_roberta_reranker

PAIRS = [
    ("How tall is the tower?", "The tower is 330 metres tall."),
    ("Who built it?", "A cat."),
    ("tower", "a"),
    ("Who built it?", "The " * 20),
]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_xlm_roberta_reranker(tmp_path_factory.mktemp("xlmr"))


def test_scores_are_those_of_the_checkpoint(checkpoint: Path) -> None:
    pytest.importorskip("FlagEmbedding")
    flag = FlagEmbeddingReranker(checkpoint, max_tokens=120, batch_size=2)
    assert isinstance(flag, Reranker)
    scores = flag.score([*PAIRS, PAIRS[0]])
    assert scores.shape == (5,)
    assert scores.dtype == np.float32
    assert ((scores > 0) & (scores < 1)).all()
    assert scores[4] == scores[0]
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    inputs = tokenizer(*map(list, zip(*PAIRS, strict=True)), padding=True, return_tensors="pt")
    with torch.inference_mode():
        expected = torch.sigmoid(model(**inputs).logits[:, 0]).numpy()
    np.testing.assert_allclose(scores[:4], expected, atol=1e-5)
    assert np.ptp(scores) > 1e-3


def test_without_the_library_the_message_says_what_to_install(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "FlagEmbedding", None)
    with pytest.raises(ModelError, match="pip install FlagEmbedding"):
        FlagEmbeddingReranker(checkpoint).score(PAIRS)


def test_an_encoder_without_a_head_for_scores_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = SimpleNamespace(FlagReranker=lambda *_, **__: SimpleNamespace(compute_score=lambda *_, **__: [0.5]))
    monkeypatch.setitem(sys.modules, "FlagEmbedding", library)
    assert FlagEmbeddingReranker(save_xlm_roberta_reranker(tmp_path / "whole")).score(PAIRS[:1]) == [0.5]
    with pytest.raises(ModelError, match=r"Cannot load reranker .* is a BertModel and lacks the weights that score"):
        FlagEmbeddingReranker(save_bert(tmp_path / "encoder")).score(PAIRS)


def test_a_dtype_that_the_library_has_not_is_refused() -> None:
    with pytest.raises(ModelError, match="float16"):
        FlagEmbeddingReranker("x", dtype="bfloat16")
