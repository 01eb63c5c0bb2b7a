"""The vLLM adapter around an engine that holds up its event loop; the real engines are in tests/vllm."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from agents.models.base import ChatMessage, ChatRequest
from agents.models.chat.loop_thread import GRACE_SECONDS, LoopThread
from agents.models.chat.vllm_chat import VllmChat
from agents.profiles.profile import Limits
from agents.time_limits.deadline import Deadline

SLACK = 5.0  # seconds, for a busy machine; the engine holds its loop for 30


class Engine:
    """Says "quick" at once; of another prompt a first word, and then nothing but holding up the loop."""

    context, is_dead = 100, False

    def __init__(self, release: threading.Event) -> None:
        self._release = release

    def sampling(self, request: ChatRequest) -> None:
        return None

    def shutdown(self) -> None:
        self._release.set()

    async def generate(self, prompt: Any, sampling: Any, request_id: str) -> AsyncIterator[Any]:
        quick = len(prompt["prompt_token_ids"]) == 1
        ends = "stop" if quick else None
        output = SimpleNamespace(text="quick" if quick else "first", finish_reason=ends, stop_reason=None)
        token_logprob = SimpleNamespace(logprob=-1.0, decoded_token="first")
        output.token_ids, output.logprobs = (
            [7],
            [{7: token_logprob}] if quick else [{7: token_logprob}, {8: token_logprob}],
        )
        yield SimpleNamespace(outputs=[output])
        if not quick:
            self._release.wait(30)


class Template:
    """A token a word."""

    sees = False

    def render(self, messages: Sequence[ChatMessage]) -> str:
        return messages[-1].content

    def encode(self, text: str) -> list[int]:
        return [0] * len(text.split())


@pytest.fixture
def chat() -> Iterator[VllmChat]:
    engine: Any = Engine(threading.Event())
    template: Any = Template()
    model = VllmChat(engine, LoopThread("test"), template, "m")
    yield model
    engine.shutdown()
    model.close()


def test_an_engine_that_holds_up_its_loop_is_left_with_what_has_come(chat: VllmChat) -> None:
    requests = [ChatRequest((ChatMessage("user", text),), max_tokens=5) for text in ("quick", "a long one")]
    deadline = Deadline(0.3)
    replies = chat.chat(requests, deadline)
    assert deadline.left() > -SLACK
    assert [(reply.text, reply.finish_reason) for reply in replies] == [("quick", "stop"), ("first", "abort")]


def test_thoughts_in_the_text_are_no_part_of_the_reply(chat: VllmChat, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "<think>300 or 330?</think>\n\n<answer>330 m</answer>"

    async def generate(self: Engine, *prompt: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(outputs=[SimpleNamespace(text=text, finish_reason="stop", stop_reason=None)])

    monkeypatch.setattr(Engine, "generate", generate)
    (reply,) = chat.chat([ChatRequest((ChatMessage("user", "How high?"),))], Deadline(30.0))
    assert (reply.text, reply.finish_reason) == ("330 m", "stop")


def test_a_reply_is_kept_that_the_engine_was_lengthening_at_the_deadline(chat: VllmChat) -> None:
    """The engine of V0 appends to a reply's log-probabilities before it appends to its tokens."""
    request = ChatRequest((ChatMessage("user", "a long one"),), max_tokens=5, logprobs=True)
    assert [reply.logprobs for reply in chat.chat([request], Deadline(0.3))] == [(-1.0,)]


def test_an_adapter_gives_up_before_the_pipeline_gives_its_stage_up() -> None:
    """Else what has come would be lost: the pipeline waits for half of the margin, then goes on without the stage."""
    assert Limits().margin_seconds / 2 >= 2 * GRACE_SECONDS


def test_a_cancelled_call_ends_at_once_with_what_has_come(chat: VllmChat, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Deadline(30.0)

    async def generate(self: Engine, *prompt: Any) -> AsyncIterator[Any]:
        yield SimpleNamespace(outputs=[SimpleNamespace(text="first", finish_reason=None, stop_reason=None)])
        call.cancel()
        await asyncio.sleep(30)

    monkeypatch.setattr(Engine, "generate", generate)
    requests = [ChatRequest((ChatMessage("user", text),), max_tokens=5) for text in ("one", "two")]
    replies = chat.chat(requests, call.sooner(1.0))
    assert call.elapsed() < 10
    assert [(reply.text, reply.finish_reason) for reply in replies] == [("first", "abort")] * 2
