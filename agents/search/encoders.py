"""The encoders of an index, by the names that settings and the command line use, in the organiser's own semantics: length 1, whole batches.

Both the index builder and the gateway embed here, by the functions of ``cragmm-search-pipeline``, so that the scores
are the ones which the organiser's one-at-a-time calls would give. Texts: mean pooling over at most 512 tokens.
"""

from __future__ import annotations

import hashlib
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from PIL import Image

from agents.base.revisions import split_revision
from agents.models.base import FloatArray, ModelError
from agents.models.config_files import read_config
from agents.models.encoders.text_encoder import minilm_folder
from agents.models.pretrained import load_model
from agents.search.clip import EfficientNetImageModel, EfficientNetImageProcessor, tensor_image_features
from agents.search.hits import SearchError


def embed_texts(model: Any, tokenizer: Any, texts: Sequence[str], device: Any, batch_size: int) -> FloatArray:
    """Embeddings, float32, shape (len(texts), dimensions), each of length 1; texts are sorted by length, so that little is padded."""
    from cragmm_search.web_search_mock_api.api.web_search import extract_features

    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    embeddings: FloatArray | None = None
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        with _tokenizer_lock:
            vectors = extract_features(model, tokenizer, [texts[row] for row in rows], device)
        if embeddings is None:
            embeddings = np.empty((len(texts), vectors.shape[1]), dtype=np.float32)
        embeddings[rows] = vectors
    return embeddings if embeddings is not None else np.zeros((0, 0), dtype=np.float32)


def embed_images(model: Any, processor: Any, images: Sequence[Image.Image], device: Any, batch_size: int) -> FloatArray:
    """Embeddings, float32, shape (len(images), dimensions), each of length 1; the images are RGB already."""
    from cragmm_search.image_search_mock_api.image_search import extract_features

    batches = [
        extract_features(model, processor, [*map(_unmistakable, images[start : start + batch_size])], device)
        for start in range(0, len(images), batch_size)
    ]
    return np.concatenate(batches).astype(np.float32, copy=False) if batches else np.zeros((0, 0), dtype=np.float32)


def _unmistakable(image: Image.Image) -> Image.Image:
    """Enlarge an image if one of its sides could be taken for the three colour channels.

    CLIP's processor guesses the order of an array's axes from their lengths, and for a whole batch from its first image:
    a picture of 1 x 1 pixels raises, one of 3 x 500 is read sideways, and either spoils the pictures after it.
    """
    width, height = (max(side, _MIN_SIDE) for side in image.size)
    return image if (width, height) == image.size else image.resize((width, height), Image.Resampling.NEAREST)


_MIN_SIDE = 4  # pixels

# Fast tokenizers keep padding and truncation as state and raise "Already borrowed" when two threads use one at once.
_tokenizer_lock = threading.Lock()


EFFICIENTNET = "efficientnet-lite2"
MINILM = "minilm"


def text_checkpoint(name: str) -> str:
    """Resolve a text encoder's name to what transformers loads.

    Returns:
        The packaged folder for ``minilm``; any other name as it is.

    Raises:
        SearchError: The packaged folder of ``minilm`` is missing.
    """
    try:
        return str(minilm_folder()) if name == MINILM else name
    except ModelError as error:
        raise SearchError(str(error)) from error


class IndexEncoder(ABC):
    """A model with its tokenizer or image processor, which embeds the contents of an index.

    One that was loaded by a name is pickled as that name: each process that it is sent to loads its own, once.
    """

    what: ClassVar[str]
    loaded: tuple[str, int] | None = None

    def __init__(self, model: Any, processor: Any, batch_size: int = 16) -> None:
        self._model, self._processor, self._batch_size = model, processor, batch_size

    @classmethod
    def load(cls, name: str, batch_size: int = 16) -> Self:
        """Load an encoder by a name of this module, a checkpoint folder, or ``ORG/NAME@REVISION``.

        Raises:
            SearchError: The encoder cannot be loaded.
        """
        try:
            encoder = cls(*cls._parts(name), batch_size)
        except (OSError, ValueError, RuntimeError) as error:
            raise SearchError(f"cannot load the {cls.what} encoder {name!r}: {error}") from error
        encoder.loaded = name, batch_size
        return encoder

    def __reduce__(self) -> Any:
        if self.loaded is None:
            raise TypeError("an encoder that was not loaded by a name cannot be sent to another process")
        return _loaded, (type(self), *self.loaded)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the weights and of how they are used (16 hex digits); an index shares it with the model that queries it."""
        digest = hashlib.blake2b(self._recipe().encode(), digest_size=8)
        for name, tensor in sorted(self._model.state_dict().items()):
            digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
            # Through float32: numpy knows no bfloat16. Exact for every type that weights come in.
            digest.update(np.ascontiguousarray(tensor.detach().float().cpu().numpy()).tobytes())
        return digest.hexdigest()

    @staticmethod
    @abstractmethod
    def _parts(name: str) -> tuple[Any, Any]:
        """Model and processor by name."""

    @abstractmethod
    def _recipe(self) -> str:
        """Describe how the model is used, in words."""


class TextIndexEncoder(IndexEncoder):
    """Embeds the texts of an index by a transformers encoder and its tokenizer; ``minilm`` is a name of one."""

    what = "text"

    @staticmethod
    def _parts(name: str) -> tuple[Any, Any]:
        from transformers import AutoModel, AutoTokenizer

        path, revision = split_revision(text_checkpoint(name))
        read_config(path, revision)  # refuses one that names code
        model = load_model(AutoModel, path, revision).to(_device())
        return model, AutoTokenizer.from_pretrained(path, revision=revision, trust_remote_code=False)

    def _recipe(self) -> str:
        return "mean pooling, unit length, 512 tokens"

    def embed(self, contents: Sequence[str]) -> FloatArray:
        """Embed texts; see ``embed_texts``."""
        return embed_texts(self._model, self._processor, contents, self._model.device, self._batch_size)


class ImageIndexEncoder(IndexEncoder):
    """Embeds the images of an index by a CLIP model and its processor, or by what speaks like them, ``efficientnet-lite2``."""

    what = "image"

    @staticmethod
    def _parts(name: str) -> tuple[Any, Any]:
        if name == EFFICIENTNET:
            network = EfficientNetImageModel(str(_device()))
            return network, EfficientNetImageProcessor(network)
        from transformers import CLIPModel, CLIPProcessor

        path, revision = split_revision(name)
        model = load_model(CLIPModel, path, revision).to(_device())
        return tensor_image_features(model), CLIPProcessor.from_pretrained(path, revision=revision)

    def _recipe(self) -> str:
        preparation = getattr(self._processor, "image_processor", self._processor)
        # Only transformers 4 notes which processor is around it; an index fits under 4 and 5.
        figures = {key: value for key, value in preparation.to_dict().items() if key != "_processor_class"}
        return json.dumps(figures, sort_keys=True, default=str)

    def embed(self, contents: Sequence[Image.Image]) -> FloatArray:
        """Embed images; see ``embed_images``."""
        return embed_images(self._model, self._processor, contents, self._model.device, self._batch_size)


@lru_cache(maxsize=1)
def _loaded(kind: type[IndexEncoder], name: str, batch_size: int) -> IndexEncoder:
    return kind.load(name, batch_size)


def _device() -> Any:
    """Choose the same device as the organiser's pipeline."""
    import torch

    name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    return torch.device(name)
