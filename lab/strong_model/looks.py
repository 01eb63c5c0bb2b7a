"""Looks of a large multimodal model at photo and question, which stand in for it where only the search is measured.

``looks.jsonl`` has those of the recorded replies by turn: unlike the replies, which digests of requests name, they outlive a change of the
prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.base.files import parse_json
from agents.models.base import ChatReply, ChatRequest
from agents.texts.replies import json_object
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from evaluation.files.traces import TRACE, read_traces
from evaluation.records import EvaluationError

LOOKS = Path(__file__).with_name("looks.jsonl")

Look = Mapping[str, Any]
"""A look as the model replies it: ``things``, ``needs``, ``queries``, ``answer`` and more (``prompts/look.j2``)."""


def read_looks(path: Path = LOOKS) -> dict[str, Look]:
    """Read looks by interaction id and by question.

    Args:
        path: JSON lines, each with ``look`` and an ``interaction_id`` or a ``question``; or the folder of a run, whose trace has its looks.

    Raises:
        EvaluationError: There is no such file, or a line is malformed.
    """
    if path.is_dir():
        return _read_run(path)
    try:
        rows = [parse_json(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise EvaluationError(f"looks cannot be read from {path}: {error}") from error
    looks: dict[str, Look] = {}
    for number, row in enumerate(rows, 1):
        keys = [row[key] for key in ("interaction_id", "question") if row.get(key)] if isinstance(row, dict) else []
        if not keys or not isinstance(row.get("look"), dict):
            raise EvaluationError(f"{path}, line {number}: write an object with look, and interaction_id or question")
        looks.setdefault(keys[0], row["look"])
    return looks


def _read_run(folder: Path) -> dict[str, Look]:
    """Read the looks of a run from its trace."""
    looks: dict[str, Look] = {}
    for record in read_traces(folder / TRACE, is_required=True).values():
        replies = [
            exchange.reply for stage in record.stages for exchange in stage.exchanges if exchange.prompt == "look"
        ]
        if replies and (look := json_object(replies[0])) is not None:
            looks[record.interaction_id] = look
    if not looks:
        raise EvaluationError(
            f"the trace in {folder} has no look: its preset has no stage look, or its model did not reply"
        )
    return looks


def make_look(question: str) -> Look:
    """Return the look for a turn without a recorded one: the whole photo is the thing, and the question the query."""
    things = [{"what": "whole photo", "where": "", "name": ""}]
    return {"question": "", "things": things, "needs": "search", "queries": [question], "answer": "I don't know"}


class GivenLook:
    """Chat model that replies a given look to each request for one, and declines everything else.

    Attributes:
        look: The look of the turn that is asked about.
        declined: Number of requests that it declined.
    """

    name = "given looks"

    def __init__(self) -> None:
        self.look: Look = {}
        self.declined = 0

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:  # noqa: ARG002 - nothing takes time
        """Return the reply to each request."""
        return [self._reply(request) for request in requests]

    def _reply(self, request: ChatRequest) -> ChatReply:
        properties = (request.schema or {}).get("properties", {})
        if {"things", "needs"} <= properties.keys():
            return ChatReply(json.dumps(self.look), "stop")
        self.declined += 1
        return ChatReply("I don't know", "stop")
