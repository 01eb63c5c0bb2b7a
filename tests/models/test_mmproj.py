"""Pictures through a vision tower of llama.cpp, in this process and over its own server.

The tower is random: a tiny Gemma 3 checkpoint, made here and converted by llama.cpp's own converter, as wide as SmolLM2's embeddings.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from agents.models.base import ChatMessage, ChatModel, ChatRequest, ModelError
from agents.models.chat import smollm2
from agents.models.chat.llama_cpp import LlamaCppChat
from agents.models.chat.openai_chat import OpenAIChat
from agents.models.chat.openai_probe import probe
from training.merge import PROGRAMS

CONVERTER = Path(sys.prefix) / "gguf-converter" / PROGRAMS[0]
KEY = "a-key-of-the-test"
WIDTH = 576  # of SmolLM2's embeddings

pytestmark = pytest.mark.skipif(not CONVERTER.is_file(), reason="llama.cpp's converter is not installed (make test)")


CONVERT = """
import pathlib, runpy, sys
converter, *folders = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(converter).parent))
for folder in folders:
    sys.argv = [converter, folder, "--outfile", f"{folder}/mmproj.gguf", "--outtype", "f32", "--mmproj"]
    runpy.run_path(converter, run_name="__main__")
"""
"""One process for several checkpoints: most of its time goes into imports."""


def save_tower(folder: Path, width: int) -> Path:
    """Save a tiny random checkpoint whose vision tower turns 64 x 64 pixels into 4 embeddings."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration, Gemma3ImageProcessor

    torch.manual_seed(0)
    text = {"hidden_size": width, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Gemma3Config(
        text_config={**text, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 64},
        vision_config={**vision, "image_size": 64, "patch_size": 16},
        mm_tokens_per_image=4,
        image_token_index=3,
        boi_token_index=4,
        eoi_token_index=5,
    )
    model = Gemma3ForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight, std=0.05)  # made as zeros
    model.save_pretrained(folder)
    _name_as_published(folder / "model.safetensors")
    Gemma3ImageProcessor(size={"height": 64, "width": 64}, image_seq_length=4).save_pretrained(folder)
    return folder


def _name_as_published(file: Path) -> None:
    """Name a tower's tensors as published checkpoints do, and llama.cpp's converter expects; transformers 5 saves shorter names."""
    tensors = load_file(file)
    short, whole = "vision_tower.", "vision_tower.vision_model."
    save_file(
        {name if whole in name else name.replace(short, whole): tensor for name, tensor in tensors.items()},
        file,
        metadata={"format": "pt"},
    )


@pytest.fixture(scope="module")
def gguf() -> Path:
    return smollm2.gguf_file()


@pytest.fixture(scope="module")
def towers(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Vision towers as GGUF, by the width of their embeddings: SmolLM2's, and that of another model."""
    folders = {width: save_tower(tmp_path_factory.mktemp("tower"), width) for width in (WIDTH, 64)}
    command = [sys.executable, "-c", CONVERT, str(CONVERTER), *map(str, folders.values())]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    return {width: folder / "mmproj.gguf" for width, folder in folders.items()}


@pytest.fixture(scope="module")
def mmproj(towers: dict[int, Path]) -> Path:
    return towers[WIDTH]


@pytest.fixture(scope="module")
def in_process(gguf: Path, mmproj: Path) -> ChatModel:
    return LlamaCppChat(gguf, str(mmproj), context=512, threads=1)


@pytest.fixture(scope="module")
def served(gguf: Path, mmproj: Path) -> Iterator[ChatModel]:
    """Behind llama.cpp's own server, as profile ``server`` reaches it."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path, settings.mmproj.path = str(gguf), str(mmproj)
    settings.n_ctx, settings.n_parallel = 512, 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.api_keys, settings.verbosity, settings.warmup = [KEY], 0, False
    running = xllamacpp.Server(settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        yield OpenAIChat("any", f"{running.listening_address}/v1")
    del running


def picture(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8))


@pytest.mark.parametrize("kind", ["in_process", "served"])
def test_what_a_picture_shows_reaches_the_model(kind: str, request: pytest.FixtureRequest) -> None:
    model: ChatModel = request.getfixturevalue(kind)

    def ask(*pictures: Image.Image) -> ChatRequest:
        return ChatRequest((ChatMessage("user", "What is this?", pictures),), max_tokens=2, logprobs=True)

    replies = model.chat([ask(picture(1)), ask(picture(2)), ask(picture(1)), ask()])
    assert [reply.error for reply in replies] == [None] * 4
    one, other, again, blind = (np.array(reply.logprobs) for reply in replies)
    np.testing.assert_allclose(again, one, atol=1e-3)
    for different in (other, blind):
        assert abs(different - one).max() > 0.01


def test_a_tower_of_another_model_is_told(gguf: Path, towers: dict[int, Path]) -> None:
    with pytest.raises(ModelError, match="has to be the vision tower of this very model"):
        LlamaCppChat(gguf, str(towers[64]), context=512, threads=1)


def test_the_probe_shows_llama_cpps_own_server_a_picture(served: ChatModel) -> None:
    assert isinstance(served, OpenAIChat)
    details = {each.name: each.detail for each in probe(served, sees=True).findings}
    assert "a yellow picture" in details["pictures"]  # a random tower names any colour, so it may be refused as blind
    blind_probe = probe(served, sees=False)
    assert blind_probe.fault is None
    assert {each.name: each.detail for each in blind_probe.findings}["schema"] == "kept"
