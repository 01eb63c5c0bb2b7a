"""Linear layers that are kept in 8 bits answer as those rounded anew; what cannot be read is made again, what cannot be kept is used."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

from agents.models.base import ChatMessage, ChatReply, ChatRequest
from agents.models.chat import int8_checkpoint, transformers_chat
from agents.models.chat.transformers_chat import TransformersChat
from tests.models.tiny_checkpoints import save_llama


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen2, tied"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without biases, one with, and one whose output layer is its embedding."""
    folder = save_llama(tmp_path_factory.mktemp("made") / "model")
    if request.param != "llama":
        torch.manual_seed(0)
        vocabulary = load_file(folder / "model.safetensors")["model.embed_tokens.weight"].shape[0]
        config = Qwen2Config(
            vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings="tied" in request.param,
            bos_token_id=None, eos_token_id=1, initializer_range=0.5,
        )  # fmt: skip
        model = Qwen2ForCausalLM(config)
        for layer in model.model.layers:
            torch.nn.init.normal_(layer.self_attn.q_proj.bias)
        model.to(torch.bfloat16).save_pretrained(folder)
    return folder


@pytest.fixture
def cache(made: Path, tmp_path: Path) -> Path:
    """A cache with the checkpoint as a converted one."""
    shutil.copytree(made, tmp_path / "models" / "model")
    return tmp_path


def replies(source: Path, cache: Path) -> list[ChatReply]:
    chat = TransformersChat.load(source, int8=True, cache=cache)
    asked = ("fox", "How tall is the Eiffel Tower? " * 3)
    return chat.chat([ChatRequest((ChatMessage("user", text),), max_tokens=6, logprobs=True) for text in asked])


def kept(cache: Path) -> Path:
    (file,) = (cache / "models" / "model").glob("int8_*.safetensors")
    return file


def test_the_second_time_no_exact_weight_is_read(made: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounded_anew = replies(made, cache)
    assert all(reply.text and reply.error is None for reply in rounded_anew)
    first = replies(cache / "models" / "model", cache)
    for module in (int8_checkpoint, transformers_chat):
        monkeypatch.setattr(module, "load_checkpoint", lambda *_: pytest.fail("loaded whole"))
    assert first == replies(cache / "models" / "model", cache) == rounded_anew
    others = {name for name in load_file(kept(cache)) if not name.endswith((".rounded", ".scale"))}
    assert "model.embed_tokens.weight" in others and not any("_proj.weight" in name for name in others)


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def _leave_out(name: str) -> Any:
    def spoil(file: Path) -> None:
        save_file({key: tensor for key, tensor in load_file(file).items() if key != name}, file)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        _cut,
        lambda file: file.write_bytes(b""),
        _leave_out("model.norm.weight"),
        _leave_out("model.layers.0.mlp.up_proj.rounded"),
        lambda file: save_file({"model.norm.weight": torch.ones(3)}, file),
    ],
    ids=["cut off", "empty", "without a weight", "without a layer", "of another model"],
)
def test_a_file_that_cannot_be_used_is_made_again(spoil: Any, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = cache / "models" / "model"
    first, whole = replies(source, cache), kept(cache).read_bytes()
    spoil(kept(cache))
    with caplog.at_level(logging.WARNING):
        assert replies(source, cache) == first
    assert "cannot be used and is made again" in caplog.text
    assert kept(cache).read_bytes() == whole


def test_on_a_full_disk_they_are_rounded_each_time(
    made: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", refuse)
    with caplog.at_level(logging.WARNING):
        assert replies(cache / "models" / "model", cache) == replies(made, cache)
    assert "cannot be kept" in caplog.text
    assert {path.name for path in (cache / "models" / "model").iterdir()} == {path.name for path in made.iterdir()}


def test_what_others_may_change_is_rounded_each_time(made: Path, cache: Path) -> None:
    replies(made, cache)
    assert not [*made.glob("int8_*")]
