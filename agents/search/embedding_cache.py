"""Embeddings on disk by the content they are made of, so that no text or image is ever embedded twice."""

import hashlib
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import diskcache
import numpy as np

from agents.base.files import one_line
from agents.base.no_pickles import PickleError, PlainDisk
from agents.base.sqlite_faults import BUSY, DAMAGED, find_errno, get_kind
from agents.models.base import FloatArray
from agents.search.hits import SearchError

_log = logging.getLogger(__name__)


class EmbeddingCache(diskcache.Cache):  # type: ignore[misc]  # diskcache is untyped
    """Vectors by (model, content), in an SQLite file that survives a kill at any point; closed at the end of a ``with``.

    Its methods raise SearchError if the file is damaged, in use by another process or cannot be used for another reason, OSError if it
    may not be read or written.
    """

    def __init__(self, folder: Path) -> None:
        with _explain_faults(str(folder)):
            # Nothing is evicted.
            super().__init__(str(folder), disk=PlainDisk, eviction_policy="none", cull_limit=0, size_limit=2**62)

    def missing(self, keys: Iterable[bytes]) -> set[bytes]:
        """Return the keys that have no vector yet; one whose entry is no vector is logged and counts as missing."""
        with _explain_faults(self.directory):
            return {key for key in set(keys) if not self._has_vector(key)}

    def _has_vector(self, key: bytes) -> bool:
        try:
            entry = self.get(key)
        except PickleError as error:
            entry = error
        if entry is not None and not isinstance(entry, bytes):
            _log.warning("embedding cache %s: entry %s is computed again: %s", self.directory, key.hex()[:12], entry)
        return isinstance(entry, bytes)

    def store(self, vectors: Mapping[bytes, FloatArray]) -> None:
        """Keep vectors, all of them or none."""
        with _explain_faults(self.directory), self.transact():
            for key, vector in vectors.items():
                self.set(key, np.asarray(vector, dtype="<f4").tobytes())

    def load(self, keys: Sequence[bytes]) -> FloatArray:
        """Load the vectors of stored keys, shape (len(keys), dimensions).

        Raises:
            KeyError: A key has no vector.
        """
        with _explain_faults(self.directory):
            return np.stack([np.frombuffer(self[key], dtype="<f4").astype(np.float32) for key in keys])


@contextmanager
def _explain_faults(folder: str) -> Iterator[None]:
    """Raise faults of the SQLite file as errors that say what to do.

    Raises:
        OSError: The disk is full or broken, or the file may not be read or written.
        SearchError: The file is damaged, another process uses it, or SQLite cannot use it for another reason.
    """
    try:
        yield
    except (sqlite3.Error, diskcache.Timeout) as error:
        # diskcache raises Timeout for whatever prevents a transaction from beginning.
        fault = (error.__context__ or error) if isinstance(error, diskcache.Timeout) else error
        kind, reason = get_kind(fault), one_line(fault)
        if (number := find_errno(kind)) is not None:
            raise OSError(number, reason, folder) from error
        if kind in BUSY:
            message = f"the embedding cache {folder} is used by another process ({reason}); wait until it has ended"
            raise SearchError(message) from error
        # Python's own error for text that is no UTF-8 has no code.
        if kind in DAMAGED or (isinstance(fault, sqlite3.OperationalError) and "UTF-8" in reason):
            message = f"the embedding cache {folder} is damaged ({reason}); remove it, vectors are computed again"
            raise SearchError(message) from error
        raise SearchError(f"the embedding cache {folder} cannot be used ({reason})") from error


def cache_key(model: str, content: bytes) -> bytes:
    """Compute the key of one content under one model, given by its fingerprint."""
    return hashlib.blake2b(content, digest_size=20, key=model.encode()).digest()
