"""Batches as the evaluator makes them: dialogs interleaved, turn N+1 only in a later batch than turn N."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

MAX_BATCH_SIZE = 16
"""The most turns in one call (challenge rules)."""


@dataclass(frozen=True)
class Slot:
    """One question of the schedule: positions of its session and of the turn within it."""

    session: int
    turn: int


def schedule(turn_counts: Sequence[int], batch_size: int) -> list[list[Slot]]:
    """The batches in which sessions of these lengths are asked.

    At most ``batch_size`` dialogs are open at a time; each gives its next turn to each batch, and a finished one is
    replaced by the next session. The order depends on the arguments alone, so that a resumed run follows the same one.

    Args:
        turn_counts: Number of turns of each session.
        batch_size: The agent's ``get_batch_size()``.

    Raises:
        ValueError: ``batch_size`` is not within 1 to 16.
    """
    if not 1 <= batch_size <= MAX_BATCH_SIZE:
        raise ValueError(f"the batch size must be 1 to {MAX_BATCH_SIZE}, not {batch_size}")
    waiting = deque(index for index, count in enumerate(turn_counts) if count > 0)
    open_dialogs: list[Slot] = []
    batches = []
    while waiting or open_dialogs:
        while waiting and len(open_dialogs) < batch_size:
            open_dialogs.append(Slot(waiting.popleft(), 0))
        batches.append(list(open_dialogs))
        open_dialogs = [
            Slot(slot.session, slot.turn + 1) for slot in open_dialogs if slot.turn + 1 < turn_counts[slot.session]
        ]
    return batches
