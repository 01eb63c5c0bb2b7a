import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from agents.search.clip import save_tiny_clip, tensor_image_features
from agents.search.encoders import ImageIndexEncoder


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    save_tiny_clip(folder)
    return folder


def test_the_organisers_embedding_works_under_this_transformers(clip: Path) -> None:
    from cragmm_search.image_search_mock_api.image_search import extract_features
    from transformers import CLIPModel, CLIPProcessor

    model = tensor_image_features(CLIPModel.from_pretrained(clip).eval())
    processor = CLIPProcessor.from_pretrained(clip)
    images = [Image.new("RGB", (40, 32), "red"), Image.new("RGB", (32, 40), "blue")]
    features = extract_features(model, processor, images)
    pixels = processor(images=images, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        projected = model.visual_projection(model.vision_model(pixel_values=pixels).pooler_output)
    expected = projected / projected.norm(dim=-1, keepdim=True)
    np.testing.assert_allclose(features, expected.numpy(), atol=1e-5)


def test_what_wraps_an_image_processor_is_no_part_of_an_index(clip: Path, tmp_path: Path) -> None:
    """transformers 4 notes it in its file, 5 does not; both read the indices of the other."""
    shutil.copytree(clip, tmp_path / "clip")
    for path in (tmp_path / "clip").glob("*processor_config.json"):
        settings = json.loads(path.read_text())
        path.write_text(json.dumps({key: value for key, value in settings.items() if key != "processor_class"}))
    with_note, without = (ImageIndexEncoder.load(str(folder), 1) for folder in (clip, tmp_path / "clip"))
    assert with_note.fingerprint == without.fingerprint


def test_wrapping_twice_wraps_once(clip: Path) -> None:
    from transformers import CLIPModel

    model = tensor_image_features(CLIPModel.from_pretrained(clip))
    wrapped = model.get_image_features
    assert tensor_image_features(model).get_image_features is wrapped


def test_other_models_of_the_class_stay_as_they_are(clip: Path) -> None:
    from transformers import CLIPModel

    tensor_image_features(CLIPModel.from_pretrained(clip))
    assert "get_image_features" not in vars(CLIPModel.from_pretrained(clip))
