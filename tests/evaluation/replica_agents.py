"""Agents that Ray builds in processes of its own for test_replicas; they tell what they were asked in a file of the cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from agents.base_agent import Message
from agents.crag_agent import CragAgent
from agents.models.base import ChatReply, ChatRequest
from agents.profiles.model_set import ModelSet
from agents.runner.start_up import StartUp, Step
from agents.search.shared_search import SharedSearch
from agents.settings.run_config import RunConfig
from tests.agent.scripted import ScriptedChat, WordOverlapReranker

ASKED = "asked.txt"
SEARCHED = "searched.txt"
FATAL = "fatal.txt"
"""``once:QUERY`` or ``always:QUERY``: the first agent that is asked it dies, or each does. ``search:QUERY`` or ``for good:QUERY``: once the
search of its machine does, and Ray starts it again or not. ``warm-up:``: the first agent that loads its models dies. ``weights:``: no agent
can load its models."""


class TellingAgent(CragAgent):
    """Agent of a preset that tells its process and each query; its answers depend on all earlier ones."""

    folder: Path

    def warm_up(self, *, blank_turn: bool = True) -> StartUp:
        """Die (by SIGKILL), fail, or do as ``CragAgent``."""
        fatal = self.folder / FATAL
        when = fatal.read_text() if fatal.exists() else ""
        if when == "warm-up:":
            fatal.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if when == "weights:":
            return StartUp((Step("chat", 0.0, "no weights", "chat"),), 0.0)
        return super().warm_up(blank_turn=blank_turn)

    def batch_generate_response(
        self,
        queries: Sequence[str],
        images: Sequence[Image.Image | None],
        message_histories: Sequence[Sequence[Message]] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Die (by SIGKILL), or answer as ``CragAgent``."""
        with (self.folder / ASKED).open("a") as file:  # one write, which other processes do not break up
            file.write("".join(f"{os.getpid()}\t{query}\n" for query in queries))
        fatal = self.folder / FATAL
        how_often, query = fatal.read_text().split(":") if fatal.exists() else ("", "")
        if query in queries:
            if how_often != "always":
                fatal.unlink()
            if how_often in ("once", "always"):
                os.kill(os.getpid(), signal.SIGKILL)
            _end_search(self.search_pipeline.actor, for_good=how_often == "for good")
        return super().batch_generate_response(queries, images, message_histories, **kwargs)


def build(config: RunConfig, pipeline: Any, **options: Any) -> TellingAgent:
    """Build an agent without weights, in place of ``CragAgent.from_config``."""
    ready = {"chat": ScriptedChat(_reply), "reranker": WordOverlapReranker()}
    models = ModelSet(config.profile, config.cache, ready=ready)
    agent = TellingAgent.from_config(config, pipeline, models=models)
    agent.folder = config.cache
    if isinstance(pipeline, SharedSearch):
        with (config.cache / SEARCHED).open("a") as file:
            file.write(f"{find_process(pipeline.actor)}\n")
    return agent


def find_process(actor: Any) -> int:
    """Return the process of an actor of Ray."""
    import ray

    return int(ray.get(actor.process.remote()))


def _end_search(actor: Any, *, for_good: bool) -> None:
    """Kill the actor, and wait until it cannot be asked."""
    import ray

    if for_good:
        ray.kill(actor)
    else:
        os.kill(find_process(actor), signal.SIGKILL)
    with contextlib.suppress(ray.exceptions.RayActorError):
        while True:
            ray.get(actor.node.remote())


def build_nothing(config: RunConfig, pipeline: Any, **options: Any) -> TellingAgent:
    """Fail as an agent does whose model is missing."""
    from agents.models.base import ModelError

    raise ModelError("there are no weights")


def _reply(request: ChatRequest) -> ChatReply:
    """Reply right, wrong or not at all, by all earlier messages: a run that loses one gets other scores."""
    prompt = request.messages[-1].content
    number = prompt.split("What is number ")[-1].split(" of ")[0]
    answers = (f"Number {number}.", f"It is number 1{number}", "I don't know", "A café in “Zürich”")
    return ChatReply(answers[hashlib.sha256(prompt.encode()).digest()[4] % 4], "stop", logprobs=(-0.1,))
