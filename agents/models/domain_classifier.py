"""Domain classifiers: which domain a question and its picture belong to (QA-Dragon, section 3.1.1).

Here are the protocol and a classifier that needs no training; ``domain_head.py`` holds the trained one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from PIL import Image

from agents.models.base import FloatArray, Label, ModelError, Recogniser, TextEncoder


@runtime_checkable
class DomainClassifier(Protocol):
    """Assigns questions about pictures to domains."""

    name: str

    def classify(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> list[list[Label]]:
        """For each question all domains with their probabilities (they sum to 1), likeliest first.

        Raises:
            ValueError: There are not as many images as questions.
        """
        ...


class ZeroShotDomainClassifier:
    """Compares question and recognised class names with a description of each domain.

    A domain scores ``question_weight * cos(question, description) + picture_weight * sum_k p_k cos(class_k, description)``
    over the likeliest classes of the picture, their probabilities p scaled to sum to 1; a softmax makes probabilities of the scores.

    Args:
        text_encoder: Embeds questions, class names and descriptions.
        recogniser: Names what a picture shows; None to go by the question alone.
        descriptions: Domain to description.
        question_weight: Weight of the question's cosine.
        picture_weight: Weight of the picture's cosine; a turn without picture has none.
        temperature: Of the softmax over the scores; it changes the probabilities, never their order. Default and weights: the best of a
            small grid on the validation split of the mini set (accuracy; then log-likelihood), with MiniLM and EfficientNet-Lite2.
        classes: Class names a picture is described by.

    Raises:
        ModelError: There are no descriptions, or the temperature is not above 0.
    """

    def __init__(
        self,
        text_encoder: TextEncoder,
        recogniser: Recogniser | None,
        descriptions: Mapping[str, str],
        *,
        question_weight: float = 1.0,
        picture_weight: float = 0.75,
        temperature: float = 0.07,
        classes: int = 5,
    ) -> None:
        if not descriptions:
            raise ModelError("A zero-shot domain classifier needs a description of each domain.")
        if not temperature > 0:
            raise ModelError(f"The temperature must be above 0, not {temperature}.")
        self.name = f"zero-shot domains, {text_encoder.name}" + (f" + {recogniser.name}" if recogniser else "")
        self._encoder = text_encoder
        self._recogniser = recogniser
        self._descriptions = dict(descriptions)
        self._question_weight = question_weight
        self._picture_weight = picture_weight
        self._temperature = temperature
        self._classes = classes

    def classify(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> list[list[Label]]:
        """See ``DomainClassifier``; one pass of the recogniser and one of the encoder for the whole batch."""
        check_batch(images, questions)
        if not questions:
            return []
        scores = self._question_weight * (self._encoder.encode(questions) @ self._prototypes.T)
        if self._recogniser is not None and self._picture_weight:
            scores = scores + self._picture_weight * self._picture_scores(images, self._recogniser)
        return ranked(tuple(self._descriptions), softmax(scores / self._temperature))

    def _picture_scores(self, images: Sequence[Image.Image | None], recogniser: Recogniser) -> FloatArray:
        """Shape (len(images), domains); 0 for a missing image."""
        scores = np.zeros((len(images), len(self._descriptions)), dtype=np.float32)
        rows = [row for row, image in enumerate(images) if image is not None]
        named = recogniser.recognise([image for image in images if image is not None], self._classes) if rows else []
        names = list(dict.fromkeys(label.name for labels in named for label in labels))
        if not names:
            return scores
        cosines = dict(zip(names, self._encoder.encode(names) @ self._prototypes.T, strict=True))
        for row, labels in zip(rows, named, strict=True):
            total = sum(label.probability for label in labels)
            if total > 0:
                scores[row] = sum(label.probability / total * cosines[label.name] for label in labels)
        return scores

    @cached_property
    def _prototypes(self) -> FloatArray:
        return self._encoder.encode(list(self._descriptions.values()))


def check_batch(images: Sequence[Image.Image | None], questions: Sequence[str]) -> None:
    """Raise ValueError where a batch has not as many images as questions."""
    if len(images) != len(questions):
        raise ValueError(f"{len(images)} images for {len(questions)} questions")


def softmax(scores: FloatArray) -> FloatArray:
    """Softmax over the last axis, float32."""
    shifted = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
    probabilities: FloatArray = (shifted / shifted.sum(axis=-1, keepdims=True)).astype(np.float32)
    return probabilities


def ranked(names: Sequence[str], probabilities: FloatArray) -> list[list[Label]]:
    """For each row of probabilities (rows, names) the labels, likeliest first; equal ones keep the order of the names."""
    return [
        [Label(names[column], float(row[column])) for column in np.argsort(-row, kind="stable")]
        for row in probabilities
    ]
