"""Seconds of each call of a model, and the most memory in use while they are made."""

from __future__ import annotations

import math
import resource
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from agents.models.base import ChatReply
from agents.profiles.model_set import ModelsBehind, ModelSet
from tests.support.meter import SIZES, ModelCall

_INTERVAL = 0.02  # seconds between two looks at the memory


@dataclass
class CallTimes:
    """Calls of models with their seconds; ``doing`` says what runs at the moment."""

    characters: float = 4.0  # of a token, for replies without log-probabilities
    doing: str = "start"
    calls: list[tuple[ModelCall, float]] = field(default_factory=list)

    def time(self, call: ModelCall, ask: Callable[[], Any]) -> Any:
        """Make a call and record its seconds; of a chat model also the tokens of its longest reply."""
        before, self.doing = self.doing, f"{call.role}.{call.method}"
        began = time.perf_counter()
        try:
            result = ask()
        finally:
            seconds, self.doing = time.perf_counter() - began, before
        if call.method == "chat":
            call = replace(call, reply=max(count_tokens(reply, self.characters) for reply in result))
        self.calls.append((call, seconds))
        return result


def count_tokens(reply: ChatReply, characters: float) -> int:
    """Count the tokens of a reply, by its log-probabilities or else by its length; at least 1."""
    return max(1, len(reply.logprobs or ()) or math.ceil(len(reply.text) / characters))


class TimedModels(ModelsBehind):
    """Models of a profile whose calls are timed."""

    def __init__(self, behind: ModelSet, times: CallTimes) -> None:
        super().__init__(behind)
        self._times = times

    def get(self, role: str) -> Any:
        """Return the model of a role, timed."""
        before, self._times.doing = self._times.doing, f"load {role}"
        try:
            return _TimedModel(self._behind.get(role), role, self._times)
        finally:
            self._times.doing = before


class _TimedModel:
    def __init__(self, behind: Any, role: str, times: CallTimes) -> None:
        self._behind, self._role, self._times = behind, role, times

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._behind, name)
        size = SIZES.get(name)
        if size is None:
            return value

        def ask(items: Sequence[Any], *more: Any, **named: Any) -> Any:
            if not items:
                return value(items, *more, **named)
            call = ModelCall("", self._role, name, len(items), **size(items, more))
            return self._times.time(call, lambda: value(items, *more, **named))

        return ask


class MemoryWatch:
    """Most memory in use within a ``with`` block, and what ran then.

    On a GPU that is all of the card's memory that is taken, by whatever process. On a CPU it is the resident memory of this process.
    """

    def __init__(self, times: CallTimes) -> None:
        self._times, self._ended = times, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._used = _memory_reader()
        self.before = self.worst = self._used()
        self.worst_during = "start"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_INTERVAL):
            doing, used = self._times.doing, self._used()
            if used > self.worst:
                self.worst, self.worst_during = used, doing


def _memory_reader() -> Callable[[], int]:
    import torch

    if not torch.cuda.is_available():
        unit = 1 if sys.platform == "darwin" else 1024
        return lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def read_used() -> int:
        free, total = torch.cuda.mem_get_info()
        return int(total - free)

    return read_used
