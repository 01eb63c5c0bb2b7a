"""Tokens a second are counted from what the model wrote."""

from __future__ import annotations

import pytest

from agents.models.base import ChatReply, ModelError
from lab.benchmarks import chat_speed
from tests.agent.scripted import ScriptedChat


def test_tokens_that_were_written_are_counted_not_those_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((0.0, 2.0, 10.0, 15.0))  # two seconds for reading, five for reading and writing
    monkeypatch.setattr(chat_speed.time, "perf_counter", lambda: next(clock))
    chat = ScriptedChat(
        lambda request: ChatReply("a", "stop", (-0.1,) * min(request.max_tokens, 4) if request.logprobs else None)
    )
    speed = chat_speed.measure(chat, "x" * 4_000, batch=2, prompt_tokens=100, reply_tokens=50)
    assert speed.reading == 2 * 100 / 2.0
    assert speed.writing == (2 * 4 - 2) / 3.0
    prompts = [request.messages[0].content for request in chat.requests]
    assert len(prompts) == 4


def test_a_short_text_or_a_failing_model_is_an_error() -> None:
    with pytest.raises(ModelError, match="too few"):
        chat_speed.measure(ScriptedChat(lambda _: ChatReply("a", "stop", (0.0,))), "x", 2, 100, 5)
    failing = ScriptedChat(lambda _: ChatReply("", "error", error="out of memory"))
    with pytest.raises(ModelError, match="out of memory"):
        chat_speed.measure(failing, "x" * 4_000, 2, 100, 5)
