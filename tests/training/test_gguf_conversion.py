"""Merged weights for llama.cpp: the converter is found and its failures are told, and llama.cpp says what transformers says."""

import json
import sys
from pathlib import Path

import pytest
import torch

from agents.models.base import ChatMessage, ChatRequest
from agents.models.chat import smollm2
from agents.models.chat.gguf_checkpoint import convert_tokenizer
from agents.models.chat.llama_cpp import LlamaCppChat
from agents.models.chat.transformers_chat import TransformersChat
from training import merge
from training.chat_examples import TrainingDataError
from training.merge import PROGRAMS, convert, find_converter

INSTALLED = Path(sys.prefix) / "gguf-converter" / PROGRAMS[0]
"""Where the Makefile puts llama.cpp's converter."""

ARGUMENTS = "import json, pathlib, sys\npathlib.Path(sys.argv[3]).write_text(json.dumps(sys.argv[1:]))\n"
FAILING = (
    "import pathlib, sys\npathlib.Path(sys.argv[3]).touch()\nsys.exit('ERROR: Model XForCausalLM is not supported')\n"
)


def program(folder: Path, text: str) -> Path:
    path = folder / PROGRAMS[0]
    path.write_text(text, encoding="utf-8")
    return path


def test_the_picture_encoder_is_a_file_of_its_own(tmp_path: Path) -> None:
    command = find_converter(program(tmp_path, ARGUMENTS))
    files = convert(Path("merged"), tmp_path / "made" / "x.gguf", command, "f16", sees=True)
    assert [file.name for file in files] == ["x.gguf", "mmproj-x.gguf"]
    calls = [json.loads(file.read_text()) for file in files]
    assert [row[-1] for row in calls] == ["f16", "--mmproj"] and {row[0] for row in calls} == {"merged"}
    assert sorted(file.name for file in (tmp_path / "made").iterdir()) == ["mmproj-x.gguf", "x.gguf"]


def test_a_converter_on_the_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrainingDataError, match="--gguf-converter"):
        find_converter()
    program(tmp_path, ARGUMENTS).chmod(0o755)
    assert find_converter() == [sys.executable, str(tmp_path / PROGRAMS[0])]


def test_what_the_converter_complains_of_is_told_and_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "x.gguf"
    arguments = ["--out", str(tmp_path), "--gguf", str(target)]
    assert merge.main([*arguments, "--gguf-converter", str(program(tmp_path, FAILING))]) == 2
    assert "Model XForCausalLM is not supported" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [PROGRAMS[0]]
    assert merge.main([*arguments, "--gguf-converter", str(tmp_path / "nothing.py")]) == 2
    assert merge.main(["--out", str(tmp_path)]) == 2
    assert "--adapter" in capsys.readouterr().err


def test_llama_cpp_says_what_the_merged_weights_say(tmp_path: Path) -> None:
    try:
        converter = find_converter(INSTALLED if INSTALLED.is_file() else None)
    except TrainingDataError as error:
        pytest.skip(str(error))
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    gguf = smollm2.gguf_file()
    base = tmp_path / "base"
    tokenizer = convert_tokenizer(gguf, base)  # llama.cpp's converter refuses tokenizers that it does not know
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.2,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(base)
    lora = LoraConfig(r=4, target_modules=["q_proj", "k_proj", "down_proj"], init_lora_weights=False)
    get_peft_model(LlamaForCausalLM.from_pretrained(base), lora).save_pretrained(tmp_path / "adapter")

    merged, file = tmp_path / "merged", tmp_path / "merged.gguf"
    options = ["--adapter", str(tmp_path / "adapter"), "--base", str(base), "--out", str(merged), "--gguf", str(file)]
    assert merge.main([*options, "--gguf-converter", converter[-1], "--gguf-type", "f32"]) == 0
    request = ChatRequest((ChatMessage("user", "How tall is the Eiffel Tower?"),), max_tokens=6, logprobs=True)
    before, expected, reply = (
        chat.chat([request])[0]
        for chat in (
            TransformersChat.load(base),
            TransformersChat.load(merged),
            LlamaCppChat(file, context=256, threads=1),
        )
    )
    assert reply.text == expected.text != before.text
    assert reply.logprobs == pytest.approx(expected.logprobs, abs=1e-2)
