"""Which replica is asked which turns."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from evaluation.run.batches import Slot


class Assignment:
    """Dialogs given out to replicas: each stays with the replica that began it, and is given out again only where that one is lost.

    A replica keeps up to ``batch_size`` dialogs open, as ``schedule`` does, but not more than its share of those that are left, so
    that few dialogs are not all held by the first replica that asks. ``batches`` have the turns of a dialog in their order.
    """

    def __init__(self, batches: Sequence[Sequence[Slot]], batch_size: int, replicas: int) -> None:
        self._left: dict[int, deque[Slot]] = {}
        for batch in batches:
            for slot in batch:
                self._left.setdefault(slot.session, deque()).append(slot)
        self._waiting = deque(self._left)
        self._open: list[list[int]] = [[] for _ in range(replicas)]
        self._batch_size = batch_size

    @property
    def finished(self) -> bool:
        """Whether every turn has been answered."""
        return not self._left

    def next_batch(self, replica: int) -> list[Slot]:
        """The next turn of each dialog of a replica, new dialogs among them; empty where there is nothing for it now."""
        held = self._open[replica]
        most = min(self._batch_size, math.ceil(len(self._left) / len(self._open)))
        while self._waiting and len(held) < most:
            held.append(self._waiting.popleft())
        return [self._left[session][0] for session in held]

    def answered(self, replica: int) -> None:
        """The batch that the replica got last has been answered."""
        for session in self._open[replica]:
            self._left[session].popleft()
            if not self._left[session]:
                del self._left[session]
        self._open[replica] = [session for session in self._open[replica] if session in self._left]

    def lost(self, replica: int) -> None:
        """The replica died: its dialogs wait behind all others, in case one of them is what it died of."""
        self._waiting.extend(self._open[replica])
        self._open[replica] = []
