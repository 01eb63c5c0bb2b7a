"""Batches of questions or searches: those that arrive together share a call of the agent; later ones are the next."""

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Self, TypeVar

from apps.answering import CancelledError
from apps.serving.protocol import ProtocolError

_log = logging.getLogger(__name__)

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")

Tell = Callable[[str], None]
"""Receives the current step in plain words."""

GATHER_SECONDS = 0.02  # how long the first question of an idle server waits for company: little beside a turn's seconds
_SMOOTHING = 0.3  # weight of the latest call in the moving mean behind Retry-After


@dataclass(frozen=True, eq=False)
class _Waiting(Generic[Asked, Answered]):
    question: Asked
    answer: asyncio.Future[Answered]
    tell: Tell | None


class Batcher(Generic[Asked, Answered]):
    """Queue that hands questions to an agent in batches, in the order they came.

    Args:
        answer: The agent's call, run in a thread of its own, which may report its stages; a free call takes its share of the waiting
            questions.
        batch_size: Maximum number of questions per call.
        limit: Maximum number of questions waiting or being answered; more are refused.
        observe: Called with size and seconds of each call.
        calls: Maximum number of simultaneous calls.
        cancel: Ends the running call early, when nobody waits for its answers any more; None: calls run to their end.
        noun: Noun for several questions in messages.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Asked], Tell | None], list[Answered]],
        batch_size: int,
        limit: int,
        observe: Callable[[int, float], None],
        calls: int = 1,
        cancel: Callable[[], object] | None = None,
        noun: str = "questions",
    ) -> None:
        self._answer, self._batch_size, self._limit, self._observe = answer, batch_size, limit, observe
        self._cancel = cancel or (lambda: None)
        self._noun = noun
        self._waiting: deque[_Waiting[Asked, Answered]] = deque()
        self._arrived = asyncio.Event()
        self.inside = 0
        """Questions waiting or being answered."""
        self._mean_seconds = 1.0
        self._calls = calls
        self._threads = ThreadPoolExecutor(calls, noun)
        self._task: asyncio.Task[None] | None = None
        self._running: dict[
            asyncio.Task[None], float
        ] = {}  # calls in progress, with ``time.monotonic()`` of their beginning
        self._ended = asyncio.Event()  # one of them

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._work())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            ending = [self._task, *self._running]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def running(self) -> int:
        """Number of calls in progress, with those that nobody waits for any more."""
        return len(self._running)

    def runs_longer_than(self, seconds: float) -> bool:
        """Return whether the oldest running call began more than ``seconds`` ago."""
        return any(time.monotonic() - began > seconds for began in self._running.values())

    def refuse_if_full(self) -> None:
        """Raise ProtocolError if no place is free."""
        if self.inside >= self._limit:
            calls = math.ceil(self.inside / self._batch_size / self._calls)
            seconds = max(1, math.ceil(calls * self._mean_seconds))
            busy = f"the server is busy with {self._limit} {self._noun}; try again in {seconds} s"
            raise ProtocolError(429, busy, "server_busy", retry_after=seconds)

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place while the photo of a question is decoded, and while it waits and is answered.

        Raises:
            ProtocolError: No place is free.
        """
        self.refuse_if_full()
        self.inside += 1
        try:
            yield
        finally:
            self.inside -= 1

    async def ask(self, question: Asked, tell: Tell | None = None) -> Answered:
        """Return the outcome of a question that holds a ``place``, or raise the agent's error.

        If it is cancelled before its call begins, the question is not asked. ``tell`` receives its stages, in the loop's thread.
        """
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(question, future, tell)
        self._waiting.append(waiting)
        self._arrived.set()
        try:
            return await waiting.answer
        finally:
            with contextlib.suppress(ValueError):  # its call has begun
                self._waiting.remove(waiting)  # and with it the photo, which is large

    async def _work(self) -> None:
        while True:
            self._ended.clear()
            if len(self._running) == self._calls:
                await self._ended.wait()
                continue
            self._arrived.clear()
            if not self._waiting:
                await self._arrived.wait()
            if len(self._waiting) == 1:
                await asyncio.sleep(GATHER_SECONDS)
            share = math.ceil(len(self._waiting) / (self._calls - len(self._running)))
            batch = [self._waiting.popleft() for _ in range(min(self._batch_size, share))]
            batch = [waiting for waiting in batch if not waiting.answer.done()]  # whose caller is leaving just now
            if batch:
                self._running[asyncio.create_task(self._call(batch))] = time.monotonic()

    async def _call(self, batch: Sequence[_Waiting[Asked, Answered]]) -> None:
        began = time.monotonic()
        call = asyncio.current_task()
        try:
            outcomes = await self._answer_unless_left(batch)
            for waiting, outcome in zip(batch, outcomes, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(outcome)
        except Exception as error:  # noqa: BLE001 - the server goes on
            if not isinstance(error, CancelledError):
                _log.exception("the agent failed")
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
        finally:
            if call is not None:
                del self._running[call]
            self._ended.set()
            seconds = time.monotonic() - began
            self._mean_seconds += _SMOOTHING * (seconds - self._mean_seconds)
            self._observe(len(batch), seconds)

    async def _answer_unless_left(self, batch: Sequence[_Waiting[Asked, Answered]]) -> list[Answered]:
        """Return the agent's outcomes; cancel its call once nobody waits for one, or the server ends.

        Raises:
            CancelledError: The agent ended the cancelled call.
        """
        loop = asyncio.get_running_loop()
        listeners = [waiting.tell for waiting in batch if waiting.tell is not None]
        given_up = threading.Event()

        def give_up() -> None:
            given_up.set()
            self._cancel()

        def tell(words: str) -> None:
            if given_up.is_set():  # perhaps before the agent's call had begun, when there was nothing to cancel
                self._cancel()
            _tell_in_loop(loop, listeners, words)

        def give_up_if_left(_: object) -> None:
            if not work.done() and all(waiting.answer.done() for waiting in batch):
                give_up()

        work = loop.run_in_executor(self._threads, self._answer, [waiting.question for waiting in batch], tell)
        for waiting in batch:
            waiting.answer.add_done_callback(give_up_if_left)
        try:
            return await work
        except asyncio.CancelledError:  # the server ends
            give_up()
            raise


def _tell_in_loop(loop: asyncio.AbstractEventLoop, listeners: Sequence[Tell], words: str) -> None:
    """Report the current step of a call to its listeners; called in its thread."""
    with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended, and nobody listens
        for tell in listeners:
            loop.call_soon_threadsafe(tell, words)
