"""Embeddings in the organiser's own semantics (mean pooling, length 1, at most 512 tokens), a whole batch in one pass.

Both the index builder and the gateway embed here, by the functions of ``cragmm-search-pipeline``, so that the scores
are the ones which the organiser's one-at-a-time calls would give.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

from agents.models.base import FloatArray


def embed_texts(model: Any, tokenizer: Any, texts: Sequence[str], device: Any, batch_size: int) -> FloatArray:
    """Embeddings, float32, shape (len(texts), dimensions), each of length 1.

    Texts are sorted by length, so that little is padded.
    """
    from cragmm_search.web_search_mock_api.api.web_search import extract_features

    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    found: FloatArray | None = None
    for rows in _batches(order, batch_size):
        with _tokenizer_lock:
            vectors = extract_features(model, tokenizer, [texts[row] for row in rows], device)
        if found is None:
            found = np.empty((len(texts), vectors.shape[1]), dtype=np.float32)
        found[rows] = vectors
    return found if found is not None else np.zeros((0, 0), dtype=np.float32)


def embed_images(model: Any, processor: Any, images: Sequence[Image.Image], device: Any, batch_size: int) -> FloatArray:
    """Embeddings, float32, shape (len(images), dimensions), each of length 1; the images are RGB already."""
    from cragmm_search.image_search_mock_api.image_search import extract_features

    found = [
        extract_features(model, processor, [_unmistakable(images[row]) for row in rows], device)
        for rows in _batches(range(len(images)), batch_size)
    ]
    return np.concatenate(found).astype(np.float32, copy=False) if found else np.zeros((0, 0), dtype=np.float32)


def fingerprint(model: Any, recipe: str = "") -> str:
    """A hash of a model's weights (16 hexadecimal digits): what an index has to share with the model that queries it.

    Args:
        model: Anything with a ``state_dict()`` of tensors.
        recipe: Words for what else decides the embeddings, e.g. the preparation of the input.
    """
    digest = hashlib.blake2b(recipe.encode(), digest_size=8)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        # Through float32: numpy knows no bfloat16. Exact for every type that weights come in.
        digest.update(np.ascontiguousarray(tensor.detach().float().cpu().numpy()).tobytes())
    return digest.hexdigest()


def _unmistakable(image: Image.Image) -> Image.Image:
    """The image, enlarged where one of its sides could be taken for the three colour channels.

    CLIP's processor guesses the order of an array's axes from their lengths, and for a whole batch from its first image:
    a picture of 1 x 1 pixels raises, one of 3 x 500 is read sideways, and either spoils the pictures after it.
    """
    width, height = (max(side, _LEAST_SIDE) for side in image.size)
    return image if (width, height) == image.size else image.resize((width, height), Image.Resampling.NEAREST)


_LEAST_SIDE = 4  # pixels

# Fast tokenizers keep padding and truncation as state and raise "Already borrowed" when two threads use one at once.
_tokenizer_lock = threading.Lock()


def _batches(rows: Sequence[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(rows), size):
        yield list(rows[start : start + size])
