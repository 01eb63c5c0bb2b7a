"""A clock on which a hang of half a minute is over in a moment, and on which a busy machine takes no longer than an idle one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from agents.time_limits.worker import Worker

T = TypeVar("T")

TICK_SECONDS = 0.02
"""What passes on the clock each time the watchdog looks at something that hangs; as often as the real one looks."""

_POLL_SECONDS = 0.002  # of real time


class ScriptedClock:
    """Seconds of processor time that this process has used, and besides what is said to have passed."""

    def __init__(self) -> None:
        self._passed = 0.0
        self.hanging = False

    def __call__(self) -> float:
        """Seconds, ever more."""
        return self._passed + time.process_time()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._passed += seconds


class ScriptedWorker(Worker):
    """The agent's worker, watching by a scripted clock: it ticks for as long as the work says that it hangs."""

    poll_seconds = _POLL_SECONDS

    def __init__(self, clock: ScriptedClock) -> None:
        super().__init__()
        self._clock = clock

    def run(self, work: Callable[[], T], over: Callable[[], bool]) -> T:
        """Do the work (see ``Worker.run``)."""

        def ticking() -> bool:
            while self._clock.hanging and not over():
                self._clock.advance(TICK_SECONDS)
            return over()

        try:
            return super().run(work, ticking)
        finally:
            self._clock.hanging = False
