"""Models are loaded before the first question, and traces can be sent elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from agents.crag_agent import CragAgent
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.settings.presets import Settings
from tests.agent.scripted import ScriptedChat, WordOverlapReranker

SETTINGS = Settings(stages=("understand", "answer", "finalise"))


def agent(chat: ScriptedChat, trace: Path | None = None) -> CragAgent:
    models = ModelSet(
        Profile(name="scripted", models={}), Path("unused"), ready={"chat": chat, "reranker": WordOverlapReranker()}
    )
    return CragAgent(None, settings=SETTINGS, models=models, trace_path=trace)


def test_warming_up_asks_each_model_for_little_and_only_once(tmp_path: Path) -> None:
    chat = ScriptedChat(lambda _: "warm")
    crag_agent = agent(chat, tmp_path / "trace.jsonl")
    crag_agent.warm_up()
    crag_agent.warm_up()
    assert chat.batches == [1]
    assert chat.requests[0].max_tokens <= 2
    assert not (tmp_path / "trace.jsonl").exists()
    crag_agent.batch_generate_response(["Who made it?"], [Image.new("RGB", (64, 48))], [[]])
    assert chat.requests[1].max_tokens > 2


def test_warming_up_survives_a_model_that_is_not_there() -> None:
    models = ModelSet(Profile(name="scripted", models={}), Path("unused"))
    CragAgent(None, settings=SETTINGS, models=models).warm_up()


def test_traces_go_where_they_are_sent_and_calls_count_anew(tmp_path: Path) -> None:
    crag_agent = agent(ScriptedChat(lambda _: "a lion"), tmp_path / "one.jsonl")
    image = Image.new("RGB", (64, 48))
    for _ in range(2):
        crag_agent.batch_generate_response(["What?"], [image], [[]])
    crag_agent.trace_to(tmp_path / "two" / "trace.jsonl")
    crag_agent.batch_generate_response(["What?"], [image], [[]])
    lines = [json.loads(line) for line in (tmp_path / "one.jsonl").read_text().splitlines()]
    assert [line["batch"] for line in lines] == [0, 1]
    other = json.loads((tmp_path / "two" / "trace.jsonl").read_text())
    assert other["batch"] == 0
