"""Time limits: estimates of each stage's time, the plan of how a stage is run, and the seconds that dialogs have left."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from PIL import Image

from agents.profiles.profile import Limits
from agents.stage import Stage
from agents.time_limits.deadline import Clock, Deadline
from agents.turn import Turn

VERIFICATION_SHARE = 0.15  # of a call: kept for the stages that verify answers at most
_MAX_FOR_ANSWERING = 0.5  # of a call: an answer that once hung may not keep everything before it from running
_REDUCED_SHARE = 0.5  # of the time of a stage, where it was never seen to do less: replies are half as long
MAX_MARGIN = 0.25  # of a call: where a dialog has little time left the margin may not eat all of it

# The gains of TCP's round-trip estimator (RFC 6298, section 2), 2 deviations for its 4: a stage cut short costs quality, not the link.
_MEAN_GAIN = 1 / 8
_DEVIATION_GAIN = 1 / 4
_DEVIATIONS = 2.0
_DECAY = 0.8  # factor of decay of the estimate of a skipped stage, so that the stage is retried

_MAX_DIALOGS = 4096
_DIALOG_SHARE = 0.5  # of what a dialog has left goes to one turn at most: how many turns come is not known
_SIDE = 32  # a picture is recognised by so many pixels of each side

RunMode = Literal["whole", "short", "skipped"]


@dataclass(frozen=True)
class Plan:
    """How a stage is to be run."""

    mode: RunMode  # whole, short (``Stage.when_short``) or skipped
    reserve: float = 0.0  # seconds that it has to leave to later stages
    reason: str | None = None  # why it is not run whole; always for want of time


def plan(
    stage: Stage, later: Sequence[Stage], times: Estimates, turns: int, remaining: float, whole_call: float
) -> Plan:
    """Decide how to run a stage: whole, reduced, or not at all.

    A stage whose ``min_seconds`` is 0 is never skipped, nor an answer or a verification while time is left. A stage is reduced if later
    ones could not even run reduced otherwise, and skipped only if answer and verification need the time.

    Args:
        stage: The stage.
        later: The stages after it.
        times: Estimates of their seconds.
        turns: Number of turns.
        remaining: Seconds until the deadline of the call.
        whole_call: Seconds that the call had at its beginning.
    """
    reserve = kept_for(later, times, turns, whole_call)
    has = remaining - reserve
    full_seconds = times.seconds(stage.name, turns, stage.wanted_seconds)
    minimum = min(estimate_reduced(stage, times, turns), full_seconds)
    of_others = sum(estimate_reduced(other, times, turns) for other in later)
    reserve_text = f" and {reserve:.2f} s kept for later stages" if reserve > 0 else ""
    if has >= full_seconds and (minimum == full_seconds or remaining - of_others >= full_seconds):
        return Plan("whole", reserve)
    budget_text = f"{max(0.0, remaining):.2f} s left{reserve_text}"
    if stage.min_seconds <= 0 or has >= minimum or (stage.kind != "ordinary" and has > 0):
        return Plan("short", reserve, f"{budget_text}, would like {full_seconds:.2f} s")
    return Plan("skipped", reserve, f"{budget_text}, needs {minimum:.2f} s")


def estimate_reduced(stage: Stage, times: Estimates, turns: int) -> float:
    """Estimate the seconds of a stage that does less: as observed, else half of its seconds when it runs whole."""
    whole = times.seconds(stage.name, turns, math.inf)
    unseen = stage.min_seconds
    if math.isfinite(whole) and unseen > 0:
        unseen = max(min(unseen, whole), _REDUCED_SHARE * whole)
    return min(times.seconds(stage.name, turns, unseen, short=True), whole)


def kept_for(later: Sequence[Stage], times: Estimates, turns: int, whole_call: float) -> float:
    """Seconds to keep for the stages to come that answer and verify."""

    def minimum(kind: str) -> float:
        return sum(estimate_reduced(stage, times, turns) for stage in later if stage.kind == kind)

    return min(minimum("answers"), _MAX_FOR_ANSWERING * whole_call) + min(
        minimum("verifies"), VERIFICATION_SHARE * whole_call
    )


@dataclass
class _Time:
    mean: float
    deviation: float
    count: int = 1

    @property
    def seconds(self) -> float:
        return self.mean + _DEVIATIONS * self.deviation


class Estimates:
    """How long stages take, learnt from how long they took: by name, whole or short, and number of turns. One for an agent."""

    def __init__(self) -> None:
        self._estimates: dict[tuple[str, bool], dict[int, _Time]] = {}

    def observe(self, stage: str, turns: int, seconds: float, *, short: bool = False) -> None:
        """Update the estimate with the seconds that a stage took for so many turns: mean and deviation, exponentially weighted."""
        sizes = self._estimates.setdefault((stage, short), {})
        estimate = sizes.get(turns)
        if estimate is None:
            sizes[turns] = _Time(seconds, seconds / 4)
            return
        estimate.count += 1
        estimate.deviation += _DEVIATION_GAIN * (abs(seconds - estimate.mean) - estimate.deviation)
        estimate.mean += _MEAN_GAIN * (seconds - estimate.mean)

    def at_least(self, stage: str, turns: int, seconds: float, *, short: bool = False) -> None:
        """Raise the estimate of a stage that had not ended after so many seconds to at least these."""
        sizes = self._estimates.setdefault((stage, short), {})
        if turns not in sizes or sizes[turns].seconds < seconds:
            sizes[turns] = _Time(seconds, 0.0)

    def seconds(self, stage: str, turns: int, declared: float, *, short: bool = False) -> float:
        """Estimate a stage's seconds for a batch, scaled from the nearest observed size; ``declared`` if none was observed."""
        sizes = self._estimates.get((stage, short))
        if not sizes:
            return declared
        nearest = _nearest(sizes, turns)
        return sizes[nearest].seconds * max(1.0, turns / max(1, nearest))

    def decay(self, stage: str, turns: int) -> None:
        """Decay the estimates by which a stage was skipped or reduced for so many turns, so that it is retried in full.

        A single observation may have been an accident. Repeated ones are retried ever more seldom, since that costs later stages.
        """
        for short in (False, True):
            sizes = self._estimates.get((stage, short))
            if sizes:
                estimate = sizes[_nearest(sizes, turns)]
                factor = _DECAY ** (1 / estimate.count**2)
                estimate.mean *= factor
                estimate.deviation *= factor


