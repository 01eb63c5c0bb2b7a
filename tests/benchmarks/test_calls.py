"""The counter of model calls: what it sees, and that it would tell a stage that asks twice."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

from agents import launch
from agents.models import registry
from agents.models.base import ChatReply, ModelError, MultimodalReranker
from agents.settings import Profile
from benchmarks.calls import Call, CallLog, Counted, CountingRegistry, Question, count_calls, repeated, table_of
from tests.agent.scripted import ScriptedChat, WordOverlapReranker


def _scripted() -> ScriptedChat:
    return ScriptedChat(lambda _: ChatReply("a lion", "stop"))


class _Outer:
    """A chat model that asks another one twice."""

    name = "outer"

    def __init__(self, inner: ScriptedChat) -> None:
        self._inner = inner

    def chat(self, requests: Any, deadline: Any = None) -> Any:
        self._inner.chat(requests[:1])
        return self._inner.chat(requests)


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setitem(registry.KINDS, "scripted", f"{__name__}:_scripted")
    monkeypatch.setitem(registry.KINDS, "outer", f"{__name__}:_Outer")
    made = Profile(name="scripted", models={"chat": {"kind": "outer", "inner": {"kind": "scripted"}}})
    monkeypatch.setattr(launch, "load_profile", lambda _: made)
    return made


def test_calls_of_stages_and_within_models_are_told_apart(profile: Profile, tmp_path: Path) -> None:
    questions = [Question(f"What is this, number {n}?", Image.new("RGB", (32, 32))) for n in range(5)]
    calls = count_calls(questions, "vlm_only", "scripted", None, tmp_path)
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
        count_calls([Question("What?", None)], "vlm_only", "scripted", None, tmp_path)


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
