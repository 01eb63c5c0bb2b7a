"""A question of the page, answered in a thread of its own, with its progress."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from apps.answering import Answerer, CancelledError, Question
from apps.outcome import Outcome

_WAITING = "waiting for the question before"


@dataclass(frozen=True)
class Step:
    """A step in plain words, and the seconds that it took so far."""

    words: str
    seconds: float


class Job:
    """A question being answered in a thread.

    It holds ``turn`` meanwhile, because calls of an answerer must not overlap. It ends early once nobody waits.
    """

    def __init__(self, answerer: Answerer, question: Question, turn: threading.Lock) -> None:
        self._answerer, self._question, self._turn = answerer, question, turn
        self._changed = threading.Condition()  # guards what follows
        self._begun: list[tuple[str, float]] = []
        self._running = self._cancelled = False
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._ended: float | None = None
        self._say(_WAITING)
        threading.Thread(target=self._work, name="crag-page", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait for a change, at most so many seconds; return whether the job has ended."""
        with self._changed:
            if self._ended is None:
                self._changed.wait(seconds)
            return self._ended is not None

    def outcome(self) -> Outcome:
        """Return the outcome of a job that has ended, or raise what ``Answerer.answer`` raised."""
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome

    def steps(self) -> list[Step]:
        """Return the finished steps and last the current one, without finished steps that took almost no time."""
        with self._changed:
            ends = [*(began for _, began in self._begun[1:]), self._ended or time.monotonic()]
            steps = [Step(words, end - began) for (words, began), end in zip(self._begun, ends, strict=True)]
        return [step for step in steps[:-1] if step.seconds >= _WORTH_A_LINE] + steps[-1:]

    def cancel(self) -> None:
        """End the job as soon as the agent can, or before it begins."""
        with self._changed:
            self._cancelled = True
            if self._running:
                self._answerer.cancel()

    def _say(self, words: str) -> None:
        with self._changed:
            self._begun.append((words, time.monotonic()))
            if self._cancelled and self._running:  # since before the agent's call began
                self._answerer.cancel()
            self._changed.notify_all()

    def _work(self) -> None:
        with self._turn:
            try:
                with self._changed:
                    if self._cancelled:
                        raise CancelledError("the question was cancelled")
                    self._running = True
                self._say("beginning")
                [self._outcome] = self._answerer.answer([self._question], self._say)
            except BaseException as error:  # noqa: BLE001 - handed over to whoever waits
                self._error = error
            with self._changed:
                self._running, self._ended = False, time.monotonic()
                self._changed.notify_all()


_WORTH_A_LINE = 0.05  # seconds
