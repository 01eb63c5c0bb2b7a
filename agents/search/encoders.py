"""The encoders of an index, by the names that settings and the command line use. They embed as the gateway's searchers do."""

from __future__ import annotations

import hashlib
import json
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
from agents.search.searchers import embed_images, embed_texts

EFFICIENTNET = "efficientnet-lite2"
MINILM = "minilm"


def text_checkpoint(name: str) -> str:
    """Resolve a text encoder's name to the name or path for transformers.

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

    One loaded by a name is pickled as that name: each receiving process loads its own, once.
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
            raise TypeError("only an encoder loaded by a name can be sent to another process")
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
    """Embeds the images of an index by a CLIP model and its processor, or by models of the same interface, ``efficientnet-lite2``."""

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
