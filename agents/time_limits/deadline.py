"""The deadline of a batch, passed down to every call that may wait."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]


class CallCancelledError(RuntimeError):
    """Whoever asked wants no answer any more."""


@dataclass
class _Cancellation:
    """Shared by a deadline and those made of it."""

    at: float = math.inf  # by their clock


class Deadline:
    """The point in time by which a batch must be answered, ``seconds`` from now (``float("inf")`` for no limit) by a monotonic clock."""

    def __init__(self, seconds: float, clock: Clock = time.monotonic, _parent: Deadline | None = None) -> None:
        self._clock = clock
        self._start = clock()
        self._end = self._start + seconds
        self._cancellation: _Cancellation = _Cancellation() if _parent is None else _parent._cancellation

    def cancel(self) -> None:
        """Let it and all that were made of it end now; whatever looks at one of them stops as if its time were over."""
        self._cancellation.at = min(self._cancellation.at, self._clock())

    @property
    def cancelled(self) -> bool:
        """Whether somebody has cancelled it."""
        return self._cancellation.at < math.inf

    def due(self) -> float:
        """Seconds until the original end, cancellation ignored.

        A cancelled call counts as hung only after that.
        """
        return self._end - self._clock()

    def elapsed(self) -> float:
        """Seconds since the deadline was opened."""
        return self._clock() - self._start

    def left(self) -> float:
        """Seconds left; negative once the deadline has passed."""
        return min(self._end, self._cancellation.at) - self._clock()

    def allows(self, seconds: float) -> bool:
        """Return whether work that takes ``seconds`` would end in time."""
        return self.left() >= seconds

    def passed(self) -> bool:
        """Return whether no time is left."""
        return self.left() <= 0.0

    def sooner(self, seconds: float) -> Deadline:
        """Create a deadline that ends ``seconds`` before this one, to keep them for later work."""
        return Deadline(self.left() - seconds, self._clock, self)

    def within(self, seconds: float) -> Deadline:
        """Create a deadline that ends in ``seconds``, or with this one if that is sooner."""
        return Deadline(min(seconds, self.left()), self._clock, self)


NO_DEADLINE = Deadline(float("inf"))
