"""What the adapters over transformers checkpoints share, and the registry that builds them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.models.base import ModelError
from agents.models.chat.transformers_checkpoint import load_checkpoint
from agents.models.encoders.blip2 import Blip2QFormer
from agents.models.encoders.text_encoder import TransformerTextEncoder
from agents.models.pretrained import Pretrained, deduplicate, load_model, save_model, without_bars
from agents.models.registry import KINDS, ModelRegistry, list_options
from agents.models.rerankers.qwen3_reranker import Qwen3Reranker
from agents.models.vision.grounding_dino import GroundingDinoDetector
from agents.models.vision.sam import SamSegmenter
from agents.search.encoders import TextIndexEncoder
from agents.search.hits import SearchError
from tests.models.tiny_checkpoints import save_bert, save_llama
from tests.models.tiny_rankers import save_blip2, save_grounding_dino, save_qwen3, save_sam


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"))


def test_the_weights_have_the_type_that_is_asked_for(bert: Path) -> None:
    half = TransformerTextEncoder(bert, dtype="bfloat16")
    assert next(half._loaded[1].parameters()).dtype == torch.bfloat16
    vectors = half.encode(["a tower"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, TransformerTextEncoder(bert).encode(["a tower"]), atol=0.05)


def test_loading_and_saving_draw_no_bars(bert: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    chat = save_llama(tmp_path / "chat")
    capfd.readouterr()
    TransformerTextEncoder(bert).encode(["a tower"])
    TextIndexEncoder.load(str(bert), 1)
    model = load_checkpoint(chat).model
    with without_bars():
        model.save_pretrained(tmp_path / "saved")
    assert capfd.readouterr() == ("", "")


def test_transformers_4_reads_the_positions_of_what_is_saved(tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(save_llama(tmp_path / "made"))
    path = tmp_path / "made" / "config.json"
    path.write_text(
        json.dumps(config.to_diff_dict() | {"rope_theta": 500_000.0, "rope_parameters": None}), encoding="utf-8"
    )
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "made")
    save_model(model, tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "config.json").read_text(encoding="utf-8"))["rope_theta"] == 500_000.0
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    tokens = torch.arange(40)[None] % model.config.vocab_size
    assert torch.equal(again(tokens).logits, model(tokens).logits)


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
def test_a_device_that_is_not_there_is_a_clear_error(bert: Path, device: str) -> None:
    with pytest.raises(ModelError, match="Cannot load text encoder"):
        TransformerTextEncoder(bert, device=device).encode(["a tower"])


def test_auto_is_the_gpu_where_there_is_one(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for there, device in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=there: found)
        assert Pretrained(bert, device="auto").device == device


def test_a_checkpoint_of_another_kind_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "resnet"}')
    with pytest.raises(ModelError, match="Cannot load text encoder"):
        TransformerTextEncoder(tmp_path).encode(["a tower"])


def drop(folder: Path, word: str) -> None:
    """Take the weights with this word in their name out of a checkpoint."""
    path = folder / "model.safetensors"
    weights = {name: value for name, value in load_file(path).items() if word not in name}
    assert 0 < len(weights) < len(load_file(path))
    save_file(weights, path, metadata={"format": "pt"})


class TiedLayers(torch.nn.Module):
    """Two layers with one weight, and positions, which transformers of some versions lists as missing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.register_buffer("positions", torch.arange(3))

    @classmethod
    def from_pretrained(cls, path: set[str], **options: Any) -> tuple[TiedLayers, dict[str, set[str]]]:
        return cls(), {"missing_keys": path}


def test_only_weights_that_are_random_are_missed() -> None:
    load_model(TiedLayers, {"second.weight", "positions"})  # type: ignore[arg-type]
    for missing in ({"second.bias"}, {"first.weight", "second.weight"}, {"third.weight"}):
        with pytest.raises(ValueError, match=sorted(missing)[0]):
            load_model(TiedLayers, missing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("save", "kind", "word", "noun"),
    [
        (save_blip2, Blip2QFormer, "text_projection", "BLIP-2"),
        (save_grounding_dino, GroundingDinoDetector, "text_projection", "detector"),
        (save_sam, SamSegmenter, "mask_decoder", "segmenter"),
        (save_bert, TransformerTextEncoder, "layer.0.attention", "text encoder"),
        (save_qwen3, partial(Qwen3Reranker, instruction="x"), "layers.1.", "reranker"),
        (save_bert, TextIndexEncoder.load, "layer.0.attention", "text encoder"),
    ],
)
def test_a_checkpoint_that_lacks_weights_is_refused(
    tmp_path: Path, save: Callable[[Path], Path], kind: Callable[..., Any], word: str, noun: str
) -> None:
    folder = save(tmp_path / "whole")
    _ = getattr(kind(str(folder)), "_loaded", None)  # whole it loads
    drop(folder, word)
    with pytest.raises(
        (ModelError, SearchError), match=rf"(?i)cannot load (the )?{noun} .*it lacks the weights .*{word}"
    ):
        _ = kind(str(folder))._loaded


def test_a_text_encoder_does_without_the_pooler_that_it_never_asks(tmp_path: Path) -> None:
    whole = TransformerTextEncoder(save_bert(tmp_path / "whole")).encode(["a tower"])
    drop(tmp_path / "whole", "pooler")
    np.testing.assert_array_equal(TransformerTextEncoder(tmp_path / "whole").encode(["a tower"]), whole)


def test_passes_take_rows_of_like_length_together_each_once() -> None:
    passes = list(Pretrained("x", batch_size=2).passes([5, 1, 9, 1, 7]))
    assert passes == [[2, 4], [0, 1], [3]]
    assert list(Pretrained("x").passes([])) == []


def test_distinct_items_and_where_each_stands() -> None:
    assert deduplicate(["b", "a", "b", "c", "a"]) == (["b", "a", "c"], [0, 1, 0, 2, 1])
    assert deduplicate([]) == ([], [])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_says_its_options(kind: str) -> None:
    assert isinstance(list_options(kind), dict)


def test_a_part_that_is_no_specification_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="'cosine' cannot be built"):
        ModelRegistry(tmp_path).load({"kind": "cosine", "encoder": "minilm"})


def test_a_kind_whose_library_is_missing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "lacking", "no_such_library.models:Model")
    with pytest.raises(ModelError, match=r"'lacking' needs a library.*no_such_library"):
        ModelRegistry(tmp_path).load({"kind": "lacking"})
