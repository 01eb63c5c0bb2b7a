import asyncio
import threading
from collections.abc import Iterator

import pytest

from agents.models.chat.loop_thread import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("test")
    yield thread
    thread.close()


async def answer() -> int:
    return 42


def test_a_result_comes_back_also_from_within_a_running_loop(loop: LoopThread) -> None:
    async def inside() -> int:
        return loop.run(answer())

    assert loop.run(answer()) == asyncio.run(inside()) == 42


def test_errors_come_back(loop: LoopThread) -> None:
    async def fail() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        loop.run(fail())


def test_late_work_is_cancelled(loop: LoopThread) -> None:
    cancelled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError):
        loop.run(wait(), timeout=0.01)
    assert cancelled.wait(5)


def test_a_loop_that_is_held_up_does_not_hold_up_its_caller(loop: LoopThread) -> None:
    release = threading.Event()

    async def block() -> None:
        release.wait(10)

    with pytest.raises(TimeoutError):
        loop.run(block(), timeout=0.01)
    release.set()
    assert loop.run(answer()) == 42


def test_closed_twice_and_used_after(loop: LoopThread) -> None:
    loop.close()
    loop.close()
    with pytest.raises(RuntimeError):
        loop.run(answer())
