"""The time that each dialog has taken so far: calls of the evaluator do not say which dialog a turn belongs to."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from PIL import Image

from agents.turn import Turn

_MOST_DIALOGS = 4096
_SIDE = 32  # a picture is recognised by so many pixels of each side
_SHARE = 0.5  # of what a dialog has left goes to one turn at most: how many turns come is not known

Key = bytes


def dialog_key(image: Image.Image | None, first_question: str) -> Key:
    """What stands for a dialog: its picture (RGB) and its first question."""
    digest = hashlib.sha1(first_question.encode("utf-8", errors="replace"), usedforsecurity=False)
    if image is not None:
        small = image.resize((_SIDE, _SIDE), Image.Resampling.NEAREST)
        digest.update(repr(image.size).encode() + small.tobytes())
    return digest.digest()


class DialogTimes:
    """Seconds spent by dialog, for the latest dialogs.

    A turn is charged the time of its call divided by the turns in it, as the evaluator counts ("10 s x batch size").

    Args:
        seconds_per_dialog: What a dialog may take altogether.
        most: Dialogs remembered; the one unused for longest is forgotten first.
    """

    def __init__(self, seconds_per_dialog: float, most: int = _MOST_DIALOGS) -> None:
        self._limit = seconds_per_dialog
        self._most = most
        self._spent: OrderedDict[Key, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._spent)

    def allowance(self, turn: Turn, seconds_per_turn: float) -> float:
        """The seconds a turn may take: its own limit, but no more than half of what its dialog has left."""
        if not turn.history:
            return min(seconds_per_turn, self._limit)
        left = max(0.0, self._limit - self._spent.get(_key(turn), 0.0))
        return min(seconds_per_turn, _SHARE * left)

    def charge(self, turns: Sequence[Turn], seconds: float) -> None:
        """Note that a call took so long; a first question begins its dialog anew."""
        for turn in turns:
            key = _key(turn)
            earlier = self._spent.pop(key, 0.0) if turn.history else 0.0
            self._spent[key] = earlier + seconds / len(turns)
            while len(self._spent) > self._most:
                self._spent.popitem(last=False)


def _key(turn: Turn) -> Key:
    first = next((message["content"] for message in turn.history if message.get("role") == "user"), turn.query)
    return dialog_key(turn.image, first)
