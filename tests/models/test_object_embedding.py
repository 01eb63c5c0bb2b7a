"""Embeddings of objects: the middle counts most, a mirror image is the same thing, and the mean is that of the graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from agents.models.vision.efficientnet import EfficientNetLite2
from agents.models.vision.object_embedding import MEAN_FILE, MIDDLE, ObjectEmbedding, pool_weighted
from agents.search.clip import EfficientNetImageModel, EfficientNetImageProcessor
from agents.search.encoders import ImageIndexEncoder
from agents.search.index_builder import image_key
from agents.search.index_sources import read_images
from evaluation.run.provided_evidence import MIN_COSINE
from mini_crag_mm import embeddings
from mini_crag_mm.content_models import load_content
from mini_crag_mm.index_contents import write_kg_images
from mini_crag_mm.loader import SET, read_index_image, read_kg


@pytest.fixture(scope="module")
def network() -> EfficientNetLite2:
    return EfficientNetLite2()


@pytest.fixture(scope="module")
def photographs() -> list[Image.Image]:
    return [read_index_image(row) for row in read_kg("validation")[:3]]


def test_cells_count_by_their_distance_from_the_middle() -> None:
    maps = torch.tensor([[[[0.0, 3.0, 0.0]]], [[[3.0, 0.0, 0.0]]], [[[1.0, 1.0, 1.0]]]])
    beside = np.exp(-0.5 * (1 / (3 * MIDDLE)) ** 2)
    expected = [3 / (1 + 2 * beside), 3 * beside / (1 + 2 * beside), 1.0]
    np.testing.assert_allclose(pool_weighted(maps).squeeze(1), expected, rtol=1e-6)


def test_a_mirror_image_has_the_same_embedding(network: EfficientNetLite2, photographs: list[Image.Image]) -> None:
    own = ObjectEmbedding(network)
    there, back = own.encode(photographs), own.encode([ImageOps.mirror(photograph) for photograph in photographs])
    assert float((there * back).sum(axis=1).min()) > 0.99
    assert (
        float(
            (network.encode(photographs) * network.encode([ImageOps.mirror(p) for p in photographs])).sum(axis=1).min()
        )
        < 0.99
    )


def test_the_mean_is_taken_away(network: EfficientNetLite2, photographs: list[Image.Image]) -> None:
    mean = np.load(MEAN_FILE)
    assert mean.shape == (1280,)
    whole = ObjectEmbedding(network, centred=False).encode(photographs)
    centred = whole - mean
    np.testing.assert_allclose(
        ObjectEmbedding(network).encode(photographs),
        centred / np.linalg.norm(centred, axis=1, keepdims=True),
        atol=1e-5,
    )
    assert float(np.min(whole @ mean / np.linalg.norm(mean))) > 0.3  # most of what two photographs share


def test_the_index_has_the_cosines_of_the_benchmarks_on_the_scale_of_clip(
    network: EfficientNetLite2, photographs: list[Image.Image]
) -> None:
    model = EfficientNetImageModel()
    pixels = EfficientNetImageProcessor(model)(photographs)["pixel_values"]
    embedded = torch.nn.functional.normalize(model.get_image_features(pixels), dim=-1).numpy()
    plain = ObjectEmbedding(network).encode(photographs)
    np.testing.assert_allclose(embedded @ embedded.T, 2 / 3 + plain @ plain.T / 3, atol=1e-5)
    assert ObjectEmbedding(network).encode([]).shape == (0, 1280)


def _photos_of_validation() -> list[Path]:
    content = load_content(SET.content)
    return [SET.scenes / f"{item.scene}.webp" for item in content.list_items() if item.split == "validation"]


def test_the_release_lists_entities_for_most_photos(tmp_path: Path) -> None:
    """Its cut of 0.75 was above every cosine of the embedded search, so that it named nothing in 65 of 65 photos."""
    encoder = ImageIndexEncoder.load("efficientnet-lite2")
    pictures, shipped = write_kg_images("validation", tmp_path), embeddings.read()
    graph = np.stack([shipped[image_key(encoder, row)] for row in read_images(pictures, pictures.parent)])
    photos = encoder.embed([Image.open(path).convert("RGB") for path in _photos_of_validation()[:48:4]])
    best = (photos @ graph.T).max(axis=1)
    assert len(best) == 12
    assert 0.5 < float((best > MIN_COSINE).mean()) < 0.95  # and it does not list something for every photo
