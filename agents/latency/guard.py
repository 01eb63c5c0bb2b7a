"""The latency guard of an agent: one deadline a call, a plan for each stage, a watchdog over each, and the time of dialogs."""

from __future__ import annotations

import copy
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from agents.deadline import Clock, Deadline
from agents.latency.budget import Budget
from agents.latency.dialogs import DialogTimes
from agents.latency.estimates import Estimates
from agents.latency.reduction import reduced
from agents.latency.worker import HungError, Worker
from agents.pipeline import perform
from agents.settings import Limits
from agents.stage import Context, Stage
from agents.turn import Turn

T = TypeVar("T")
_log = logging.getLogger(__name__)

_GRACE_SHARE = 0.5  # of the margin: how long work that should have ended by itself is waited for
_OPENING_SHARE = 0.5  # of a call: for pictures to be decoded
_LAST_SHARE = 0.4  # of the margin: the last stage, which gives the answers, has so long even when all time was spent
_MOST_MARGIN = 0.25  # of a call: where a dialog has little time left the margin may not eat all of it


class Guard:
    """Keeps the calls of one agent within their time.

    Each stage runs on copies of the turns in a worker thread. When it ends they are taken over; when it does not end in time they are
    not, so that a thread which wakes up later changes nothing. While such a thread still runs, its stage is left out of further calls.

    Args:
        stages: The agent's, in their order.
        limits: What the challenge allows.
        clock: A monotonic clock in seconds; tests pass a faster one.
    """

    def __init__(self, stages: Sequence[Stage], limits: Limits, clock: Clock = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._last = stages[-1] if stages else None
        self._estimates = Estimates()
        self._budget = Budget(stages, self._estimates, limits.verification_share)
        self._dialogs = DialogTimes(limits.seconds_per_dialog)
        self._worker = Worker()
        self._hung: dict[str, threading.Thread] = {}

    def start(self, turns: int) -> Deadline:
        """The clock of a call of so many turns, by its hard limit."""
        return Deadline(self._limits.seconds_per_turn * turns, self._clock)

    def within(self, call: Deadline, work: Callable[[], T]) -> T:
        """The result of work that comes before the stages, and may take half of the call's time altogether.

        Raises:
            TimeoutError: It did not end in time, or there was none left.
            Exception: Whatever the work raises.
        """
        until = _OPENING_SHARE * (call.elapsed() + call.left())
        if call.elapsed() >= until:
            raise TimeoutError("no time left")
        try:
            return self._worker.run(work, lambda: call.elapsed() >= until)
        except HungError:
            raise TimeoutError(f"no end after {call.elapsed():.2f} s") from None

    def deadline(self, call: Deadline, turns: Sequence[Turn]) -> Deadline:
        """When the turns have to be answered: the limits of turns and dialogs less the margin."""
        allowed = sum(self._dialogs.allowance(turn, self._limits.seconds_per_turn) for turn in turns)
        margin = min(self._limits.margin_seconds, _MOST_MARGIN * allowed)
        return Deadline(allowed - margin - call.elapsed(), self._clock)

    def run(self, stage: Stage, turns: Sequence[Turn], context: Context, seconds: float) -> None:
        """Run one stage as far as there is time for it; ``seconds`` is what the call had at its beginning."""
        hung = self._hung.get(stage.name)
        if hung is not None and hung.is_alive():
            _close(turns, stage, 0.0, "an earlier call still hangs in it")
            return
        self._hung.pop(stage.name, None)
        if stage is not self._last and context.deadline.left() < -_GRACE_SHARE * self._limits.margin_seconds:
            _close(turns, stage, 0.0, "no time left")
            return
        plan = self._budget.plan(stage, len(turns), context.deadline.left(), seconds)
        if plan.reason is not None:
            self._estimates.relax(stage.name)
        if plan.way == "skipped":
            _close(turns, stage, 0.0, plan.reason)
            return
        own = dataclasses.replace(context, deadline=context.deadline.sooner(plan.reserve))
        if plan.way == "reduced":
            own = reduced(own)
        self._watch(stage, turns, own, plan.reason)

    def _watch(self, stage: Stage, turns: Sequence[Turn], context: Context, why_reduced: str | None) -> None:
        copies = [_copy(turn) for turn in turns]
        started = self._clock()
        grace = _GRACE_SHARE * self._limits.margin_seconds

        last = _LAST_SHARE * self._limits.margin_seconds if stage is self._last else 0.0

        def over() -> bool:
            return context.deadline.left() < -grace and self._clock() - started >= last

        try:
            failed = self._worker.run(lambda: perform(stage, copies, context, reduced=why_reduced), over)
        except HungError as error:
            self._hung[stage.name] = error.thread
            seconds = self._clock() - started
            self._estimates.at_least(stage.name, len(turns), seconds, reduced=why_reduced is not None)
            reason = f"hung: no end after {seconds:.2f} s"
            _log.error("stage %s %s", stage.name, reason)
            for turn in turns:
                turn.error = turn.error or f"{stage.name}: {reason}"
            _close(turns, stage, seconds, reason)
            return
        for turn, made in zip(turns, copies, strict=True):
            vars(turn).update(vars(made))
        if not failed:
            self._estimates.observe(stage.name, len(turns), self._clock() - started, reduced=why_reduced is not None)

    def finish(self, turns: Sequence[Turn], call: Deadline) -> None:
        """Charge the dialogs of a call with its time."""
        self._dialogs.charge(turns, call.elapsed())


def _copy(turn: Turn) -> Turn:
    """A turn whose fields, notes and trace can be set without the other noticing; pictures and evidence are shared."""
    made = copy.copy(turn)
    made.trace = list(turn.trace)
    made._notes = dict(turn._notes)
    return made


def _close(turns: Sequence[Turn], stage: Stage, seconds: float, reason: str | None) -> None:
    for turn in turns:
        turn.close_stage(stage.name, seconds, skipped=reason)
