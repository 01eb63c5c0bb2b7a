"""The embeddings that come with the set are those that its encoders make of what its indices hold."""

from pathlib import Path

import numpy as np
import pytest

from agents.models.picture_files import read_picture_file
from agents.search.embedding_cache import EmbeddingCache
from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder
from agents.search.index_builder import image_key, text_key
from mini_crag_mm import embeddings
from mini_crag_mm.content_models import SPLITS, Split
from mini_crag_mm.index_contents import BACKGROUND, write_sources


@pytest.mark.parametrize("split", SPLITS)
def test_every_picture_and_chunk_of_a_split_has_its_vector(split: Split, tmp_path: Path) -> None:
    images, chunks = write_sources(split, tmp_path, BACKGROUND)
    viewer, reader = ImageIndexEncoder.load(EFFICIENTNET), TextIndexEncoder.load(MINILM)
    shipped = embeddings.read()
    assert {image_key(viewer, row) for row in images} <= shipped.keys()
    assert {text_key(reader, row) for row in chunks} <= shipped.keys()
    pictures, texts = images[::20], chunks[::300]
    fresh = [
        *viewer.embed([read_picture_file(row.path) for row in pictures]),
        *reader.embed([row.embedded_text for row in texts]),
    ]
    keys = [*(image_key(viewer, row) for row in pictures), *(text_key(reader, row) for row in texts)]
    for key, own in zip(keys, fresh, strict=True):
        assert float(own @ shipped[key]) == pytest.approx(1.0, abs=1e-3)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "some.npz"
    rng = np.random.default_rng(0)
    vectors = {
        "images": {bytes([n]) * 20: rng.normal(size=5).astype(np.float32) for n in range(3)},
        "texts": {bytes([n]) * 20: rng.normal(size=4).astype(np.float32) for n in range(9, 11)},
    }
    embeddings.write(vectors, file)
    loaded = embeddings.read(file)
    assert loaded.keys() == vectors["images"].keys() | vectors["texts"].keys()
    for own in vectors.values():
        for key, vector in own.items():
            np.testing.assert_allclose(loaded[key], vector, rtol=1e-3)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"something else"])
def test_a_broken_file_ships_nothing(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "broken.npz"
    file.write_bytes(content)
    assert embeddings.read(file) == {}
    assert embeddings.read(tmp_path / "missing.npz") == {}


def test_vectors_that_are_there_stay(tmp_path: Path) -> None:
    key, *others = embeddings.read()
    with EmbeddingCache(tmp_path) as cache:
        cache.store({key: np.ones(3, dtype=np.float32)})
        assert embeddings.add_missing(cache) == len(others)
        assert embeddings.add_missing(cache) == 0
        np.testing.assert_array_equal(cache.load([key]), np.ones((1, 3)))
