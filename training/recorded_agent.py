"""The agent with a recorder beside its trace: every chat request as the language model got it (see ``training.record_run``).

Two kinds of lines: ``chat``, a request with its reply, and ``turn``, what the agent knew of a question when it gave its answer. Images
are kept once each, as PNG files named by the SHA-256 of their pixels.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from agents.crag_agent import CragAgent
from agents.models.base import ChatModel, ChatReply, ChatRequest
from agents.models.chat.composed_vision import ComposedVisionChat
from agents.models.pixels import pixels_digest, to_rgb
from agents.models.registry import ModelRegistry, Spec
from agents.runtime.deadline import NO_DEADLINE, Deadline
from agents.runtime.secrets import scrubbed
from agents.stage import Context, Stage
from agents.turn import Turn

RECORD = "chat.jsonl"
IMAGES = "chat_images"
_LAST = "finalise"
_MAX_EVIDENCE = 20
_ENTRY = ("title", "text", "visual", "textual")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asking:
    """Whose requests are being made: the stage, the number of the batch and its turns."""

    stage: str
    batch: int
    turns: tuple[Turn, ...]


_asking: ContextVar[Asking | None] = ContextVar("asking", default=None)


def turns_of(requests: Sequence[ChatRequest], turns: Sequence[Turn]) -> list[int | None]:
    """The place of the turn behind each request, None where that cannot be told.

    Stages make their requests in the order of the batch, one or several for each turn that concerns them, and a turn's question stands in
    its requests. It may stand in another turn's too, as part of the dialog: a place is given where no other order would fit.
    """
    texts = ["\n".join(message.content for message in request.messages) for request in requests]
    asked = [[text for text in (turn.question, turn.query) if text] for turn in turns]
    fitting = [[place for place, own in enumerate(asked) if any(one in text for one in own)] for text in texts]
    found: list[int | None] = [None] * len(requests)
    open_rows = [row for row, places in enumerate(fitting) if places]
    candidates = [fitting[row] for row in open_rows]
    mirrored = [[-place for place in places] for places in reversed(candidates)]
    for minimum in (1, 0):  # one request a turn, where that is possible; else several
        first, last = _in_order(candidates, minimum), _in_order(mirrored, minimum)
        if first is None or last is None:
            continue
        for row, earliest, latest in zip(open_rows, first, reversed(last), strict=True):
            found[row] = earliest if earliest == -latest else None
        break
    return found


def _in_order(candidates: Sequence[Sequence[int]], minimum: int) -> list[int] | None:
    """The smallest places, each at least ``minimum`` after the one before; None where there are none."""
    chosen: list[int] = []
    for places in candidates:
        left = [place for place in places if not chosen or place >= chosen[-1] + minimum]
        if not left:
            return None
        chosen.append(min(left))
    return chosen


class Recorder:
    """Appends lines to a file and keeps each picture once; with no folder it does nothing."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._keys: dict[int, tuple[Image.Image, str]] = {}

    def record_to(self, folder: Path | None) -> None:
        """Write into another folder from now on."""
        self._folder = folder
        self._keys.clear()

    def chat(self, model: str, asking: Asking, requests: Sequence[ChatRequest], replies: Sequence[ChatReply]) -> None:
        """Record the requests of one call with their replies."""
        places = turns_of(requests, asking.turns)
        self._append(
            {
                "kind": "chat",
                "batch": asking.batch,
                "turn": place,
                "query": asking.turns[place].query if place is not None else None,
                "stage": asking.stage,
                "model": model,
                "messages": [
                    {"role": part.role, "content": part.content, "images": [self._key(image) for image in part.images]}
                    for part in request.messages
                ],
                "max_tokens": request.max_tokens,
                "temperature": request.temperature,
                "schema": request.schema,
                "reply": reply.text,
                "finish_reason": reply.finish_reason,
                "prompt_cut": reply.prompt_cut,
            }
            for request, reply, place in zip(requests, replies, places, strict=True)
        )

    def turns(self, asking: Asking) -> None:
        """Record what is known of the turns of a batch."""
        self._append(
            {
                "kind": "turn",
                "batch": asking.batch,
                "turn": place,
                "query": turn.query,
                "question": turn.question,
                "photo": self._key(turn.image),
                "answer": turn.answer,
                "history": [dict(message) for message in turn.history],
                "evidence": [f"{item.title}: {item.text}" for item in turn.best_evidence(_MAX_EVIDENCE)],
                "entries": [
                    {name: getattr(entry, name) for name in _ENTRY} | {"image": self._key(entry.image)}
                    for entry in turn.entries
                ],
            }
            for place, turn in enumerate(asking.turns)
        )

    def forget_pictures(self) -> None:
        """A batch has ended: its pictures need not be kept in memory."""
        self._keys.clear()

    def _append(self, lines: Iterable[Mapping[str, Any]]) -> None:
        if self._folder is None:
            return
        try:
            text = "".join(json.dumps(line, ensure_ascii=False, default=str) + "\n" for line in lines)
            with (self._folder / RECORD).open("a", encoding="utf-8", errors="replace") as file:
                file.write(scrubbed(text))
        except OSError as error:  # a full disk costs the record, not the answer
            _log.warning("chat requests could not be recorded in %s: %s", self._folder, error)

    def _key(self, image: Image.Image | None) -> str | None:
        if image is None or self._folder is None:
            return None
        known = self._keys.get(id(image))
        if known is None:
            known = self._keys[id(image)] = (image, pixels_digest(image))  # kept alive: ids of dead objects come again
            path = self._folder / IMAGES / f"{known[1]}.png"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                part = path.with_suffix(".part")
                to_rgb(image).save(part, format="PNG", compress_level=1)
                part.replace(path)
        return known[1]


