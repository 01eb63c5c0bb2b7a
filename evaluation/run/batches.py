"""Batches as an evaluator makes them: dialogs are interleaved, and turn N+1 is in a later batch than turn N."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

MAX_BATCH_SIZE = 16
"""Most turns in one call (challenge rules)."""


@dataclass(frozen=True)
class Slot:
    """One question of the schedule: positions of its session and of the turn within it."""

    session: int
    turn: int


def schedule(turn_counts: Sequence[int], batch_size: int, conversations: int | None = None) -> list[list[Slot]]:
    """Schedule the turns of sessions in batches.

    At most ``batch_size`` dialogs are open at a time. Each gives its next turn to each batch, and a finished one is
    replaced by the next session. The order depends on the arguments alone, so that a resumed run follows the same one.

    Args:
        turn_counts: Number of turns of each session.
        batch_size: Most turns of a batch, 1 to 16.
        conversations: Number of sessions asked, from the first; None: all.

    Raises:
        ValueError: ``batch_size`` is not within 1 to 16.
    """
    if not 1 <= batch_size <= MAX_BATCH_SIZE:
        raise ValueError(f"the batch size must be 1 to {MAX_BATCH_SIZE}, not {batch_size}")
    waiting = deque(index for index, count in enumerate(turn_counts[:conversations]) if count > 0)
    open_dialogs: list[Slot] = []
    batches = []
    while waiting or open_dialogs:
        while waiting and len(open_dialogs) < batch_size:
            open_dialogs.append(Slot(waiting.popleft(), 0))
        batches.append(list(open_dialogs))
        following = (Slot(slot.session, slot.turn + 1) for slot in open_dialogs)
        open_dialogs = [slot for slot in following if slot.turn < turn_counts[slot.session]]
    return batches


def schedule_by_queue(
    turn_counts: Sequence[int], batch_size: int, conversations: int | None = None
) -> list[list[Slot]]:
    """Schedule the turns of sessions in batches as both releases of the organiser do.

    Sessions wait in a queue. A batch takes the first ``batch_size`` of them (brought into 1 to 16). Each that has a turn left after that
    goes back to the head of the queue, one after the other, so that the next batch asks them in the reverse order. A session without turns
    takes a place in a batch and is gone. The run ends after the batch with which more than ``conversations`` sessions have been begun,
    whatever is left of their dialogs; None: it does not end early.

    Source: ``CRAGTurnBatchIterator`` and ``generate_agent_responses`` of facebookresearch/CRAG-MM, commit 36b6b4b.
    """
    size = min(max(batch_size, 1), MAX_BATCH_SIZE)
    queue = deque(Slot(session, 0) for session in range(len(turn_counts)))
    begun: set[int] = set()
    batches = []
    while queue and (conversations is None or len(begun) <= conversations):
        slots = [queue.popleft() for _ in range(min(size, len(queue)))]
        batch = [slot for slot in slots if slot.turn < turn_counts[slot.session]]
        for slot in batch:
            begun.add(slot.session)
            if slot.turn + 1 < turn_counts[slot.session]:
                queue.appendleft(Slot(slot.session, slot.turn + 1))
        if batch:
            batches.append(batch)
    return batches
