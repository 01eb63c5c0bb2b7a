"""Calls of an agent: a batch of questions in, answers with time, errors and records out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from PIL import Image

from agents.base.secrets import scrub
from agents.base_agent import BaseAgent, Message
from agents.record import Unanswered
from agents.time_limits.deadline import CallCancelledError
from evaluation.records import I_DONT_KNOW
from evaluation.run.batches import Slot
from evaluation.run.foreign_agent import ForeignAgentError

_CAUSES = frozenset(cause.value for cause in Unanswered)

LONG_CALL_SECONDS = 30.0
"""A stop may lose so many seconds of work."""

log = logging.getLogger(__name__)

ReplyCounts = Callable[[], tuple[int, int]]
"""Returns the hits and misses of a reply cache so far."""


@dataclass(frozen=True)
class Call:
    """A batch of questions; every list has an entry for each slot.

    Attributes:
        notes: Why there is no image, or None.
        more: Further arguments of the call (``ProvidedEvidence.arguments``).
    """

    slots: Sequence[Slot]
    queries: list[str]
    images: list[Image.Image | None]
    histories: list[list[Message]]
    notes: list[str | None]
    more: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class CallResult:
    """Result of a call.

    Attributes:
        answers: An answer for each slot; a faulty agent may return other values than text.
        seconds: Wall time of the call.
        error: Why "I don't know" replaced every answer, or None.
        hits: Replies of chat models that came from a reply cache; None without such a cache.
        misses: Replies that the cache did not have.
        records: The agent's record of each turn (``agents.record``), in the order of the slots; empty if it keeps none.
    """

    answers: Sequence[object]
    seconds: float
    error: str | None = None
    hits: int | None = None
    misses: int | None = None
    records: Sequence[Mapping[str, Any]] = ()

    def cause(self, position: int) -> str | None:
        """Return why a turn was not answered, by its record; None for an answered one, or without records."""
        if len(self.records) != len(self.answers):
            return None
        cause = self.records[position].get("unanswered")
        return cause if cause in _CAUSES else None

    @property
    def failure(self) -> str | None:
        """Reason why the call failed on every turn, or None.

        A call fails if the agent does, if none of its answers is text, or if no model replied to any request of any turn.
        """
        if self.error is not None:
            return self.error
        if self.answers and not any(isinstance(answer, str) for answer in self.answers):
            return f"the agent returned {type(self.answers[0]).__name__} instead of text"
        reasons = [_explain_no_reply(record) for record in self.records]
        return next(filter(None, reasons), None) if all(reasons) else None


def _explain_no_reply(record: Mapping[str, Any]) -> str | None:
    """Return why no model replied to any request of a turn.

    Returns:
        None if one did reply, or if nothing was asked and no stage failed.
    """
    stages = record.get("stages") or ()
    exchanges = [exchange for stage in stages for exchange in stage.get("exchanges") or ()]
    if any(_has_reply(exchange) for exchange in exchanges):
        return None
    failed = [str(stage.get("reason")) for stage in stages if stage.get("status") == "failed"]
    errors = [str(exchange.get("error") or "no reply in time") for exchange in exchanges]
    return next(iter([*failed, *errors]), None)


def _has_reply(exchange: Mapping[str, Any]) -> bool:
    """Return whether there was a reply, or at least the beginning of one. A model that declines replies."""
    begun = exchange.get("reply") or exchange.get("tokens") or exchange.get("is_refusal")
    return exchange.get("finish_reason", "stop") in ("stop", "length") or bool(begun)


Listen = Callable[[Callable[[list[dict[str, Any]]], None]], object]
"""Makes an agent pass the records of each call to a function (``CragAgent.trace_to``)."""

MakeCall = Callable[[Sequence[Slot]], Call]
"""Makes the call of a batch, once all earlier turns of its dialogs have been answered."""


class Answering(Protocol):
    """Answerer of batches in an order of its own, in which the turns of a dialog follow each other."""

    def get_batch_size(self) -> int:
        """Return the number of turns that an agent takes in one call."""

    def answer(self, batches: Sequence[Sequence[Slot]], make: MakeCall) -> Iterator[tuple[Call, CallResult]]:
        """Yield each call with its result.

        The next call is made by ``make`` after the caller has received the answers of the earlier ones.
        """


class OneAgent:
    """An agent of this process, asked batch after batch.

    Args:
        agent: The agent.
        replies: Returns the counts of its reply cache; None without one.
        listen: Makes it pass its records.
        keeps_batches: Ask whole batches however long they take. Otherwise, once a call has taken longer than ``LONG_CALL_SECONDS``, later
            ones have as many turns as fit into that time: answers are written down after each call, and a stop loses those under way.
    """

    def __init__(
        self,
        agent: BaseAgent,
        replies: ReplyCounts | None = None,
        listen: Listen | None = None,
        *,
        keeps_batches: bool = False,
    ) -> None:
        self._agent, self._replies, self._keeps_batches = agent, replies, keeps_batches
        self._records: list[Mapping[str, Any]] = []
        if listen is not None:
            listen(self._records.extend)

    def get_batch_size(self) -> int:
        """See ``BaseAgent``."""
        return self._agent.get_batch_size()

    def answer(self, batches: Sequence[Sequence[Slot]], make: MakeCall) -> Iterator[tuple[Call, CallResult]]:
        """See ``Answering``."""
        size: int | None = None
        for batch in batches:
            rest = batch
            while rest:
                part, rest = rest[:size], rest[size:] if size else []
                call = make(part)
                result = self.ask(call)
                yield call, result
                if result.seconds > LONG_CALL_SECONDS and not self._keeps_batches:
                    size = max(1, int(len(part) * LONG_CALL_SECONDS / result.seconds))

    def ask(self, call: Call) -> CallResult:
        """Ask the agent, and return its answers with the records of the turns."""
        self._records.clear()
        return replace(ask(self._agent, call, self._replies), records=tuple(self._records))


def ask(agent: BaseAgent, call: Call, replies: ReplyCounts | None = None) -> CallResult:
    """Ask an agent and measure the time.

    If it raises, or returns a wrong number of answers, every answer is "I don't know".

    Args:
        agent: The agent.
        call: Batch of questions.
        replies: Returns the counts of the agent's reply cache; None without one.

    Raises:
        CallCancelledError: The call was cancelled.
    """
    before = replies() if replies is not None else None
    start = time.perf_counter()
    answers: Sequence[object] = []
    error: str | None = None
    try:
        answers = agent.batch_generate_response(call.queries, call.images, call.histories, **call.more)
        if not isinstance(answers, list | tuple) or len(answers) != len(call.slots):
            description = f"{len(answers)} answers" if isinstance(answers, list | tuple) else type(answers).__name__
            error = f"the agent returned {description} for {len(call.slots)} questions"
    except CallCancelledError:
        raise
    except ForeignAgentError as problem:  # the frames of this process say nothing about it
        log.error("the agent failed: %s\n%s", problem, problem.traceback)
        error = scrub(f"{type(problem).__name__}: {problem}")
    except Exception as problem:  # one failing batch must not cost the answers of the others
        log.exception("the agent failed")
        error = scrub(f"{type(problem).__name__}: {problem}")
    seconds = time.perf_counter() - start
    if error is not None:
        answers = [I_DONT_KNOW] * len(call.slots)
    if replies is None or before is None:
        return CallResult(answers, seconds, error)
    hits, misses = (after - earlier for after, earlier in zip(replies(), before, strict=True))
    return CallResult(answers, seconds, error, hits, misses)
