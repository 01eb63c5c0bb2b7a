"""BLIP-2's Q-Former on a tiny random checkpoint, against the model's own modules called one by one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import Blip2ForImageTextRetrieval, Blip2Processor

from agents.models.base import (
    ModelError,
    MultimodalPair,
    MultimodalReranker,
    PictureTextMatcher,
    PictureTextSimilarity,
    QuestionImageFeatures,
)
from agents.models.encoders.blip2 import Blip2QFormer
from agents.models.rerankers.blip2_coarse import Blip2CoarseReranker
from tests.models.tiny_rankers import save_blip2

QUESTION = "how tall is the tower ?"
PASSAGES = ["the tower stands in paris", "a cat", "it is 330 metres tall , was built of iron and stands in paris"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_blip2(tmp_path_factory.mktemp("blip2"))


@pytest.fixture
def qformer(checkpoint: Path) -> Blip2QFormer:
    return Blip2QFormer(checkpoint, batch_size=2)


def _picture(seed: int, size: tuple[int, int] = (40, 30)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def _direct(
    checkpoint: Path, image: Image.Image, question: str, passage: str
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Eq. 2 written down with the modules of the model, for one pair and with no padding."""
    model = Blip2ForImageTextRetrieval.from_pretrained(checkpoint).eval()
    processor = Blip2Processor.from_pretrained(checkpoint)
    question_ids = processor.tokenizer(question, return_tensors="pt")["input_ids"]
    passage_ids = processor.tokenizer(passage, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        pixels = processor.image_processor(image, return_tensors="pt")["pixel_values"]
        image_states = model.vision_model(pixels).last_hidden_state
        embedded = model.embeddings(question_ids, query_embeds=model.query_tokens)
        states = model.qformer(embedded, query_length=4, encoder_hidden_states=image_states).last_hidden_state
        z_q = torch.nn.functional.normalize(model.vision_projection(states[0, :4]), dim=-1)
        state = model.qformer(model.embeddings(passage_ids), query_length=0).last_hidden_state
        z_t = torch.nn.functional.normalize(model.text_projection(state[0, 0]), dim=-1)
    return float(max(torch.dot(z, z_t) for z in z_q)), z_q, z_t


def test_scores_are_eq_2_whatever_the_batch(checkpoint: Path, qformer: Blip2QFormer) -> None:
    pictures = [_picture(1), _picture(2, (90, 20))]
    items = [
        MultimodalPair(question, image, p) for image in pictures for question in (QUESTION, "a dog ?") for p in PASSAGES
    ]
    reranker = Blip2CoarseReranker(qformer)
    assert isinstance(reranker, MultimodalReranker)
    scores = reranker.score_multimodal(items)
    expected = [
        _direct(checkpoint, item.image, item.question, item.passage)[0] for item in items if item.image is not None
    ]
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert len(set(scores.round(4))) > len(items) // 2  # picture, question and passage all make a difference


def test_a_match_is_what_the_matching_head_says_whatever_the_batch(checkpoint: Path, qformer: Blip2QFormer) -> None:
    model = Blip2ForImageTextRetrieval.from_pretrained(checkpoint).eval()
    processor = Blip2Processor.from_pretrained(checkpoint)
    pairs = [(picture, text) for picture in (_picture(1), _picture(2, (90, 20))) for text in (QUESTION, "a cat")]
    expected = []
    for picture, text in pairs:
        inputs = processor.tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        pixels = processor.image_processor(picture, return_tensors="pt")["pixel_values"]
        with torch.no_grad():
            logits = model(pixel_values=pixels, **inputs, use_image_text_matching_head=True).logits_per_image
        expected.append(float(logits.softmax(dim=1)[0, 1]))
    assert isinstance(qformer, PictureTextMatcher)
    images, texts = zip(*pairs, strict=True)
    np.testing.assert_allclose(qformer.match(images, texts), expected, atol=1e-5)
    assert len({round(one, 4) for one in expected}) == 4
    with pytest.raises(ValueError, match="zip"):
        qformer.match(images, texts[:3])


def test_the_text_side_is_that_of_the_contrastive_head(checkpoint: Path, qformer: Blip2QFormer) -> None:
    model = Blip2ForImageTextRetrieval.from_pretrained(checkpoint).eval()
    processor = Blip2Processor.from_pretrained(checkpoint)
    inputs = processor.tokenizer(PASSAGES[0], return_tensors="pt")
    pixels = processor.image_processor(_picture(1), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        output = model(pixel_values=pixels, input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
    np.testing.assert_allclose(qformer.text_tokens(PASSAGES[:1]), output.text_embeds, atol=1e-5)


def test_likeness_of_pictures_and_texts_is_the_models_own(checkpoint: Path, qformer: Blip2QFormer) -> None:
    model = Blip2ForImageTextRetrieval.from_pretrained(checkpoint).eval()
    processor = Blip2Processor.from_pretrained(checkpoint)
    pictures = [_picture(seed, (40, 30 + 10 * seed)) for seed in range(3)]  # in two passes
    assert isinstance(qformer, PictureTextSimilarity)
    similarities = qformer.similarity(pictures, PASSAGES)
    for row, image in enumerate(pictures):
        pixels = processor.image_processor(image, return_tensors="pt")["pixel_values"]
        for column, text in enumerate(PASSAGES):
            input_ids = processor.tokenizer(text, return_tensors="pt")["input_ids"]
            with torch.no_grad():
                output = model(pixel_values=pixels, input_ids=input_ids, use_image_text_matching_head=False)
            assert similarities[row, column] == pytest.approx(float(output.logits_per_image), abs=1e-5)
    assert qformer.similarity([], PASSAGES).shape == (0, len(PASSAGES))


def test_repeated_pictures_and_passages_are_encoded_once(
    qformer: Blip2QFormer, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, model = qformer._loaded
    rows: dict[str, int] = {"pictures": 0, "pairs": 0, "texts": 0}
    see, think = model.vision_model.forward, model.qformer.forward

    def seeing(*args: Any, **more: Any) -> Any:
        rows["pictures"] += len(more["pixel_values"])
        return see(*args, **more)

    def thinking(*args: Any, **more: Any) -> Any:
        rows["texts" if more["query_length"] == 0 else "pairs"] += len(more["query_embeds"])
        return think(*args, **more)

    monkeypatch.setattr(model.vision_model, "forward", seeing)
    monkeypatch.setattr(model.qformer, "forward", thinking)
    image = _picture(3)
    items = [MultimodalPair(question, image, passage) for question in (QUESTION, "a cat ?") for passage in PASSAGES * 2]
    Blip2CoarseReranker(qformer).score_multimodal(items)
    assert rows == {"pictures": 1, "pairs": 2, "texts": 3}


def test_without_a_picture_the_question_alone_is_compared(qformer: Blip2QFormer) -> None:
    items = [
        MultimodalPair(QUESTION, None, PASSAGES[0]),
        MultimodalPair(QUESTION, _picture(1), PASSAGES[0]),
        MultimodalPair("a", None, "a"),
    ]
    scores = Blip2CoarseReranker(qformer).score_multimodal(items)
    question_vector, passage_vector = qformer.text_tokens([QUESTION, PASSAGES[0]])
    assert scores[0] == pytest.approx(float(question_vector @ passage_vector), abs=1e-6)
    assert scores[2] == pytest.approx(1.0, abs=1e-5)
    assert scores[1] != scores[0]


def test_features_for_a_classifier(checkpoint: Path, qformer: Blip2QFormer) -> None:
    assert isinstance(qformer, QuestionImageFeatures)
    image = _picture(1).convert("RGBA")
    features = qformer.features([image, None, image], [QUESTION, QUESTION, "a dog"])
    assert features.shape == (3, 32)
    assert features.dtype == np.float32
    _, z_q, z_t = _direct(checkpoint, image.convert("RGB"), QUESTION, QUESTION)
    mean = z_q.mean(dim=0)
    np.testing.assert_allclose(features[0], torch.cat([mean / mean.norm(), z_t]), atol=1e-5)
    assert not features[1, :16].any()
    np.testing.assert_allclose(features[1, 16:], features[0, 16:], atol=1e-6)
    assert np.abs(features[2, :16] - features[0, :16]).max() > 1e-3  # the question reaches the query tokens


def test_bad_input_is_named(tmp_path: Path, qformer: Blip2QFormer) -> None:
    with pytest.raises(ValueError, match="1 images, but 2 questions"):
        qformer.features([None], ["a", "b"])
    with pytest.raises(ModelError, match="Cannot load BLIP-2"):
        Blip2QFormer(tmp_path).text_tokens(["a"])
    with pytest.raises(ModelError, match="Unknown dtype"):
        Blip2QFormer(tmp_path, dtype="int8")
