"""Scripted models and searches, for tests of the stages' logic alone; they count their calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from PIL import Image

from agents.asking.prompts import PromptLibrary
from agents.models.base import ChatReply, ChatRequest, Detection, FloatArray, TextLine
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import PROMPTS, Profile
from agents.runner.pipeline import Pipeline
from agents.search.gateway import SearchGateway
from agents.search.hits import Entity, ImageHit
from agents.search.pages.page_reader import PageReader
from agents.search.retrieved import cleaned_page
from agents.settings.presets import Settings, settings_from
from agents.settings.stage_needs import create_stages
from agents.stage import Context, Stage
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from agents.turn import Turn
from tests.support.process_functions import WORKER

GATHERING: dict[str, Any] = {
    "stages": ["web_search", "evidence", "two_stage_rerank", "steps", "finalise"],
    "two_stage_rerank": {"coarse": False},
}
"""A preset of the stage ``steps`` with what gathers its evidence."""

Say = Callable[[ChatRequest], str | ChatReply]


@dataclass
class ScriptedChat:
    """Says what a function makes of each request; ``batches`` holds the size of each call."""

    say: Say
    name: str = "scripted"
    batches: list[int] = field(default_factory=list)
    requests: list[ChatRequest] = field(default_factory=list)

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        self.batches.append(len(requests))
        self.requests.extend(requests)
        replies = [self.say(request) for request in requests]
        return [ChatReply(reply, "stop") if isinstance(reply, str) else reply for reply in replies]


@dataclass
class ScriptedReranker:
    """Scores a passage for a query as a function does; ``pairs`` holds all that it was asked, ``calls`` how often."""

    rate: Callable[[str, str], float]
    name: str = "scripted"
    calls: int = 0
    pairs: list[tuple[str, str]] = field(default_factory=list)

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        self.calls += 1
        self.pairs += pairs
        return np.asarray([self.rate(query, passage) for query, passage in pairs], dtype=np.float32)


def share_words(query: str, passage: str) -> float:
    """Share of the query's words that a passage holds."""
    words = set(query.lower().split())
    return len(words & set(passage.lower().split())) / max(1, len(words))


@dataclass
class WordOverlapReranker(ScriptedReranker):
    """Scores by the share of the query's words that a passage holds."""

    rate: Callable[[str, str], float] = share_words


@dataclass
class ScriptedOcr:
    """Reads the same lines in every image."""

    lines: list[TextLine]
    name: str = "scripted"

    def read(self, images: Sequence[Image.Image]) -> list[list[TextLine]]:
        return [self.lines for _ in images]


@dataclass
class ScriptedDetector:
    """Finds the same objects in every image; ``phrases`` holds those of the last call."""

    detections: list[Detection]
    calls: int = 0
    name: str = "scripted"
    phrases: list[tuple[str, ...]] = field(default_factory=list)

    def detect(self, images: Sequence[Image.Image], phrases: Sequence[Sequence[str]]) -> list[list[Detection]]:
        self.calls += 1
        self.phrases = [tuple(own) for own in phrases]
        return [list(self.detections) for _ in images]


class Alike:
    """Encoder to which all texts are alike."""

    name = "alike"

    def encode(self, texts: Any) -> Any:
        return np.ones((len(texts), 2)) / np.sqrt(2)


class ScriptedPipeline:
    """A search with the organiser's result format: pictures by their size, pages by the words of the query."""

    def __init__(self, entities: dict[tuple[int, int], tuple[str, dict[str, Any]]], pages: dict[str, str]) -> None:
        self.entities = entities
        self.pages = pages
        self.queries: list[Any] = []

    def __call__(self, query: Any, k: int = 5) -> list[dict[str, Any]]:
        self.queries.append(query)
        if isinstance(query, str):
            words = set(query.lower().replace("?", "").split())
            scored = sorted(
                ((len(words & set(text.lower().split())), name) for name, text in self.pages.items()), reverse=True
            )
            return [
                {
                    "index": f"https://p.example/{name}_chunk_0",
                    "score": score / 10,
                    "page_name": name,
                    "page_snippet": self.pages[name],
                    "page_url": f"https://p.example/{name}",
                }
                for score, name in scored[:k]
            ]
        entity = self.entities.get(query.size)
        if entity is None:
            return []
        name, attributes = entity
        return [
            {
                "index": list(self.entities).index(query.size),
                "score": 0.9,
                "url": f"https://i.example/{name}",
                "entities": [{"entity_name": name, "entity_attributes": attributes}],
            }
        ]


def settings(**tables: Any) -> Settings:
    """Settings of a preset of the last stage alone, with tables for the stages that a test runs."""
    return settings_from({"stages": ["finalise"], **tables})


def hit(name: str, score: float, index: int = 0, **attributes: Any) -> ImageHit:
    """A picture that shows an entity."""
    return ImageHit(index, score, f"https://i.example/{name}", (Entity(name, attributes),))


@dataclass(frozen=True)
class Scripted(Context):
    """A context that knows the settings from which ``run`` takes the options of a stage."""

    settings: Settings = field(kw_only=True)


def context(
    settings: Settings, pipeline: Any = None, seconds: float = float("inf"), boxes: str = "none", **models: Any
) -> Scripted:
    """A context over scripted parts; ``boxes`` is the form in which the chat model gives them."""
    from pathlib import Path

    return Scripted(
        ModelSet(Profile(name="scripted", models={"chat": {"boxes": boxes}}), Path("unused"), ready=models),
        SearchGateway(pipeline, each_page=cleaned_page, read_pages=PageReader(WORKER, safe=False)),
        PromptLibrary(PROMPTS),
        Deadline(seconds),
        settings.limits,
        settings.stages,
        settings.fetch,
        guarded=settings.guard.injection,
        settings=settings,
    )


def run(stage: type[Stage], turns: Sequence[Turn], parts: Scripted) -> None:
    """Run a stage by itself, so that whatever it raises is seen; it gathers with all such stages of the settings."""
    gathering = tuple(other for other in create_stages(parts.settings) if other.gathers)
    stage(parts.settings.options(stage)).run(turns, replace(parts, gathering=gathering))


def build_pipeline(parts: Scripted, *stages: type[Stage]) -> Pipeline:
    """The stages of the settings, or the given ones, as production runs them."""
    instances = [stage(parts.settings.options(stage)) for stage in stages]
    return Pipeline(parts.settings, parts.models, parts.search, parts.prompts, stages=instances or None)


def run_stages(turns: Sequence[Turn], parts: Scripted, *stages: type[Stage]) -> None:
    """Take turns through the stages of the settings, or through the given ones, as production does."""
    build_pipeline(parts, *stages).run(turns, parts.deadline)


def turn(query: str, size: tuple[int, int] | None = (64, 48), **fields: Any) -> Turn:
    """A turn with a plain image of a size that the scripted pipeline knows things by."""
    dialog_turn = Turn(query=query, image=Image.new("RGB", size) if size else None, **fields)
    dialog_turn.question = dialog_turn.question or query
    return dialog_turn
