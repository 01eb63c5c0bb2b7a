"""The real network, on pictures drawn here and, where the project's photographs are there, on those."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from agents.models.vision.efficientnet import EfficientNetLite2

PHOTOS = Path(__file__).parents[2] / "mini_crag_mm" / "photos"


@pytest.fixture(scope="module")
def model() -> EfficientNetLite2:
    return EfficientNetLite2(batch_size=3)


def _packaged_photo(name: str) -> Image.Image:
    spec = importlib.util.find_spec("sklearn")
    assert spec is not None and spec.submodule_search_locations
    return Image.open(Path(spec.submodule_search_locations[0]) / "datasets" / "images" / name)


def test_embeddings_have_length_one_and_do_not_depend_on_the_batch(model: EfficientNetLite2) -> None:
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 256, (40 + i, 60, 3), dtype=np.uint8)) for i in range(7)]
    together = model.encode(images)
    assert together.shape == (7, 1280)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(together, np.concatenate([model.encode([image]) for image in images]), atol=1e-5)


def test_odd_images_are_encoded(model: EfficientNetLite2) -> None:
    odd = [Image.new(mode, (1, 1)) for mode in ("RGBA", "CMYK", "P", "I;16", "1")]
    assert np.isfinite(model.encode(odd)).all()


def test_a_photo_is_named(model: EfficientNetLite2) -> None:
    (labels,) = model.recognise([_packaged_photo("flower.jpg")], k=5)
    assert len(labels) == 5
    assert [label.probability for label in labels] == sorted((label.probability for label in labels), reverse=True)
    assert len(model.classes) == 1000
    assert model.classes[388] == "giant panda"


def test_a_crop_is_nearer_to_its_photo_than_another_photo(model: EfficientNetLite2) -> None:
    flower, china = _packaged_photo("flower.jpg"), _packaged_photo("china.jpg")
    crop = flower.crop((100, 50, flower.width - 60, flower.height - 40)).rotate(5)
    a, b, c = model.encode([flower, china, crop])
    assert c @ a > 0.6
    assert c @ a > c @ b + 0.2


@pytest.mark.skipif(not PHOTOS.is_dir(), reason="the photographs of the mini set are not there")
@pytest.mark.parametrize(
    ("stem", "name"),
    [("panda", "giant panda"), ("koala", "koala"), ("polar_bear", "polar bear"), ("jaguar", "jaguar")],
)
def test_animals_of_the_mini_set_are_named(model: EfficientNetLite2, stem: str, name: str) -> None:
    photos = sorted(PHOTOS.glob(f"*{stem}*.webp"))
    if not photos:
        pytest.skip(f"no photograph of {stem}")
    assert name in [label.name for label in model.recognise([Image.open(photos[0])], k=3)[0]]


def test_folded_normalisations_change_no_result(model: EfficientNetLite2) -> None:
    from efficientnet_lite_pytorch import EfficientNet

    published = EfficientNet.from_name(model.name)
    published.load_state_dict(model.state_dict())
    pixels = model.pixel_values([_packaged_photo("flower.jpg"), _packaged_photo("china.jpg")])
    with torch.inference_mode():
        expected = published.eval().extract_features(pixels)
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in model._network.modules())
    torch.testing.assert_close(model.last_maps(pixels).contiguous(), expected, rtol=1e-3, atol=1e-3)
