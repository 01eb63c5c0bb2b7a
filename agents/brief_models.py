"""The models of an agent with their replies kept short: to warm them at little cost, and to answer when time is short."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from agents.deadline import NO_DEADLINE, Deadline
from agents.model_set import ModelSet
from agents.models.base import ChatModel, ChatReply, ChatRequest

Shorten = Callable[[int], int]
"""From the tokens that a request allows to those it gets."""


def _two(_: int) -> int:
    return 2


class BriefModels(ModelSet):
    """The same models, loaded where they were not; a chat model says no more than ``shorten`` lets it, two tokens by default."""

    def __init__(
        self, models: ModelSet, shorten: Shorten = _two
    ) -> None:  # nothing of its own to load: it asks the other
        self._models = models
        self._shorten = shorten

    def get(self, role: str) -> Any:
        """The model of a role (see ``ModelSet.get``)."""
        return self._models.get(role)

    def chat(self, role: str = "chat") -> ChatModel:
        """The chat model of a role, held to short replies."""
        return _BriefChat(self._models.chat(role), self._shorten)


class _BriefChat:
    def __init__(self, model: ChatModel, shorten: Shorten) -> None:
        self._model = model
        self._shorten = shorten
        self.name = model.name

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        brief = [dataclasses.replace(request, max_tokens=self._shorten(request.max_tokens)) for request in requests]
        return self._model.chat(brief, deadline)
