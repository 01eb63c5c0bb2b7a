"""A recorded run over a small data set: photos of one colour each, a pipeline that knows them, a scripted chat model."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console

from agents.crag_agent import CragAgent
from agents.models.base import ChatModel, ChatRequest
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.settings.presets import settings_from
from evaluation.data.crag_dataset import load
from evaluation.judge.rule_judge import RuleJudge
from evaluation.run.launching import LaunchedAgent
from evaluation.run.phases import Judging, answer_sessions, judge_answers
from tests.agent.scripted import Say, ScriptedChat, ScriptedPipeline, WordOverlapReranker
from tests.evaluation.worlds import row, write_dataset

REVISION = "v0.1.1"
THINGS = {
    "Eiffel Tower": ((64, 48), "1889", "330 metres"),
    "Colosseum": ((48, 64), "80", "48 metres"),
    "Taj Mahal": ((56, 56), "1653", "73 metres"),
    "Big Ben": ((40, 60), "1859", "96 metres"),
    "Charminar": ((60, 40), "1591", "56 metres"),
}
QUERIES = ("When was this finished?", "How tall is this?")


def save_data(folder: Path, split: str = "validation", *, prefix: str = "s", flip: bool = False) -> Path:
    """A multi-turn data set with a session for each thing; ``flip`` mirrors the photos' colours so that they are others."""
    rows: list[dict[str, Any]] = []
    for number, (name, (size, year, height)) in enumerate(THINGS.items()):
        colour = (40 * number, 90, 200) if not flip else (200, 40 * number, 90)
        data_row = row(f"{prefix}{number}", 2, REVISION, Image.new("RGB", size, colour), None)
        for turn, query in zip(data_row["turns"], QUERIES, strict=True):
            turn["query"] = query
        truths = (f"The {name} was finished in {year}.", f"The {name} is {height} tall.")
        for answer in data_row["answers"]:
            answer["ans_full"] = truths[int(answer["interaction_id"].rpartition("-")[2])]
        rows.append(data_row)
    return write_dataset(folder, rows, REVISION, split)


def answer_from_evidence(request: ChatRequest) -> str:
    """Right on years where the evidence has them, wrong on heights; with no evidence it refuses, on heights it guesses right."""
    text = request.messages[-1].content
    thing = next((name for name in THINGS if name in text), None)
    if "When" in text:
        return f"It was finished in {THINGS[thing][1]}." if thing else "I don't know."
    return "It is 5 metres tall." if thing else "It is 330 metres tall."


class DoublingPipeline(ScriptedPipeline):
    """Finds a second entry behind each picture's own: one that repeats the questions and answers none."""

    def __call__(self, query: Any, k: int = 5) -> list[dict[str, Any]]:
        hits = super().__call__(query, k)
        if isinstance(query, str):
            return hits
        entity = {"entity_name": "Nothing", "entity_attributes": {"words": " ".join(QUERIES)}}
        return [*hits, {"index": 99, "score": 0.5, "url": "https://i.example/nothing", "entities": [entity]}]


ANSWERING = ("image_search", "evidence", "answer", "finalise")


def recorded_agent(
    say: Say = answer_from_evidence,
    stages: tuple[str, ...] = ANSWERING,
    *,
    doubles: bool = False,
    requests: bool = True,
    chat: ChatModel | None = None,
) -> CragAgent:
    """An agent over the scripted parts, whose records hold its requests."""
    models = ModelSet(
        Profile(name="scripted", models={}),
        Path("unused"),
        ready={"chat": chat or ScriptedChat(say), "reranker": WordOverlapReranker()},
    )
    entities = {
        size: (name, {"finished": year, "height": f"{height}"}) for name, (size, year, height) in THINGS.items()
    }
    return CragAgent(
        DoublingPipeline(entities, {}) if doubles else ScriptedPipeline(entities, {}),
        settings=settings_from({"stages": stages, "trace": {"requests": requests}}),
        models=models,
    )


def recorded_run(data: Path, out: Path, agent: CragAgent) -> Path:
    """Answer and judge the validation split; returns the folder of the run."""
    dataset = load("multi-turn", "validation", REVISION, data, out.parent / "cache")
    console = Console(file=io.StringIO())
    launched = LaunchedAgent(agent, listen=partial(agent.trace_to, None))
    result = answer_sessions(launched, dataset, out, console, about={"preset": "test"}, progress=False)
    judge_answers(result.turns, Judging(RuleJudge()), out, console, dataset, answers_dir=out)
    return out