class RecordedChat:
    """A ``ChatModel`` whose requests and replies are recorded while a stage asks; all else of the model is as it was."""

    def __init__(self, model: ChatModel, recorder: Recorder) -> None:
        self.name = model.name
        self._model = model
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        if name == "_model":  # not there yet while a copy is made or unpickled: it would be looked for here again
            raise AttributeError(name)
        return getattr(self._model, name)

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """As the model's own."""
        replies = self._model.chat(requests, deadline)
        asking = _asking.get()
        if asking is not None and len(replies) == len(requests):
            self._recorder.chat(self.name, asking, requests, replies)
        return replies


class RecordingRegistry(ModelRegistry):
    """A registry whose chat models are recorded: the ones that generate, not those that put pictures into words for another."""

    def __init__(self, recorder: Recorder, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._recorder = recorder

    def _build(self, spec: Spec) -> Any:
        model = super()._build(spec)
        generates = isinstance(model, ChatModel) and not isinstance(model, ComposedVisionChat)
        return RecordedChat(model, self._recorder) if generates else model


def _recorded(stage: Stage, agent: RecordedAgent) -> Stage:
    """The stage, saying for whom it asks; a turn that is tried once more by itself, after a failure, is not recorded."""
    own = stage.run

    def run(turns: Sequence[Turn], context: Context) -> None:
        if len(turns) != agent.asked:
            own(turns, context)
            return
        asking = Asking(stage.name, agent.batch, tuple(turns))
        token = _asking.set(asking)
        try:
            own(turns, context)
            if stage.name == _LAST:
                agent.recorder.turns(asking)
        finally:
            _asking.reset(token)

    stage.run = run  # type: ignore[method-assign]
    return stage


class RecordedAgent(CragAgent):
    """The agent with a recorder beside its trace.

    Attributes:
        recorder: Writes nothing until it is told a folder (``record_to``).
        batch: Number of the running call, from 0 as in run_log.jsonl.
        asked: Turns of the running call; 0 outside of one, as while the models are warmed up.
    """

    def __init__(self, search_pipeline: Any, *, recorder: Recorder, **options: Any) -> None:
        self.recorder = recorder
        self.batch, self.asked = -1, 0
        super().__init__(search_pipeline, **options)
        self.pipeline.stages = [_recorded(stage, self) for stage in self.pipeline.stages]

    def record_to(self, folder: Path, *, anew: bool) -> None:
        """Write into the folder of a run from now on, calls counted from 0; ``anew``: without what it holds."""
        self.batch = -1
        if anew:
            (folder / RECORD).unlink(missing_ok=True)
        self.recorder.record_to(folder)

    def batch_generate_response(self, queries: Sequence[str], *arguments: Any, **options: Any) -> list[str]:
        """As the agent's own."""
        self.batch += 1
        self.asked = len(queries)
        try:
            return super().batch_generate_response(queries, *arguments, **options)
        finally:
            self.asked = 0
            self.recorder.forget_pictures()
