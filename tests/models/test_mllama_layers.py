"""What transformers computes for Llama-3.2-Vision is corrected when a checkpoint is loaded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MllamaForConditionalGeneration

from agents.models.chat import mllama_layers
from agents.models.chat.mllama_layers import correct_mllama, takes_features_late
from tests.models.tiny_checkpoints import save_llama, save_mllama

IMAGE = "<|image|>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_mllama(tmp_path_factory.mktemp("mllama"))


@pytest.fixture
def model(folder: Path) -> Iterator[Any]:
    with torch.no_grad():
        yield MllamaForConditionalGeneration.from_pretrained(folder).eval()


def features(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The features that a picture's encoder adds to its last state, and the input of its first layer."""
    vision = model.model.vision_model
    inputs: list[torch.Tensor] = []
    hook = vision.transformer.layers[0].register_forward_pre_hook(
        lambda _, arguments, named: inputs.append((*arguments, *named.values())[0]), with_kwargs=True
    )
    torch.manual_seed(0)
    one = torch.ones(1, 1, dtype=torch.long)
    mask = torch.ones(1, 1, 4, dtype=torch.long)
    states = vision(torch.rand(1, 1, 4, 3, 28, 28), one * 6, mask).last_hidden_state
    hook.remove()
    width = vision.config.hidden_size
    *_, tiles, patches, _ = states.shape
    return states[0, 0, :, :, width:], inputs[0].reshape(tiles, -1, width)[:, :patches]


def test_features_are_those_before_the_layers_that_are_named(model: Any) -> None:
    picture_features, before = features(model)
    assert torch.equal(picture_features, before) is not takes_features_late()
    correct_mllama(model)
    picture_features, before = features(model)
    assert torch.equal(picture_features, before)


def test_a_version_that_takes_them_before_is_left_alone(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    picture_features, _ = features(model)
    monkeypatch.setattr(mllama_layers, "takes_features_late", lambda: False)
    correct_mllama(model)
    assert torch.equal(features(model)[0], picture_features)


def compute_states(model: Any, processor: Any, text: str, shade: int) -> torch.Tensor:
    from PIL import Image

    batch = processor(text=[text], images=[[Image.new("RGB", (28, 28), (shade, 0, 0))]], return_tensors="pt")
    return model(**batch, output_hidden_states=True).hidden_states[-1][0]  # type: ignore[no-any-return]


def test_tokens_before_the_picture_do_not_see_it(model: Any, folder: Path) -> None:
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained(folder)
    text = f"<|begin_of_text|>How tall?{IMAGE} It is"
    image = processor.tokenizer.encode(text, add_special_tokens=False).index(model.config.image_token_id)
    assert image > 2
    one, other = (compute_states(model, processor, text, shade) for shade in (0, 255))
    assert not torch.equal(one[:image], other[:image])  # transformers' own
    correct_mllama(model)
    one, other = (compute_states(model, processor, text, shade) for shade in (0, 255))
    assert torch.equal(one[:image], other[:image])
    assert not torch.equal(one[image:], other[image:])


def test_other_models_are_left_alone(tmp_path: Path) -> None:
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(save_llama(tmp_path))
    correct_mllama(model)
    assert not any(module._forward_hooks for module in model.modules())
