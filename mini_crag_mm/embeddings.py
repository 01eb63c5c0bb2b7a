"""Embeddings that come with the set, so that its indices are built in seconds.

    python -m mini_crag_mm.prepare --split all && python -m mini_crag_mm.embeddings    # after a change of pages, photographs or encoders

The key of a vector is its key in the embedding cache: a digest of the encoder's weights and of what was embedded. So a vector is never used
for another text, picture or encoder. What has no vector is embedded as usual.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import Field

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Options
from agents.models.base import FloatArray
from agents.search.embedding_cache import EmbeddingCache
from mini_crag_mm.content_models import SPLITS
from mini_crag_mm.index_contents import BACKGROUND, list_keys
from mini_crag_mm.loader import SET

_KINDS = ("images", "texts")


def read(file: Path = SET.embeddings) -> dict[bytes, FloatArray]:
    """Read the vectors by key, in float32, each of length 1 up to the rounding to 16 bit.

    Returns:
        {} if the file is missing or broken.
    """
    try:
        with np.load(file) as arrays:
            return {
                key.tobytes(): vector.astype(np.float32)
                for kind in _KINDS
                for key, vector in zip(arrays[f"{kind}_keys"], arrays[kind], strict=True)
            }
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
        return {}


def write(vectors: Mapping[str, Mapping[bytes, FloatArray]], file: Path = SET.embeddings) -> None:
    """Write the vectors of ``images`` and ``texts`` by key.

    They are rounded to 16 bit, which moves a cosine by less than 0.001.
    """
    arrays = {}
    for kind in _KINDS:
        keys = sorted(vectors[kind])
        arrays[f"{kind}_keys"] = np.array([np.frombuffer(key, dtype=np.uint8) for key in keys])
        arrays[kind] = np.stack([vectors[kind][key] for key in keys]).astype(np.float16)
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # numpy's stub takes an option's type for that of arrays


def add_missing(cache: EmbeddingCache) -> int:
    """Add the vectors that the cache lacks, and return their number."""
    shipped = read()
    missing = cache.missing(shipped)
    cache.store({key: shipped[key] for key in missing})
    return len(missing)


class EmbeddingsOptions(Options):
    """Write the embeddings that come with the set, from a cache that both splits were prepared in."""

    cache: CacheOption = Field(DEFAULT_CACHE, description="cache folder in which both splits were prepared")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the vectors of both splits' indices; return 0."""
    options = EmbeddingsOptions.parse(arguments)
    vectors: dict[str, dict[bytes, FloatArray]] = {kind: {} for kind in _KINDS}
    with EmbeddingCache(options.cache / "embeddings") as cache:
        for split in SPLITS:
            for kind, keys in zip(_KINDS, list_keys(split, options.cache, BACKGROUND), strict=True):
                vectors[kind] |= dict(zip(keys, cache.load(keys), strict=True))
    write(vectors)
    print(f"{len(vectors['images'])} pictures and {len(vectors['texts'])} texts are in {SET.embeddings.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
