"""Domain classifiers: which domain a question and its picture belong to (QA-Dragon, section 3.1.1).

QA-Dragon fine-tunes BLIP-2 on the domain labels of the competition. Here are a classifier that needs no training, and one by a linear
head on fixed features of question and picture: of BLIP-2's Q-Former (``encoders/blip2.py``) or of MiniLM and EfficientNet
(``EmbeddedFeatures``). ``python -m training.domain_router`` fits the head.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from agents.base.data_folder import data_path
from agents.base.linear_head import HeadError, LinearHead, softmax
from agents.models.base import (
    DomainClassifier,
    FloatArray,
    ImageEncoder,
    Label,
    ModelError,
    PictureTextSimilarity,
    QuestionImageFeatures,
    Recogniser,
    TextEncoder,
)

PICTURE_WEIGHT, TEMPERATURE = 0.75, 0.07
"""The weight of the picture (that of the question is 1) and the temperature of the softmax over the scores, which never changes their
order: the best of a small grid on the validation split of the mini set (accuracy; then log-likelihood), with MiniLM and
EfficientNet-Lite2."""

CLASSES = 5  # class names a picture is described by

_log = logging.getLogger(__name__)


class ZeroShotDomainClassifier:
    """Compares question and recognised class names with a description of each domain.

    A domain scores ``cos(question, description) + PICTURE_WEIGHT * sum_k p_k cos(class_k, description)`` over the likeliest classes
    of the picture, their probabilities p scaled to sum to 1; a softmax makes probabilities of the scores. A model that compares pictures
    with texts itself (``sight``) gives the sum instead, as ``cos(picture, description)``. A turn without picture has the first term alone.

    Raises:
        ModelError: There are no descriptions.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        recogniser: Recogniser | None = None,
        sight: PictureTextSimilarity | None = None,
        *,
        domains: Mapping[str, str],
    ) -> None:
        if not domains:
            raise ModelError("A zero-shot domain classifier needs a description of each domain.")
        self.name = " + ".join(
            [f"zero-shot domains, {encoder.name}", *(each.name for each in (recogniser, sight) if each)]
        )
        self._encoder, self._recogniser, self._sight = encoder, recogniser, sight
        self._descriptions = dict(domains)

    def classify(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> list[list[Label]]:
        """See ``DomainClassifier``; one pass of the recogniser and one of the encoder for the whole batch."""
        rows, pictures = _select_pictures(images, questions)
        if not questions:
            return []
        scores = self._encoder.encode(questions) @ self._prototypes.T
        if pictures:
            scores[rows] += PICTURE_WEIGHT * self._picture_scores(pictures)
        return _rank(tuple(self._descriptions), softmax(scores / TEMPERATURE))

    def _picture_scores(self, pictures: Sequence[Image.Image]) -> FloatArray:
        """Shape (len(pictures), domains); 0 for a picture that nothing is known of."""
        if self._sight is not None:
            return self._sight.similarity(pictures, list(self._descriptions.values()))
        scores = np.zeros((len(pictures), len(self._descriptions)), dtype=np.float32)
        named = self._recogniser.recognise(pictures, CLASSES) if self._recogniser is not None else []
        names = list(dict.fromkeys(label.name for labels in named for label in labels))
        if not names:
            return scores
        cosines = dict(zip(names, self._encoder.encode(names) @ self._prototypes.T, strict=True))
        for row, labels in enumerate(named):
            total = sum(label.probability for label in labels)
            if total > 0:
                scores[row] = sum(label.probability / total * cosines[label.name] for label in labels)
        return scores

    @cached_property
    def _prototypes(self) -> FloatArray:
        return self._encoder.encode(list(self._descriptions.values()))


class EmbeddedFeatures:
    """The embedding of the question beside the embedding of the picture, each of length 1; zeros for a missing picture."""

    def __init__(self, text: TextEncoder, images: ImageEncoder) -> None:
        self.name = f"{text.name} + {images.name}"
        self._text, self._images = text, images

    def features(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> FloatArray:
        """Shape (len(questions), text dimensions + image dimensions), float32; ValueError for another number of images."""
        rows, pictures = _select_pictures(images, questions)
        embeddings = self._images.encode(pictures)
        image_features = np.zeros((len(images), embeddings.shape[1]), dtype=np.float32)
        image_features[rows] = embeddings
        return np.concatenate([self._text.encode(questions), image_features], axis=1)


class HeadDomainClassifier:
    """A ``DomainClassifier``: features, then a head fitted to them.

    Raises:
        ModelError: The head was fitted to other features.
    """

    def __init__(self, features: QuestionImageFeatures, head: LinearHead) -> None:
        if features.name != head.extractor:
            raise ModelError(
                f"the domain head was fitted to {head.extractor!r}, the profile has {features.name!r}; "
                "fit it again with python -m training.domain_router"
            )
        self.name = f"domain head, {features.name}"
        self._features, self._head = features, head

    def classify(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> list[list[Label]]:
        """Classify in one pass of the feature extractor; see ``DomainClassifier``.

        Raises:
            ModelError: The number of features differs from the head's.
        """
        _select_pictures(images, questions)
        if not questions:
            return []
        try:
            probabilities = self._head.probabilities(self._features.features(images, questions))
        except HeadError as error:
            raise ModelError(str(error)) from error
        return _rank(self._head.classes, probabilities)


def load_domain_head(
    head: str,
    features: Mapping[str, Any],
    fallback: Mapping[str, Any] | None = None,
    *,
    load: Callable[[Mapping[str, Any]], Any],
) -> DomainClassifier:
    """Load the classifier from a head's file, or the fallback if there is no such file.

    ``head`` is a path such as ``presets/heads/NAME.json``. ``features`` and ``fallback`` are specifications, which ``load`` loads.

    Raises:
        ModelError: The file is malformed, belongs to other features, or is missing and there is no fallback.
    """
    path = data_path(head)
    if fallback is not None and not path.exists():
        _log.warning("there is no domain head %s; domains are classified by %s", path, fallback.get("kind"))
        classifier: DomainClassifier = load(fallback)
        return classifier
    try:
        return HeadDomainClassifier(load(features), LinearHead.load(path))
    except HeadError as error:
        raise ModelError(str(error)) from error


def _select_pictures(
    images: Sequence[Image.Image | None], questions: Sequence[str]
) -> tuple[list[int], list[Image.Image]]:
    """Select the questions that have a picture, and return their rows and the pictures.

    Raises:
        ValueError: The batch has not as many images as questions.
    """
    if len(images) != len(questions):
        raise ValueError(f"{len(images)} images for {len(questions)} questions")
    return [row for row, each in enumerate(images) if each is not None], [each for each in images if each is not None]


def _rank(names: Sequence[str], probabilities: FloatArray) -> list[list[Label]]:
    """Sort the names of each row of probabilities (rows, names), likeliest first; equal ones keep their order."""
    return [
        [Label(names[column], float(row[column])) for column in np.argsort(-row, kind="stable")]
        for row in probabilities
    ]
