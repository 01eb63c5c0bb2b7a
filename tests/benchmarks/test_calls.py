"""The counter of model calls: what it sees, and that it would tell a stage that asks twice."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

from agents.launch import Launch
from agents.models import registry
from agents.models.base import ChatReply, ModelError, MultimodalReranker
from agents.models.registry import ModelRegistry
from agents.settings import Profile, load_settings
from benchmarks.calls import Call, CallLog, Counted, CountingRegistry, Question, count_calls, repeated, table_of
from tests.agent.scripted import ScriptedChat, WordOverlapReranker


def _scripted(registry: ModelRegistry) -> ScriptedChat:
    return ScriptedChat(lambda _: ChatReply("a lion", "stop"))


def _outer(registry: ModelRegistry, inner: dict[str, Any]) -> Any:
    """A chat model that asks another one twice."""

    class Outer:
        name = "outer"
        part = registry.load(inner)

        def chat(self, requests: Any, deadline: Any = None) -> Any:
            self.part.chat(requests[:1])
            return self.part.chat(requests)

    return Outer()


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setitem(registry.FACTORIES, "scripted", _scripted)
    monkeypatch.setitem(registry.FACTORIES, "outer", _outer)
    return Profile(name="scripted", models={"chat": {"kind": "outer", "inner": {"kind": "scripted"}}})


def launched(profile: Profile, cache: Path) -> Launch:
    return Launch("vlm_only", profile, load_settings("vlm_only", profile), cache)


def test_calls_of_stages_and_within_models_are_told_apart(profile: Profile, tmp_path: Path) -> None:
    questions = [Question(f"What is this, number {n}?", Image.new("RGB", (32, 32))) for n in range(5)]
    calls = count_calls(questions, launched(profile, tmp_path), None)
    assert calls == [
        Call("answer", "outer", "chat", 5, None),
        Call("answer", "scripted", "chat", 1, "outer"),
        Call("answer", "scripted", "chat", 5, "outer"),
    ]
    assert repeated(calls) == []
    console = Console(record=True, width=100)
    console.print(table_of(calls, "t"))
    assert "scripted.chat" in console.export_text()


def test_a_stage_that_asks_a_kind_twice_is_named() -> None:
    twice = [Call("rerank", "minilm", "encode", 3, None), Call("rerank", "minilm", "encode", 4, None)]
    assert repeated([*twice, Call("coherence", "minilm", "encode", 4, None)]) == [("rerank", "minilm.encode")]


def test_a_stage_that_cannot_run_spoils_the_count(profile: Profile, tmp_path: Path) -> None:
    profile.models.clear()
    with pytest.raises(ModelError, match="stage answer: failed"):
        count_calls([Question("What?", None)], launched(profile, tmp_path), None)


def test_a_counted_model_is_what_it_was() -> None:
    log = CallLog("rerank")
    model = Counted(WordOverlapReranker(), "overlap", log)
    assert list(model.score([("a b", "a")])) == [0.5]
    assert model.name == "overlap"
    assert not isinstance(model, MultimodalReranker)
    assert log.calls == [Call("rerank", "overlap", "score", 1, None)]


def test_models_named_alike_are_loaded_and_wrapped_once(profile: Profile, tmp_path: Path) -> None:
    models = partial(CountingRegistry, CallLog())(tmp_path)
    assert models.load({"kind": "scripted"})._behind is models.load({"kind": "scripted"})._behind
