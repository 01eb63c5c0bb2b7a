"""The models of an agent with their replies cut short, to load and warm them at little cost."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from agents.deadline import NO_DEADLINE, Deadline
from agents.model_set import ModelSet
from agents.models.base import ChatModel, ChatReply, ChatRequest

_TOKENS = 2


class BriefModels(ModelSet):
    """The same models, loaded where they were not; a chat model says no more than two tokens."""

    def __init__(self, models: ModelSet) -> None:  # nothing of its own to load: it asks the other
        self._models = models

    def get(self, role: str) -> Any:
        """The model of a role (see ``ModelSet.get``)."""
        return self._models.get(role)

    def chat(self, role: str = "chat") -> ChatModel:
        """The chat model of a role, held to short replies."""
        return _BriefChat(self._models.chat(role))


class _BriefChat:
    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.name = model.name

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        brief = [dataclasses.replace(request, max_tokens=_TOKENS) for request in requests]
        return self._model.chat(brief, deadline)
