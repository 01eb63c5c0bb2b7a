"""The deadline of a batch, passed down to every call that may wait."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]


class Deadline:
    """The point in time by which a batch must be answered, ``seconds`` from now (``float("inf")`` for no limit) by a monotonic clock."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._start = clock()
        self._end = self._start + seconds

    def elapsed(self) -> float:
        """Seconds since the deadline was opened."""
        return self._clock() - self._start

    def left(self) -> float:
        """Seconds left; negative once the deadline has passed."""
        return self._end - self._clock()

    def allows(self, seconds: float) -> bool:
        """Whether work that takes ``seconds`` would end in time."""
        return self.left() >= seconds

    def passed(self) -> bool:
        """Whether no time is left."""
        return self.left() <= 0.0

    def sooner(self, seconds: float) -> Deadline:
        """A deadline that ends ``seconds`` before this one: what must be kept for later work."""
        return Deadline(self.left() - seconds, self._clock)

    def within(self, seconds: float) -> Deadline:
        """A deadline that ends in ``seconds``, or with this one where that is sooner."""
        return Deadline(min(seconds, self.left()), self._clock)


NO_DEADLINE = Deadline(float("inf"))
