"""Linear layers that are kept in 8 bits answer as those rounded anew; what cannot be read is made again, what cannot be kept is used."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

from agents.models.base import ChatMessage, ChatReply, ChatRequest, ModelError
from agents.models.chat import gguf_checkpoint
from agents.models.chat.transformers_chat import TransformersChat
from agents.models.chat.transformers_checkpoint import load_checkpoint
from tests.models.tiny_checkpoints import save_llama


@pytest.fixture(scope="module")
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint without biases ("llama"), with biases ("qwen2"), or one whose output layer is its embedding too."""
    kind = getattr(request, "param", "qwen2, tied")
    folder = save_llama(tmp_path_factory.mktemp("made") / "model")
    if kind != "llama":
        torch.manual_seed(0)
        vocabulary = load_file(folder / "model.safetensors")["model.embed_tokens.weight"].shape[0]
        config = Qwen2Config(
            vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings="tied" in kind,
            bos_token_id=None, eos_token_id=1, initializer_range=0.5,
        )  # fmt: skip
        model = Qwen2ForCausalLM(config)
        for layer in model.model.layers:
            torch.nn.init.normal_(layer.self_attn.q_proj.bias)
        model.to(torch.bfloat16).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def gguf(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What reading a GGUF file of that checkpoint gives; a real file is read in ``test_vision_and_registry``."""
    monkeypatch.setattr(gguf_checkpoint, "read_model", lambda _: load_checkpoint(checkpoint).model)
    monkeypatch.setattr(
        gguf_checkpoint, "convert_tokenizer", lambda _, to: load_checkpoint(checkpoint).tokenizer.save_pretrained(to)
    )
    return Path("model.gguf")


def replies(source: Path, cache: Path) -> list[ChatReply]:
    chat = TransformersChat.load(source, int8=True, cache=cache)
    assert chat.name == "model (int8)"
    texts = ("fox", "How tall is the Eiffel Tower? " * 3)
    return chat.chat([ChatRequest((ChatMessage("user", text),), max_tokens=6, logprobs=True) for text in texts])


def find_int8_file(cache: Path) -> Path:
    (folder,) = (cache / "models").iterdir()
    return folder / "int8.safetensors"


@pytest.mark.parametrize("checkpoint", ["llama", "qwen2", "qwen2, tied"], indirect=True)
def test_the_second_time_no_exact_weight_is_read(
    checkpoint: Path, gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounded_anew = replies(checkpoint, tmp_path)
    assert all(reply.text and reply.error is None for reply in rounded_anew)
    first = replies(gguf, tmp_path)
    monkeypatch.setattr(gguf_checkpoint, "read_model", lambda _: pytest.fail("read whole"))
    assert first == replies(gguf, tmp_path) == rounded_anew
    others = {name for name in load_file(find_int8_file(tmp_path)) if not name.endswith((".rounded", ".scale"))}
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
def test_a_file_that_cannot_be_used_is_made_again(
    spoil: Any, gguf: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, whole = replies(gguf, tmp_path), find_int8_file(tmp_path).read_bytes()
    spoil(find_int8_file(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert replies(gguf, tmp_path) == first
    assert "cannot be used and is made again" in caplog.text
    assert find_int8_file(tmp_path).read_bytes() == whole


def test_what_is_broken_each_time_is_an_error(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetensors.torch.save_file", lambda _, file: file.write_bytes(b""))
    with pytest.raises(ModelError, match=r"Cannot load chat model model\.gguf from its rounded weights"):
        replies(gguf, tmp_path)


def test_a_full_disk_is_told_and_nothing_is_left(gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", refuse)
    with pytest.raises(ModelError, match=r"Cannot convert model\.gguf into .*No space left on device"):
        replies(gguf, tmp_path)
    assert [*(tmp_path / "models").iterdir()] == []


def test_a_checkpoint_of_ones_own_is_rounded_each_time(checkpoint: Path, tmp_path: Path) -> None:
    before = {path.name for path in checkpoint.iterdir()}
    replies(checkpoint, tmp_path)
    assert {path.name for path in checkpoint.iterdir()} == before and [*tmp_path.iterdir()] == []


def test_other_devices_and_types_are_refused(checkpoint: Path) -> None:
    for option in ({"device": "cuda"}, {"dtype": "float16"}):
        with pytest.raises(ModelError, match=r'int8 = true works only on device = "cpu"'):
            TransformersChat.load(checkpoint, int8=True, **option)  # type: ignore[arg-type]
