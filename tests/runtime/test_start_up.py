"""Start-up: lanes, steps that are timed, failures that cost one model alone; the preset's LoRA adapter."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents import launch
from agents.crag_agent import CragAgent
from agents.model_set import ModelSet
from agents.models.base import FloatArray, ModelError
from agents.models.chat.transformers_chat import TransformersChat
from agents.prompts import PromptLibrary
from agents.runtime.equipment import equip, with_lora
from agents.runtime.exercise import exercise
from agents.runtime.read_ahead import read_ahead, weight_files
from agents.runtime.start_up import LIMIT_SECONDS, StartUp, lanes_of, load_models
from agents.settings import PROMPTS, Profile, SearchModels, Settings, SettingsError, settings_from
from tests.agent.scripted import ScriptedChat, WordOverlapReranker
from tests.models.tiny_checkpoints import save_mllama

MINILM = {"kind": "minilm"}


def test_models_that_share_parts_or_transformers_load_one_after_another() -> None:
    specs: dict[str, Mapping[str, Any]] = {
        "reranker": {"kind": "cosine", "encoder": MINILM},
        "ocr": {"kind": "rapidocr"},
        "entity_finder": {"kind": "spacy-entities"},
        "detector": {"kind": "grounding-dino", "path": "x"},
    }
    assert sorted(map(sorted, lanes_of(specs))) == [["detector", "reranker"], ["entity_finder"], ["ocr"]]
    composed = {"kind": "composed", "text": {"kind": "smollm2"}, "ocr": {"kind": "rapidocr"}}
    assert sorted(map(sorted, lanes_of({**specs, "chat": composed}))) == [
        ["chat", "detector", "ocr", "reranker"],
        ["entity_finder"],
    ]


class MeetingModels(ModelSet):
    """Each model waits for the other: they come through only when they are loaded at once."""

    def __init__(self, specs: dict[str, dict[str, Any]]) -> None:
        super().__init__(Profile(name="p", models=specs), Path("unused"))
        self.barrier = threading.Barrier(2, timeout=20)
        self.order: list[str] = []

    def get(self, role: str) -> Any:
        if role != "chat":
            self.barrier.wait()
        self.order.append(role)
        return object()


def test_independent_models_load_at_once_and_an_engine_after_all_others(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"0" * 1000)
    models = MeetingModels(
        {
            "chat": {"kind": "vllm", "path": str(tmp_path)},
            "ocr": {"kind": "rapidocr"},
            "reranker": {"kind": "flag-reranker", "path": "x"},
        }
    )
    steps = load_models(models, ["chat", "ocr", "reranker", "not in the profile"], 0.0)
    assert [step.error for step in steps] == [None] * 4
    assert models.order[-1] == "chat"
    assert {step.name for step in steps if step.lane == "disk"} == {"read 0.0 GB of weights ahead"}
    assert {step.name for step in steps if step.lane != "disk"} == {"load chat", "load ocr", "load reranker"}


def test_a_model_that_cannot_be_loaded_is_named_and_costs_no_other() -> None:
    profile = Profile(
        name="p",
        models={"detector": {"kind": "nothing"}, "reranker": {"kind": "cosine", "encoder": {"kind": "minilm"}}},
    )
    settings = Settings(stages=("ground", "rerank", "answer", "finalise"))
    models = ModelSet(profile, Path("unused"), ready={"chat": ScriptedChat(lambda _: "hello")})
    done = launch.warm_up(CragAgent(None, settings=settings, models=models))
    assert done is not None and done.in_time
    assert [step.name for step in done.failures] == ["load detector"]
    assert "Unknown model kind 'nothing'" in str(done.failures[0].error)
    assert {"load reranker", "blank turn: answer"} <= {step.name for step in done.steps}


def test_the_limit_is_ten_minutes() -> None:
    assert StartUp((), LIMIT_SECONDS).in_time and not StartUp((), LIMIT_SECONDS + 1).in_time


class Encoder:
    name = "encoder"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str]) -> FloatArray:
        self.texts += texts
        return np.zeros((len(texts), 2), dtype=np.float32)


class Ocr:
    name = "ocr"
    seen = 0

    def read(self, images: Sequence[Any]) -> list[list[Any]]:
        self.seen += len([image.size for image in images])
        return [[] for _ in images]


def test_each_kind_of_model_is_exercised_by_its_own_method() -> None:
    encoder, reranker, ocr = Encoder(), WordOverlapReranker(), Ocr()
    for model in (encoder, reranker, ocr, ScriptedChat(lambda _: pytest.fail("a chat model is not asked here"))):
        exercise(model)
    assert len(encoder.texts) == 1 and reranker.calls == 1 and ocr.seen == 1


def test_a_chat_model_of_this_process_is_asked_once(tmp_path: Path) -> None:
    chat = TransformersChat.load(save_mllama(tmp_path), max_image_side=56)
    exercise(chat)
    chat._checkpoint.model.forward = None  # as if the device had failed
    with pytest.raises(ModelError, match="loads, but cannot answer"):
        exercise(chat)


def test_an_encoder_of_pictures_gets_one() -> None:
    exercise(ModelSet(Profile(name="p", models={"e": {"kind": "efficientnet-lite2"}}), Path("unused")).get("e"))


def test_weights_are_read_from_a_folder_and_not_beyond_the_stop(tmp_path: Path) -> None:
    for name in ("model-1.safetensors", "model-2.safetensors", "training.bin"):
        (tmp_path / name).write_bytes(b"1" * 500)
    files = weight_files(str(tmp_path))
    assert [file.name for file in files] == ["model-1.safetensors", "model-2.safetensors"]
    assert read_ahead(files, threading.Event()) == 1000
    stopped = threading.Event()
    stopped.set()
    assert read_ahead(files, stopped) == 0
    assert weight_files("nobody/nothing") == [] and weight_files("") == []


LORA = {"name": "ours", "path": "nowhere/adapter"}


def test_a_preset_gives_its_adapter_to_the_engine() -> None:
    settings = settings_from({"stages": ["answer", "finalise"], "lora": LORA})
    profile = Profile(name="p", models={"chat": {"kind": "vllm", "path": "x"}})
    assert with_lora(settings, profile).models["chat"]["lora"] == LORA
    assert with_lora(Settings(stages=("answer",)), profile) is profile


def test_an_adapter_for_a_model_outside_vllm_is_refused() -> None:
    settings = settings_from({"stages": ["answer", "finalise"], "lora": LORA})
    profile = Profile(name="p", models={"chat": {"kind": "smollm2"}}, search=SearchModels(kind="embedded"))
    with pytest.raises(SettingsError, match=r"'ours'.*'smollm2'"):
        equip(settings, profile, PromptLibrary(PROMPTS))


def test_a_missing_adapter_is_a_clear_error_before_an_engine_starts() -> None:
    profile = Profile(name="p", models={"chat": {"kind": "vllm", "path": "nowhere/model", "lora": LORA}})
    with pytest.raises(ModelError, match="LoRA adapter 'ours' is missing"):
        ModelSet(profile, Path("unused")).get("chat")
