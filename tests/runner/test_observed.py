"""Calls of stages to models and the search are recorded with their times, and nothing about them changes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agents.models.base import MultimodalReranker, Reranker
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.record import BatchCall, read_record
from agents.runner import observed
from agents.runner.observed import ObservedModels, observe_search
from agents.search.gateway import SearchGateway
from tests.agent.scripted import ScriptedChat, WordOverlapReranker
from tests.apps.conftest import PHOTO, crag_agent, red_tower


class _SeesToo:
    """A reranker of either kind that fails for a passage."""

    name = "sees-too"

    def score_multimodal(self, items: Any) -> Any:
        return np.zeros(len(items), dtype=np.float32)

    def score(self, pairs: Any) -> Any:
        if pairs[0][1] == "bad":
            raise RuntimeError("the passage bad cannot be read")
        return np.zeros(len(pairs), dtype=np.float32)


def _models(calls: list[BatchCall], **ready: Any) -> ObservedModels:
    return ObservedModels(ModelSet(Profile(name="scripted", models={}), Path("unused"), ready=ready), calls)


def test_a_call_is_recorded_with_its_size_its_times_and_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter((10.0, 10.25, 20.0, 22.0, 30.0))
    monkeypatch.setattr(observed, "time", SimpleNamespace(time=lambda: 1_000.5, perf_counter=ticks.__next__))
    calls: list[BatchCall] = []
    models = _models(calls, reranker=_SeesToo())
    assert len(models.reranker.score([("q", "a"), ("q", "b")])) == 2
    with pytest.raises(RuntimeError, match="cannot be read"):
        models.reranker.score([("q", "bad")])
    assert len(models.reranker.score_multimodal([])) == 0  # type: ignore[attr-defined]
    assert [(call.kind, call.name, call.model, call.size, call.error) for call in calls] == [
        ("reranker", "reranker", "sees-too", 2, None),
        ("reranker", "reranker", "sees-too", 1, "RuntimeError"),  # the text of an error may quote the passage
    ]
    assert [(call.began, call.seconds) for call in calls] == [(1_000.5, 0.25), (1_000.5, 2.0)]


def test_a_model_keeps_its_kind() -> None:
    calls: list[BatchCall] = []
    chat = ScriptedChat(lambda _: "yes")
    models = _models(calls, reranker=WordOverlapReranker(), coarse_reranker=_SeesToo(), chat=chat)
    assert isinstance(models.coarse_reranker, MultimodalReranker)
    assert isinstance(models.reranker, Reranker) and not isinstance(models.reranker, MultimodalReranker)
    assert models.chat().name == chat.name and models.names() == models._behind.names()
    models.chat().chat([])
    assert calls == []


def test_a_search_is_recorded_and_all_else_is_passed_on() -> None:
    calls: list[BatchCall] = []
    search = observe_search(SearchGateway(red_tower()), calls)
    assert search.image_enabled and search.can_search_web(None)
    (result,) = search.search_web(["tower"], 3)
    assert result.hits and [(call.kind, call.name, call.size) for call in calls] == [("retriever", "search_web", 1)]


def test_a_traced_turn_has_its_calls_in_the_order_of_time(tmp_path: Path) -> None:
    agent = crag_agent()
    agent.trace_to(tmp_path / "trace.jsonl")
    before = time.time()
    agent.batch_generate_response(["How tall is this?"], [PHOTO])
    record = read_record((tmp_path / "trace.jsonl").read_text())
    called = {stage.stage: [call.kind for call in stage.calls] for stage in record.stages if stage.calls}
    assert called == {"image_search": ["retriever"], "web_search": ["retriever"], "rerank": ["reranker"]}
    assert before - 1 <= record.began <= record.stages[0].began + 0.01
    began = [stage.began for stage in record.stages]
    assert began == sorted(began) and began[-1] <= record.began + record.seconds + 0.01
    (exchange,) = record.exchanges
    answer = next(stage for stage in record.stages if stage.exchanges)
    assert answer.began <= exchange.began <= answer.began + answer.seconds + 0.01 and exchange.batch == 1


def test_an_agent_without_traces_records_no_calls() -> None:
    agent = crag_agent()
    assert not agent.pipeline.observes
    agent.trace_to(None, lambda records: None)
    assert agent.pipeline.observes
    agent.trace_to(None)
    assert not agent.pipeline.observes


def test_a_trace_without_texts_has_calls_without_texts(tmp_path: Path) -> None:
    agent = crag_agent()
    agent.settings = agent.settings.model_copy(
        update={"trace": agent.settings.trace.model_copy(update={"queries": False, "images": False})}
    )
    agent.trace_to(tmp_path / "trace.jsonl")
    agent.batch_generate_response(["How tall is this?"], [PHOTO])
    text = (tmp_path / "trace.jsonl").read_text()
    assert "Red Tower" not in text and "How tall" not in text and "300 m" not in text
    calls = [call for stage in json.loads(text)["stages"] for call in stage.get("calls", ())]
    assert {call["kind"] for call in calls} == {"retriever", "reranker"}
