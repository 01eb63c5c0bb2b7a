"""Embeddings on disk by the content they are made of, so that no text or image is ever embedded twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import diskcache
import numpy as np

from agents.models.base import FloatArray


class EmbeddingCache:
    """Vectors by (model, content), in an SQLite file that survives a kill at any point.

    Args:
        folder: Made where it is not there.
    """

    def __init__(self, folder: Path) -> None:
        # Values are plain bytes, never pickles; nothing is evicted.
        self._cache = diskcache.Cache(str(folder), eviction_policy="none", cull_limit=0, size_limit=2**62)

    def __enter__(self) -> EmbeddingCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cache.close()

    def missing(self, keys: Iterable[bytes]) -> set[bytes]:
        """Those keys that have no vector yet."""
        return {key for key in set(keys) if key not in self._cache}

    def store(self, vectors: Mapping[bytes, FloatArray]) -> None:
        """Keep vectors, all of them or none."""
        with self._cache.transact():
            for key, vector in vectors.items():
                self._cache.set(key, np.asarray(vector, dtype="<f4").tobytes())

    def load(self, keys: Sequence[bytes]) -> FloatArray:
        """The vectors of keys that are there, shape (len(keys), dimensions).

        Raises:
            KeyError: A key has no vector.
        """
        return np.stack(list(self._vectors(keys)))

    def _vectors(self, keys: Sequence[bytes]) -> Iterator[FloatArray]:
        for key in keys:
            yield np.frombuffer(self._cache[key], dtype="<f4").astype(np.float32)


def cache_key(model: str, content: bytes) -> bytes:
    """The key of one content under one model (its fingerprint)."""
    return hashlib.blake2b(content, digest_size=20, key=model.encode()).digest()