def _nearest(sizes: Iterable[int], turns: int) -> int:
    return min(sizes, key=lambda size: (abs(size - turns), size))


class DialogTimes:
    """The seconds that dialogs have spent: calls of the evaluator do not say which dialog a turn belongs to.

    A dialog is known by its picture and first question. A turn is charged the time of its call divided by the turns in it, as the
    evaluator counts ("10 s x batch size"). Of more than ``limit`` dialogs the one unused for longest is forgotten first.
    """

    def __init__(self, limits: Limits, clock: Clock, limit: int = _MAX_DIALOGS) -> None:
        self._limits, self._clock, self._limit = limits, clock, limit
        self._spent: OrderedDict[bytes, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._spent)

    def deadline(self, call: Deadline, turns: Sequence[Turn]) -> Deadline:
        """Return when the turns of a call have to be answered: the limits of turns and dialogs minus the margin."""
        allowed = sum(self.allowance(turn) for turn in turns)
        margin = min(self._limits.margin_seconds, MAX_MARGIN * allowed)
        return call.within(allowed - margin - call.elapsed())

    def allowance(self, turn: Turn) -> float:
        """Compute the seconds a turn may take: its own limit, at most half of the time left to its dialog.

        The first turn of a dialog may use all of the dialog's seconds.
        """
        own, dialog = self._limits.seconds_per_turn, self._limits.seconds_per_dialog
        if not turn.history:
            return min(own, dialog)
        return min(own, _DIALOG_SHARE * max(0.0, dialog - self._find_spent(turn)))

    def charge(self, turns: Sequence[Turn], seconds: float) -> None:
        """Note that a call took so long; a first question starts its dialog again."""
        for turn in turns:
            spent = seconds / len(turns) + (self._find_spent(turn) if turn.history else 0.0)
            self._spent[key := _make_key(turn)] = spent
            self._spent.move_to_end(key)
            while len(self._spent) > self._limit:
                self._spent.popitem(last=False)

    def _find_spent(self, turn: Turn) -> float:
        return self._spent.get(_make_key(turn), 0.0)


def _make_key(turn: Turn) -> bytes:
    """Return the key of a turn's dialog, by its first question and the pixels of its photo."""
    first = next((message["content"] for message in turn.history if message.get("role") == "user"), turn.query)
    digest = hashlib.sha1(first.encode("utf-8", errors="replace"), usedforsecurity=False)
    if turn.image is not None:
        small = turn.image.resize((_SIDE, _SIDE), Image.Resampling.NEAREST)
        digest.update(repr(turn.image.size).encode() + small.tobytes())
    return digest.digest()
