"""BLIP-2's Q-Former: joint features of picture and question.

Checkpoints of ``Blip2ForImageTextRetrieval``, such as Salesforce/blip2-itm-vit-g (Li et al., "BLIP-2", ICML 2023).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from PIL import Image

from agents.models.base import FloatArray
from agents.models.pixels import to_rgb
from agents.models.pretrained import Pretrained, deduplicate


@dataclass(kw_only=True, eq=False)
class Blip2QFormer(Pretrained):
    """The encoders of one checkpoint: pictures once each, then (picture, question) pairs and texts."""

    max_tokens: int = 256  # questions and passages are cut at this many tokens

    def features(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> FloatArray:
        """Compute joint features of (picture, question) for a classifier, float32, shape (n, 2 x projection size).

        The first half is the mean of the projected Q-Former query outputs, conditioned on picture and question. The second half is the
        projected [CLS] token of the question alone. Both have length 1; the first is 0 without a picture.

        Raises:
            ValueError: The lists differ in length, or an image cannot be decoded.
            ModelError: The checkpoint cannot be loaded.
        """
        if len(images) != len(questions):
            raise ValueError(f"{len(images)} images, but {len(questions)} questions")
        texts = self.text_tokens(questions)
        joint = np.zeros_like(texts)
        rows = [row for row, image in enumerate(images) if image is not None]
        if rows:
            pairs = [(image, question) for image, question in zip(images, questions, strict=True) if image is not None]
            means = self.query_tokens(pairs).mean(axis=1)
            joint[rows] = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return np.concatenate([joint, texts], axis=1)

    def query_tokens(self, pairs: Sequence[tuple[Image.Image, str]]) -> FloatArray:
        """Compute z_q of QA-Dragon eq. 2, float32, shape (len(pairs), query tokens, projection size), vectors of length 1.

        The query tokens attend to the question (as in image-text matching) and to the picture. Their outputs go through the projection of
        the image-text contrastive head, so that they compare with ``text_tokens``. Each distinct picture goes through the vision tower
        once, each distinct pair through the Q-Former once.

        Raises:
            ValueError: An image cannot be decoded.
            ModelError: The checkpoint cannot be loaded.
        """
        return self._joint(pairs, joint_tokens, self._query_shape)

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> FloatArray:
        """Compute how likely each picture and its text belong together with the matching head: 0 to 1, shape (n,).

        Raises:
            ValueError: The lists differ in length, or an image cannot be decoded.
            ModelError: The checkpoint cannot be loaded.
        """
        return self._joint(list(zip(images, texts, strict=True)), match_probability)

    def _joint(
        self, pairs: Sequence[tuple[Image.Image, str]], head: Callable[..., torch.Tensor], shape: tuple[int, ...] = ()
    ) -> FloatArray:
        """Apply a head to (picture, text) pairs, encoding each distinct picture and pair once.

        Returns:
            Shape (n, *shape).
        """
        _, model = self._loaded
        pictures = list({id(image): image for image, _ in pairs}.values())
        place = {id(image): row for row, image in enumerate(pictures)}
        sights = self._sights(pictures)
        unique_pairs, places = deduplicate((place[id(image)], question) for image, question in pairs)

        def encode(rows: list[int], inputs: Any) -> torch.Tensor:
            sight = sights[[unique_pairs[row][0] for row in rows]].to(self.device)
            return head(model, inputs["input_ids"], inputs["attention_mask"], sight)

        outputs = np.zeros((len(unique_pairs), *shape), dtype=np.float32)
        for rows, vectors in self._text_passes([question for _, question in unique_pairs], encode):
            outputs[rows] = vectors
        return outputs[places]

    def similarity(self, images: Sequence[Image.Image], texts: Sequence[str]) -> FloatArray:
        """Compute how well each text describes each picture with the contrastive head, shape (len(images), len(texts)).

        It is the largest cosine of a text's [CLS] token and any query token of a picture; the query tokens see the picture alone.

        Raises:
            ValueError: An image cannot be decoded.
            ModelError: The checkpoint cannot be loaded.
        """
        _, model = self._loaded
        sights = self._sights(images)
        query_vectors = np.zeros((len(images), *self._query_shape), dtype=np.float32)
        for start in range(0, len(images), self.batch_size):
            sight = sights[start : start + self.batch_size].to(self.device)
            with torch.inference_mode():
                states = model.qformer(
                    query_embeds=model.query_tokens.expand(len(sight), -1, -1),
                    encoder_hidden_states=sight,
                    encoder_attention_mask=sight.new_ones(sight.shape[:2], dtype=torch.long),
                ).last_hidden_state
                query_vectors[start : start + len(sight)] = _project(model.vision_projection, states).cpu().numpy()
        best: FloatArray = np.einsum("nqd,td->nqt", query_vectors, self.text_tokens(texts)).max(axis=1)
        return best

    def text_tokens(self, texts: Sequence[str]) -> FloatArray:
        """z_t of QA-Dragon eq. 2: the projected [CLS] token of each text, float32, shape (len(texts), projection size), length 1."""
        _, model = self._loaded

        def encode(_rows: list[int], inputs: Any) -> torch.Tensor:
            return text_token(model, inputs["input_ids"], inputs["attention_mask"])

        unique_texts, places = deduplicate(texts)
        embeddings = np.zeros((len(unique_texts), self._query_shape[1]), dtype=np.float32)
        for rows, vectors in self._text_passes(unique_texts, encode):
            embeddings[rows] = vectors
        return embeddings[places]

    def _sights(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Last hidden states of the vision tower, kept on the CPU, shape (len(images), patches + 1, vision size)."""
        processor, model = self._loaded
        passes = []
        for start in range(0, len(images), self.batch_size):
            batch = [to_rgb(image) for image in images[start : start + self.batch_size]]
            pixels = processor.image_processor(batch, return_tensors="pt")["pixel_values"].to(
                self.device, self.torch_dtype
            )
            with torch.inference_mode():
                passes.append(model.vision_model(pixel_values=pixels).last_hidden_state.float().cpu())
        return torch.cat(passes) if passes else torch.zeros(0)

    def _text_passes(
        self, texts: Sequence[str], encode: Callable[[list[int], Any], torch.Tensor]
    ) -> Iterator[tuple[list[int], FloatArray]]:
        """Row numbers and vectors of each batch of texts, longest first."""
        processor, model = self._loaded
        limit = min(self.max_tokens, model.config.qformer_config.max_position_embeddings)
        for rows in self.passes([len(text) for text in texts]):
            # The tokenizer alone: the processor would put image tokens first, which only newer checkpoints know.
            batch = [texts[row] for row in rows]
            inputs = self.tokenize(processor.tokenizer, batch, limit, return_token_type_ids=False)
            with torch.inference_mode():
                yield rows, encode(rows, inputs).float().cpu().numpy()

    @property
    def _query_shape(self) -> tuple[int, int]:
        config = self._loaded[1].config
        return int(config.num_query_tokens), int(config.image_text_hidden_size)

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        processor, model = self.load("BLIP-2", "AutoProcessor", "Blip2ForImageTextRetrieval")
        processor.tokenizer.padding_side = "right"  # the [CLS] token must come first
        return processor, model


