"""What an agent on trial is made of, and what a fault is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.stage import Stage
from tests.support.scripted_clock import ScriptedClock
from tests.support.scripted_parts import Chat, Encoder, Reranker, Search, Sight

MARK = "SPOILT"
"""Stands in the query of the one turn that a fault of a single turn hits."""

_MAX_HANG = 60.0


@dataclass
class Plan:
    """The parts of an agent; ``released`` lets go of what hangs, when all is over.

    Attributes:
        call_seconds: What a call may take.
        clock: None for the real one.
        folder: For caches and the trace, empty; None where the trial needs none.
    """

    call_seconds: float
    chat: Any = field(default_factory=Chat)
    reranker: Any = field(default_factory=Reranker)
    encoder: Any = field(default_factory=Encoder)
    sight: Any = field(default_factory=Sight)
    search: Any = field(default_factory=Search)
    trace: Path | None = None
    spoil_stage: Callable[[Stage], None] | None = None
    released: threading.Event = field(default_factory=threading.Event)
    clock: ScriptedClock | None = None
    folder: Path | None = None

    def hang(self) -> bool:
        """Wait until all is over; on a scripted clock that is said to the worker, which lets time pass. Whether it was let go of."""
        if self.clock is not None and not self.released.is_set():
            self.clock.hanging = True
        return self.released.wait(_MAX_HANG)

    def pause(self, seconds: float) -> None:
        """Take some time."""
        if self.clock is None:
            time.sleep(seconds)
        else:
            self.clock.advance(seconds)


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        spoil: Puts it into a plan.
        says: A pattern that the trace of a turn has to hold which abstains because of it; None where any reason will do.
        one_turn: It hits only the turn with ``MARK``; the others have to be answered as ever.
        harmless: It hits nothing that an answer needs; all turns have to be answered as ever.
    """

    spoil: Callable[[Plan], None]
    says: str | None = None
    one_turn: bool = False
    harmless: bool = False


def fail(error: BaseException) -> Any:
    """Raise, where only an expression may stand."""
    raise error
