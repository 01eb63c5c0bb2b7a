"""Start-up: order, steps that are timed, failures that cost one model alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.crag_agent import CragAgent
from agents.models.base import FloatArray, ModelError
from agents.models.chat.transformers_chat import TransformersChat
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.runner.start_up import StartUp, Step, start_up
from agents.settings.agent_config import AgentConfig
from agents.settings.presets import Settings
from tests.agent.scripted import ScriptedChat, WordOverlapReranker
from tests.models.tiny_checkpoints import save_mllama
from tests.support.hostile_files import Panic


class Ordered(ModelSet):
    """Notes the order in which models are asked for."""

    def __init__(self, specs: dict[str, dict[str, Any]]) -> None:
        super().__init__(Profile(name="p", models=specs), Path("unused"))
        self.order: list[str] = []

    def get(self, role: str) -> Any:
        self.order.append(role)
        return object()


def test_an_engine_is_loaded_after_all_others(caplog: pytest.LogCaptureFixture) -> None:
    models = Ordered({"chat": {"kind": "vllm", "path": "x"}, "ocr": {"kind": "rapidocr"}, "detector": {"kind": "y"}})
    with caplog.at_level("INFO"):
        report = start_up(models, ["chat", "ocr", "detector", "not in the profile"])
    assert models.order == ["ocr", "detector", "chat"]
    assert [step.name for step in report.steps] == ["load ocr", "load detector", "load chat"] and not report.failures
    assert "1 of 3: load ocr" in caplog.text and "start-up took" in caplog.text


def test_a_model_that_cannot_be_loaded_is_named_and_costs_no_other() -> None:
    profile = Profile(
        name="p",
        models={"detector": {"kind": "nothing"}, "reranker": {"kind": "cosine", "encoder": {"kind": "minilm"}}},
    )
    settings = Settings(stages=("ground", "rerank", "answer", "finalise"))
    models = ModelSet(profile, Path("unused"), ready={"chat": ScriptedChat(lambda _: "hello")})
    report = CragAgent(None, settings=settings, models=models).warm_up()
    assert report.in_time
    assert [step.name for step in report.failures] == ["load detector"]
    assert "there is no model kind 'nothing'" in str(report.failures[0].error)
    assert {"load reranker", "blank turn: answer"} <= {step.name for step in report.steps}


class Panicking(Ordered):
    """Models of which one panics as a library written in Rust does, whose error is no ``Exception``."""

    def get(self, role: str) -> Any:
        if role == "reranker":
            raise Panic("called `Option::unwrap()` on a `None` value")
        return super().get(role)


def test_a_panic_while_a_model_loads_is_a_failure_like_others() -> None:
    models = Panicking({"reranker": {"kind": "x"}, "chat": {"kind": "y"}})
    report = start_up(models, ["reranker", "chat"])
    assert report.fault == "load reranker: Panic: called `Option::unwrap()` on a `None` value" and models.order == [
        "chat"
    ]


def submit(models: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> CragAgent:
    """Build the agent as the evaluator does, with these models."""
    monkeypatch.setenv("CRAG_PRESET", "vlm_only")
    monkeypatch.setenv("CRAG_PROFILE", "server")
    profile = Profile(name="p", models=models)
    ready = {role: ScriptedChat(lambda _: "hello") for role, spec in models.items() if spec["kind"] == "ready"}
    monkeypatch.setattr(AgentConfig, "models", lambda _: ModelSet(profile, Path("unused"), ready=ready))
    return CragAgent(None)


def test_without_its_chat_model_an_agent_is_not_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    missing_model = {"kind": "transformers", "path": "nowhere/model"}
    with pytest.raises(ModelError, match=r"load chat: .*nowhere/model.*I don't know.*apps\.preflight"):
        submit({"chat": missing_model}, monkeypatch)
    submit({"chat": {"kind": "ready"}, "detector": missing_model}, monkeypatch)


def test_only_roles_that_are_required_are_missed() -> None:
    failed = Step("load detector", 1.0, "no weights", "detector")
    StartUp((failed, Step("load chat", 1.0, None, "chat")), 2.0).require(["chat"])
    with pytest.raises(ModelError, match="load detector: no weights"):
        StartUp((failed,), 1.0).require(["chat", "detector"])


def load_models(ready: dict[str, Any]) -> StartUp:
    """A start-up of models that are there already."""
    profile = Profile(name="p", models={role: {"kind": "ready"} for role in ready})
    return start_up(ModelSet(profile, Path("unused"), ready=ready), list(ready))


class Encoder:
    name = "encoder"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def encode(self, texts: Sequence[str]) -> FloatArray:
        self.texts += texts
        return np.zeros((len(texts), 2), dtype=np.float32)


class Ocr:
    name = "ocr"
    num_images = 0

    def read(self, images: Sequence[Any]) -> list[list[Any]]:
        self.num_images += len([image.size for image in images])
        return [[] for _ in images]


def test_each_kind_of_model_is_exercised_by_its_own_method() -> None:
    encoder, reranker, ocr = Encoder(), WordOverlapReranker(), Ocr()
    chat = ScriptedChat(lambda _: pytest.fail("a chat model is not asked here"))
    assert not load_models({"a": encoder, "b": reranker, "c": ocr, "d": chat}).failures
    assert len(encoder.texts) == 1 and reranker.calls == 1 and ocr.num_images == 1


def test_a_chat_model_of_this_process_is_asked_once(tmp_path: Path) -> None:
    chat = TransformersChat.load(save_mllama(tmp_path), max_image_side=56)
    assert not load_models({"chat": chat}).failures
    chat._checkpoint.model.forward = None  # as if the device had failed
    (failure,) = load_models({"chat": chat}).failures
    assert "loads, but cannot answer" in str(failure.error)


def test_an_encoder_of_pictures_gets_one() -> None:
    models = ModelSet(Profile(name="p", models={"e": {"kind": "efficientnet-lite2"}}), Path("unused"))
    assert not start_up(models, ["e"]).failures