def joint_tokens(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, sight: torch.Tensor
) -> torch.Tensor:
    """Compute the projected query tokens of ``Blip2QFormer.query_tokens``.

    ``model`` is a ``Blip2ForImageTextRetrieval``. ``sight`` has the last hidden states of its vision tower, one row per
    question.

    Returns:
        Shape (rows, query tokens, projection size).
    """
    return _project(model.vision_projection, _joint_states(model, input_ids, attention_mask, sight))


def match_probability(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, sight: torch.Tensor
) -> torch.Tensor:
    """Compute the probabilities of ``Blip2QFormer.match``, from the mean of all query tokens' votes.

    Returns:
        Shape (rows,).
    """
    states = _joint_states(model, input_ids, attention_mask, sight)
    votes: torch.Tensor = model.itm_head(states.to(model.itm_head.weight.dtype)).float()
    return votes.mean(dim=1).softmax(dim=-1)[:, 1]


def _joint_states(
    model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, sight: torch.Tensor
) -> torch.Tensor:
    """Compute the last hidden states of the query tokens, which attend to text and picture."""
    queries = model.query_tokens.expand(len(input_ids), -1, -1)
    states: torch.Tensor = model.qformer(
        query_embeds=model.embeddings(input_ids=input_ids, query_embeds=queries),
        query_length=queries.shape[1],
        attention_mask=torch.cat([attention_mask.new_ones(queries.shape[:2]), attention_mask], dim=1),
        encoder_hidden_states=sight,
        encoder_attention_mask=sight.new_ones(sight.shape[:2], dtype=torch.long),
    ).last_hidden_state[:, : queries.shape[1]]
    return states


def text_token(model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Compute the projected [CLS] token of ``Blip2QFormer.text_tokens``.

    Returns:
        Shape (rows, projection size).
    """
    embedded = model.embeddings(input_ids=input_ids)
    states = model.qformer(query_embeds=embedded, query_length=0, attention_mask=attention_mask).last_hidden_state
    return _project(model.text_projection, states[:, 0])


def _project(projection: Any, states: torch.Tensor) -> torch.Tensor:
    vectors: torch.Tensor = projection(states.to(projection.weight.dtype)).float()
    return torch.nn.functional.normalize(vectors, dim=-1)
