"""A chat model that says something plausible at once, so that the stages of a preset go their longest way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.deadline import NO_DEADLINE, Deadline
from agents.models.base import ChatReply, ChatRequest

TEXT = """1. The exact name of the object that the question is about is a landmark.
2. I cannot determine the figure that the question is about.
Reason: the evidence names it [1].
Relevant documents: [1] [2]
Information: it was opened in 1889 [1].
Response: yes
Confidence: 0.7
External: yes
Current: no
Answer: It was opened in 1889 and made by a company from Paris [1]."""
"""Holds every label that a prompt asks for; the draft does not know the answer, so that nothing is cut short."""

_WORDS = "landmark tower"


class StandInChat:
    """A ``ChatModel`` whose replies follow the schema of a request, else hold every label."""

    name = "stand-in"

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """A reply for each request."""
        del deadline
        return [self._reply(request) for request in requests]

    @staticmethod
    def _reply(request: ChatRequest) -> ChatReply:
        text = TEXT if request.schema is None else json.dumps(example(request.schema))
        logprobs = (-0.1,) * min(request.max_tokens, 20) if request.logprobs else None
        return ChatReply(text, "stop", logprobs)


def example(schema: Mapping[str, Any]) -> Any:
    """A value that follows a JSON schema: true, 1, a name, and lists of three."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: example(inner) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        inner = schema.get("items", {"type": "string"})
        if inner.get("type") == "string" and "enum" not in inner:
            return [f"{_WORDS} {word}" for word in ("north", "south", "east")]  # alike ones would be dropped
        return [example(inner)] * 3
    if kind == "boolean":
        return True
    if kind == "integer":
        return 1
    if kind == "number":
        return 0.7
    return _WORDS
