"""Records the calls that each turn of a data set makes under a preset's settings for the GPU.

The stages, prompts, retrieval and reranking are the real ones, over the mini data set's indices; only the chat models are stood in
for. What the traces of a run under the embedded profile lack, because its overlay takes other stages, is had this way.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agents.model_set import ModelSet
from agents.models.base import ModelError
from agents.models.pixels import to_rgb
from agents.pipeline import Pipeline
from agents.prompts import PromptLibrary
from agents.search.gateway import SearchGateway
from agents.settings import PROMPTS, Settings
from agents.turn import Turn
from benchmarks.latency.meter import Call, CallLog, Metered, MeteredModels
from benchmarks.latency.stand_in import StandInChat

CHAT_ROLES = ("chat", "small_chat")


@dataclass(frozen=True)
class Question:
    """What the evaluator passes of a turn."""

    query: str
    image: Any
    history: tuple[dict[str, str], ...] = ()


class StandInModels(ModelSet):
    """The models of the embedded profile, with stand-ins for chat."""

    def __init__(self, models: ModelSet) -> None:  # nothing of its own to load: it asks the other
        self._models = models
        self._chat = StandInChat()

    def get(self, role: str) -> Any:
        """The model of a role (see ``ModelSet.get``)."""
        return self._chat if role in CHAT_ROLES else self._models.get(role)


def record(asked: Iterable[Question], settings: Settings, pipeline: Any, models: ModelSet) -> Iterator[list[Call]]:
    """The calls of each turn, one turn at a time.

    Raises:
        ModelError: A stage could not be run; times without it would be too good.
    """
    log = CallLog()
    metered = MeteredModels(StandInModels(models), log)
    search = cast(SearchGateway, Metered(SearchGateway(pipeline), "search", log))
    prompts = PromptLibrary(PROMPTS, settings.limits.reply_tokens)
    stages = Pipeline(settings, metered, search, prompts)
    for question in asked:
        turn = Turn(question.query, to_rgb(question.image) if question.image is not None else None, question.history)
        turn.question = turn.query
        for stage in stages.stages:
            log.stage = stage.name
            [turn] = stages.run_stage(stage, [turn], stages.context)
            if failed := turn.trace[-1]["skipped"]:  # figures without this stage are no figures
                raise ModelError(f"stage {stage.name}: {failed}")
        yield log.take()


def write(records: Iterable[Sequence[Call]], path: Path) -> int:
    """Write records as JSON lines; returns how many."""
    path.parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for calls in records:
            file.write(json.dumps([dataclasses.asdict(call) for call in calls]) + "\n")
            count += 1
    return count


def read(path: Path) -> list[list[Call]]:
    """Records that ``write`` wrote.

    Raises:
        OSError: There is no such file.
        ValueError: It holds something else.
    """
    try:
        return [[Call(**call) for call in json.loads(line)] for line in path.read_text(encoding="utf-8").splitlines()]
    except TypeError as error:
        raise ValueError(f"{path} holds no calls: {error}") from error
