"""Records the calls that each turn of a data set makes under a preset's settings for the GPU.

The stages, prompts, retrieval and reranking are the real ones, over the mini data set's indices; only the chat models are stood in
for. What the traces of a run under the embedded profile lack, because its overlay takes other stages, is had this way.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from PIL import Image

from agents.asking.prompts import PromptLibrary
from agents.models.base import ChatReply, ChatRequest, ModelError
from agents.pipeline import Pipeline
from agents.runtime.deadline import NO_DEADLINE, Deadline
from agents.runtime.model_set import ModelSet
from agents.search.gateway import SearchGateway
from agents.search.hits import ImageHit, Results
from agents.search.provided_context import ProvidedContext
from agents.settings.presets import Settings
from agents.settings.profiles import PROMPTS
from agents.turn import Turn
from benchmarks.latency.meter import CallLog, Metered, ModelCall, ModelsBy
from mini_crag_mm.loader import read_lines, write_lines

CHAT_ROLES = ("chat", "small_chat")

TEXT = """1. The exact name of the object that the question is about is unknown.
2. I cannot determine the figure that the question is about.
Reason: the evidence names it [1].
Relevant documents: [1] [2]
Information: it was opened in 1889 [1].
Response: yes
Confidence: 0.7
External: yes
Current: no
Answer: It was opened in 1889 and made by a company from Paris [1]."""
"""Holds every label that a prompt asks for; the draft knows neither object nor answer, so that nothing is cut short."""

_WORDS = "landmark tower"


class StandInChat:
    """A ``ChatModel`` whose replies follow the schema of a request, else hold every label."""

    name = "stand-in"

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """A reply for each request."""
        del deadline
        replies = []
        for request in requests:
            text = TEXT if request.schema is None else json.dumps(example(request.schema))
            logprobs = (-0.1,) * min(request.max_tokens, 20) if request.logprobs else None
            replies.append(ChatReply(text, "stop", logprobs))
        return replies


def example(schema: Mapping[str, Any]) -> Any:
    """A value that follows a JSON schema: true, 1, a name, and lists of three."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "")
    if kind == "object":
        return {name: example(inner) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        inner = schema.get("items", {"type": "string"})
        if inner.get("type") == "string" and "enum" not in inner:
            return [f"{_WORDS} {word}" for word in ("north", "south", "east")]  # alike ones would be dropped
        return [example(inner)] * 3
    return {"boolean": True, "integer": 1, "number": 0.7}.get(str(kind), _WORDS)  # a list of types cannot be a key


class PicturedSearch(SearchGateway):
    """A search whose picture cache holds every picture of the index, as at the competition, and whose cosines pass every cut-off."""

    def search_images(
        self, images: Sequence[Image.Image], k: int, provided: Sequence[ProvidedContext | None] | None = None
    ) -> list[Results[ImageHit]]:
        """As the search it is, in the same order, with cosines of 0.8 and more.

        Thresholds of the GPU's profile are for CLIP, whose cosines are higher than those of the features that search here: evidence and
        queries that the GPU's presets would have must not be missing from what is timed.
        """
        raised = []
        for found in super().search_images(images, k, provided):
            hits = (dataclasses.replace(hit, score=0.8 + 0.2 * max(hit.score, 0.0)) for hit in found.hits)
            raised.append(Results(tuple(hits), found.error))
        return raised

    def pictures(
        self, urls: Iterable[str], fetch: bool = False, deadline: Deadline = NO_DEADLINE
    ) -> dict[str, Image.Image]:
        """A plain picture for each URL; what a picture shows costs no time."""
        del fetch, deadline
        return {url: Image.new("RGB", (640, 480)) for url in urls if url}


def without_chat(models: ModelSet, role: str) -> Any:
    """The model of a role; of a chat model its stand-in."""
    return StandInChat() if role in CHAT_ROLES else models.get(role)


def record(asked: Iterable[Turn], settings: Settings, pipeline: Any, models: ModelSet) -> Iterator[list[ModelCall]]:
    """The calls of each turn, one turn at a time.

    Raises:
        ModelError: A stage could not be run; times without it would be too good.
    """
    log = CallLog()
    metered = ModelsBy(lambda role: Metered(without_chat(models, role), role, log))
    search = cast(SearchGateway, Metered(PicturedSearch(pipeline), "search", log))
    prompts = PromptLibrary(PROMPTS, settings.limits.reply_tokens)
    stages = Pipeline(settings, metered, search, prompts)
    names = [stage.name for stage in stages.stages]
    for turn in asked:
        turn.question = turn.query
        log.running = lambda turn=turn: names[len(turn.records)]  # type: ignore[misc]  # each stage that ended has a record
        [done] = stages.run([turn])
        missed = next((stage for stage in done.records if not stage.complete), None)
        if missed is not None:  # figures without this stage are no figures
            raise ModelError(f"stage {missed.stage}: {missed.reason}")
        yield log.take()


def write(records: Iterable[Sequence[ModelCall]], path: Path) -> None:
    """Write records as JSON lines, all of them or none."""
    write_lines(path, ([dataclasses.asdict(call) for call in calls] for calls in records))


def read(path: Path) -> list[list[ModelCall]]:
    """Records that ``write`` wrote. Raises OSError where there is no such file; ValueError where it holds something else."""
    try:
        return [[ModelCall(**call) for call in calls] for calls in read_lines(path)]
    except TypeError as error:
        raise ValueError(f"{path} holds no calls: {error}") from error
