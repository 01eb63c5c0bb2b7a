"""An engine of V0, which lives in this process, dies of any exception in a step. It is loaded again, once."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.models.base import ModelError
from agents.models.chat.vllm_chat import VllmChat
from agents.time_limits.deadline import Deadline
from tests.vllm.asking import ask, picture
from tests.vllm_v0.conftest import CONTEXT, engine


@pytest.fixture
def mortal(folder: Path) -> Iterator[VllmChat]:
    with engine(folder) as loaded:
        yield loaded


def break_after(model: VllmChat, steps: int) -> None:
    """Let the engine run out of memory after so many steps."""
    executor = model._engine._engine.engine.model_executor
    execute = executor.execute_model
    remaining_steps = iter(range(steps))

    def fail_after_a_while(*arguments: Any, **options: Any) -> Any:
        if next(remaining_steps, None) is None:
            raise RuntimeError("CUDA out of memory")
        return execute(*arguments, **options)

    executor.execute_model = fail_after_a_while


def test_a_dead_engine_is_loaded_again_once(mortal: VllmChat) -> None:
    request, may_load, start = ask("What?", picture(), max_tokens=8, logprobs=True), threading.Event(), mortal._start

    async def wait_and_start() -> Any:
        await asyncio.to_thread(may_load.wait)
        assert start is not None
        return await start()

    mortal._start = wait_and_start
    before = mortal.chat([request])
    break_after(mortal, 20)
    reply, lost = mortal.chat([ask("What?", max_tokens=2), ask("Go on", picture(), max_tokens=CONTEXT - 100)])
    assert reply.finish_reason == "length"
    assert lost.finish_reason == "error"
    assert "died" in (lost.error or "") and "CUDA out of memory" in (lost.error or "")
    with pytest.raises(ModelError, match="being loaded again"):
        mortal.chat([request], Deadline(0.1))
    may_load.set()
    assert mortal.chat([request], Deadline(120.0)) == before
    break_after(mortal, 0)
    assert "died" in (mortal.chat([request])[0].error or "")
    with pytest.raises(ModelError, match="had been loaded again before"):
        mortal.chat([request])
