"""What the adapters over transformers checkpoints share, and the image encoder that is nothing but that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from agents.models.base import ImageEncoder, ModelError
from agents.models.encoders.clip import ClipImageEncoder
from agents.models.pretrained import Pretrained, distinct
from agents.models.registry import FACTORIES, ModelRegistry, options_of
from agents.search.stand_in_clip import save_tiny_clip
from tests.models.tiny_checkpoints import save_bert

SIZES = [(60, 40), (40, 60), (32, 32)]


def pictures() -> list[Image.Image]:
    noise = np.random.default_rng(0)
    return [Image.fromarray(noise.integers(0, 255, (h, w, 3), dtype=np.uint8)) for w, h in SIZES]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    save_tiny_clip(folder)
    return folder


def test_clip_gives_what_the_image_index_is_built_with(clip: Path) -> None:
    from agents.search.encoders import ImageIndexEncoder

    encoder = ModelRegistry(clip).load({"kind": "clip", "path": str(clip), "batch_size": 2})
    assert isinstance(encoder, ImageEncoder)
    found = encoder.encode(pictures())
    np.testing.assert_allclose(found, ImageIndexEncoder.load(str(clip)).embed(pictures()), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)
    assert encoder.encode([]).shape == (0, found.shape[1])


def test_the_weights_have_the_type_that_is_asked_for(clip: Path) -> None:
    half = ClipImageEncoder(clip, dtype="bfloat16")
    assert next(half._loaded[1].parameters()).dtype == torch.bfloat16
    found = half.encode(pictures())
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, ClipImageEncoder(clip).encode(pictures()), atol=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int3"}, "Unknown dtype 'int3'"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
    ],
)
def test_wrong_options_are_named_before_anything_loads(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Pretrained("nowhere", **options)


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
def test_a_device_that_is_not_there_is_a_clear_error(clip: Path, device: str) -> None:
    with pytest.raises(ModelError, match="Cannot load image encoder"):
        ClipImageEncoder(clip, device=device).encode(pictures())


def test_a_checkpoint_of_another_kind_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="Cannot load image encoder"):
        ClipImageEncoder(save_bert(tmp_path)).encode(pictures())


def test_passes_take_rows_of_like_length_together_each_once() -> None:
    passes = list(Pretrained("x", batch_size=2).passes([5, 1, 9, 1, 7]))
    assert passes == [[2, 4], [0, 1], [3]]
    assert list(Pretrained("x").passes([])) == []


def test_distinct_items_and_where_each_stands() -> None:
    assert distinct(["b", "a", "b", "c", "a"]) == (["b", "a", "c"], [0, 1, 0, 2, 1])
    assert distinct([]) == ([], [])


@pytest.mark.parametrize("kind", sorted(FACTORIES))
def test_every_kind_says_its_options(kind: str) -> None:
    assert isinstance(options_of(kind), dict)


def test_a_part_that_is_no_specification_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="'cosine' cannot be built"):
        ModelRegistry(tmp_path).load({"kind": "cosine", "encoder": "minilm"})


def test_a_kind_whose_library_is_missing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FACTORIES, "lacking", "no_such_library.models:Model")
    with pytest.raises(ModelError, match=r"'lacking' needs a library.*no_such_library"):
        ModelRegistry(tmp_path).load({"kind": "lacking"})
