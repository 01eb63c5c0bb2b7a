"""Chat model that replays recorded replies: ``kind = "lab.strong_model.chat:RecordedChat"``, as in ``recorded.toml`` beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from PIL import Image

from agents.base.files import parse_json
from agents.models.base import ChatReply, ChatRequest, ModelError
from agents.time_limits.deadline import NO_DEADLINE, Deadline

REPLIES = Path(__file__).with_name("replies.jsonl")

SIDE = 1024
"""Pixels of the longer side at which pictures were looked at; a larger one was scaled down."""


class RecordedChat:
    """Large multimodal model whose replies were written by hand, request by request. It gives no log-probabilities.

    Args:
        path: File of replies, a JSON object ``{"request": DIGEST, "reply": TEXT}`` a line.
    """

    def __init__(self, path: str = str(REPLIES)) -> None:
        self.name = "strong-model-by-hand"
        self._path = Path(path)

    @cached_property
    def _replies(self) -> Mapping[str, str]:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise ModelError(f"recorded replies: {error}") from error
        rows = [parse_json(line) for line in lines]
        return {row["request"]: row["reply"] for row in rows}

    @property
    def fingerprint(self) -> str:
        """Return what the replies depend on."""
        return json.dumps([self.name, str(self._path)])

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:  # noqa: ARG002 - nothing takes time
        """Return the recorded reply of each request; one that was not recorded has failed, alone."""
        return [self._reply(digest_request(request)) for request in requests]

    def _reply(self, digest: str) -> ChatReply:
        reply = self._replies.get(digest)
        if reply is None:
            return ChatReply(
                "", "error", error=f"request {digest} was not recorded: prompts, search or pictures differ"
            )
        return ChatReply(reply, "stop")


def digest_request(request: ChatRequest) -> str:
    """Return the digest of all that a model sees of a request: messages, pictures, limit of tokens and schema."""
    messages = [
        {"role": message.role, "pictures": [*map(digest_picture, message.images)], "content": message.content}
        for message in request.messages
    ]
    return digest_body(messages, request.max_tokens, dict(request.schema) if request.schema else None)


def digest_body(messages: Sequence[Mapping[str, Any]], max_tokens: int, schema: Mapping[str, Any] | None) -> str:
    """Return the digest of a request whose pictures are digests already."""
    body = {"messages": messages, "max_tokens": max_tokens, "schema": schema}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]


def digest_picture(picture: Image.Image) -> str:
    """Return the digest of a picture's pixels as they were looked at."""
    shown = picture.convert("RGB")
    shown.thumbnail((SIDE, SIDE))
    return hashlib.sha256(shown.tobytes()).hexdigest()[:10]
