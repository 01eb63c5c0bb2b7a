"""The trained domain classifier: multinomial logistic regression over features of question and picture.

QA-Dragon fine-tunes BLIP-2 on the domain labels of the competition (section 3.1.1); here the encoder stays as it is and a linear head
is fitted to its features (``python -m training.domain_router``), over BLIP-2's Q-Former or, embedded, over MiniLM and EfficientNet.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.models.base import FloatArray, Label, ModelError
from agents.models.domain_classifier import check_batch, ranked, softmax
from agents.models.domain_features import QuestionImageFeatures

_ARRAYS = ("coefficients", "intercept")


class HeadMetadata(BaseModel):
    """What stands in the .json file beside a head's weights.

    Attributes:
        features: Name of the feature extractor that the head was fitted to.
        classes: The domains, in the order of the head's outputs.
        trained_on: Data set and split.
        examples: Questions in the training set.
        training_hash: SHA-256 of the training questions and labels, in hexadecimal.
        weights_hash: SHA-256 of the weights, by which a mixed-up pair of files is told.
        accuracy: Held-out accuracies by what was measured, 0 to 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    features: str
    classes: tuple[str, ...] = Field(min_length=2)
    trained_on: str
    examples: int = Field(ge=1)
    training_hash: str
    weights_hash: str
    accuracy: dict[str, float] = {}


@dataclass(frozen=True)
class DomainHead:
    """A linear head.

    Attributes:
        coefficients: Shape (classes, features), float32.
        intercept: Shape (classes,), float32.
    """

    coefficients: FloatArray
    intercept: FloatArray
    metadata: HeadMetadata

    def probabilities(self, features: FloatArray) -> FloatArray:
        """Shape (rows, classes) for features of shape (rows, features).

        Raises:
            ModelError: The features are not as many as the head was fitted to.
        """
        if features.shape[1] != self.coefficients.shape[1]:
            raise ModelError(
                f"the domain head takes {self.coefficients.shape[1]} features, {features.shape[1]} were given"
            )
        return softmax(features @ self.coefficients.T + self.intercept)

    def save(self, path: Path) -> None:
        """Write ``path``.npz and ``path``.json."""
        arrays_file, metadata_file = head_files(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(arrays_file, coefficients=self.coefficients, intercept=self.intercept)
        metadata_file.write_text(self.metadata.model_dump_json(indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> DomainHead:
        """Read what ``save`` wrote; ``path`` is without extension.

        Raises:
            ModelError: A file is missing or malformed, or the two do not belong together.
        """
        arrays_file, metadata_file = head_files(path)
        try:
            metadata = HeadMetadata.model_validate_json(metadata_file.read_text(encoding="utf-8"))
            with np.load(arrays_file, allow_pickle=False) as archive:
                coefficients, intercept = (np.asarray(archive[name], dtype=np.float32) for name in _ARRAYS)
        except (OSError, KeyError, ValueError, ValidationError, zipfile.BadZipFile, EOFError) as error:
            raise ModelError(f"the domain head {path} cannot be read: {error}") from error
        classes = len(metadata.classes)
        if coefficients.ndim != 2 or coefficients.shape[0] != classes or intercept.shape != (classes,):
            raise ModelError(
                f"the domain head {path} has {classes} classes but weights of shapes {coefficients.shape}, {intercept.shape}"
            )
        if not (np.isfinite(coefficients).all() and np.isfinite(intercept).all()):
            raise ModelError(f"the domain head {path} holds weights that are no finite numbers")
        if weights_hash(coefficients, intercept) != metadata.weights_hash:
            raise ModelError(f"{arrays_file} and {metadata_file} do not belong together; train the head anew")
        return cls(coefficients, intercept, metadata)


def head_files(path: Path) -> tuple[Path, Path]:
    """The weights and the metadata of the head ``path`` (without extension)."""
    return path.with_name(f"{path.name}.npz"), path.with_name(f"{path.name}.json")


def weights_hash(coefficients: FloatArray, intercept: FloatArray) -> str:
    """SHA-256 of the weights as little-endian float32, in hexadecimal."""
    digest = hashlib.sha256()
    for array in (coefficients, intercept):
        digest.update(np.ascontiguousarray(array, dtype="<f4").tobytes())
    return digest.hexdigest()


class HeadDomainClassifier:
    """A ``DomainClassifier``: features, then the head.

    Raises:
        ModelError: The head was fitted to other features.
    """

    def __init__(self, features: QuestionImageFeatures, head: DomainHead) -> None:
        if features.name != head.metadata.features:
            raise ModelError(
                f"the domain head was fitted to {head.metadata.features!r}, the profile has {features.name!r}"
            )
        self.name = f"domain head, {features.name}"
        self._features = features
        self._head = head

    def classify(self, images: Sequence[Image.Image | None], questions: Sequence[str]) -> list[list[Label]]:
        """See ``DomainClassifier``; one pass of the feature extractor for the whole batch."""
        check_batch(images, questions)
        if not questions:
            return []
        return ranked(self._head.metadata.classes, self._head.probabilities(self._features.features(images, questions)))
