"""Runs the stages of a preset over a batch of turns, each with a time budget, a watchdog and a record; no stage can fail the batch."""

import dataclasses
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from agents.asking.prompts import PromptLibrary
from agents.base.secrets import scrub
from agents.models.base import ModelError
from agents.profiles.model_set import ModelSet
from agents.record import Cause, Status, Unanswered
from agents.runner.guard import MAX_MARGIN, Estimates, Plan, plan
from agents.search.gateway import SearchGateway
from agents.search.hits import SearchError
from agents.settings.presets import Settings
from agents.settings.stage_needs import create_stages
from agents.stage import Context, Lease, Stage
from agents.time_limits.deadline import NO_DEADLINE, CallCancelledError, Clock, Deadline
from agents.time_limits.worker import HungError, ProcessEndsError, Worker, where
from agents.turn import Turn

_log = logging.getLogger(__name__)

Watch = Callable[[str], None]
"""Told before each stage what it does, in plain words."""

_SHORT_REPLIES = 0.5  # of the tokens that a reply may have, where a stage has less time than it would like
_ONE_SENTENCE = 52  # tokens, as in prompts/answer_with_evidence.j2: of so short a reply nothing can be spared
_GRACE_SHARE = 0.5  # of the margin: how long work that should have ended by itself is waited for
_MARGIN_OF_CALL = MAX_MARGIN / (1 - MAX_MARGIN)  # of the seconds up to the deadline: the largest margin behind it
_LAST_SHARE = 0.4  # of the margin: the last stage, which gives the answers, has so long even when all time was spent
_MAX_HANGING = 2  # threads that hang in one stage outside of engines: it is the stage's fault then
_NO_ENGINE = (
    "agents.texts.",
    "agents.evidence.",
    "agents.models.picture_files.",
    "agents.search.gateway.",
    "agents.search.hits.",
    "agents.search.pages.page_reader.",
    "agents.search.pages.page_text.",
    "agents.search.pages.web_cache.",
    "agents.search.retrieved.",
    "agents.time_limits.subprocess_worker.",
)
"""Modules that no model's adapter calls, and that call none: a thread whose innermost function of ours is in one of them is in no engine.
Everywhere else it may be, and engines (llama.cpp, vLLM, torch modules) are not safe to enter twice."""
_FAULTS = ((ModelError, Unanswered.MODEL), (SearchError, Unanswered.SEARCH), (TimeoutError, Unanswered.TIME))
_MAX_REASON = 500  # characters; an error may quote megabytes of its input


class Pipeline:
    """The stages of one preset; each agent has one, and learns for itself how long they take.

    Each stage runs in a worker thread. When it does not end in time the pipeline continues with the turns as they were before it, so that a
    thread that wakes up later changes nothing, and can reach neither models nor search. The next call runs the stage in a new thread: the
    input that kept it busy was the earlier call's. It is left out while a thread still hangs inside a model's engine or the search, which
    may not be entered twice, or while ``_MAX_HANGING`` threads hang in it.
    Tests pass a faster clock, and stages in place of those of the settings.
    """

    def __init__(
        self,
        settings: Settings,
        models: ModelSet,
        search: SearchGateway,
        prompts: PromptLibrary,
        clock: Clock = time.monotonic,
        stages: Sequence[Stage] | None = None,
    ) -> None:
        self.stages = list(create_stages(settings) if stages is None else stages)
        names = tuple(stage.name for stage in self.stages)
        guarded = settings.guard.injection
        self.context = Context(
            models,
            search,
            prompts,
            NO_DEADLINE,
            settings.limits,
            names,
            settings.fetch,
            settings.collection,
            settings.today,
            guarded=guarded,
        )
        self.worker = Worker()
        self.hung: dict[str, list[threading.Thread]] = {}  # by stage
        self._clock = clock
        self._times = Estimates()
        self._margin = settings.limits.margin_seconds

    def run(
        self,
        turns: Sequence[Turn],
        deadline: Deadline = NO_DEADLINE,
        shorten: Callable[[int], int] | None = None,
        watch: Watch | None = None,
    ) -> list[Turn]:
        """Run all stages on the turns.

        ``shorten`` maps a reply's limit of tokens to the one to use, which warms up models cheaply.

        Returns:
            The turns in order. After a stage that hung they are not the given objects.

        Raises:
            CallCancelledError: The deadline is cancelled before the last stage begins.
        """
        context = dataclasses.replace(self.context, deadline=deadline, shorten=shorten)
        seconds = deadline.left()
        current_turns = list(turns)
        for stage in self.stages:
            if deadline.cancelled:
                raise CallCancelledError
            if watch is not None:
                watch(stage.doing or stage.name.replace("_", " "))
            current_turns = self.run_stage(stage, current_turns, context, seconds)
        return current_turns

    def run_stage(self, stage: Stage, turns: list[Turn], context: Context, seconds: float = math.inf) -> list[Turn]:
        """Run one stage within its time, and close its trace entry on each turn.

        ``seconds`` are those that the call had at its beginning.
        """
        place = self.stages.index(stage)
        last = stage is self.stages[-1]
        if self._still_hangs(stage):
            return _close(turns, stage, 0.0, "skipped", "hanging", "an earlier call still hangs in it")
        remaining = context.deadline.left()
        margin = min(self._margin, _MARGIN_OF_CALL * seconds) if seconds > 0 else self._margin
        grace, last_seconds = _GRACE_SHARE * margin, _LAST_SHARE * margin
        if not last and remaining < -grace:
            return _close(turns, stage, 0.0, "skipped", "time", "no time left")
        planned = plan(stage, self.stages[place + 1 :], self._times, len(turns), remaining, seconds)
        if planned.reason is not None:
            self._times.decay(stage.name, len(turns))
        if planned.mode == "skipped":
            return _close(turns, stage, 0.0, "skipped", "time", planned.reason)
        short = planned.mode == "short"
        lease = Lease()
        own = self._make_context(stage, context, planned, lease)
        began, started = time.time(), self._clock()

        def over() -> bool:
            waited = self._clock() - started
            return own.deadline.due() < -grace and (not last or waited >= last_seconds)

        before = [turn.snapshot() for turn in turns]
        try:
            failures = self.worker.run(partial(attempt, stage, turns, own), over)
        except HungError as error:
            lease.end()
            self.hung[stage.name].append(error.thread)
            took, hung_in = self._clock() - started, where(error.thread)
            if not hung_in.startswith(_NO_ENGINE):  # one page's time says nothing of the next
                self._times.at_least(stage.name, len(turns), took, short=short)
            reason = f"no end after {took:.2f} s, in {hung_in}"
            _log.error("stage %s hung: %s", stage.name, reason)
            for turn in before:
                turn.error = turn.error or f"{stage.name}: hung: {reason}"
            return _close(before, stage, took, "hung", "time", reason, Unanswered.TIME, began)
        took = self._clock() - started
        # Without a limit nothing is learnt: models are loaded while an agent is warmed up.
        if not any(failures) and math.isfinite(seconds) and not own.deadline.cancelled:
            self._times.observe(stage.name, len(turns), took, short=short)
        for turn, failed in zip(turns, failures, strict=True):
            if failed is not None:
                turn.error = turn.error or f"{stage.name}: {failed.reason}"
                turn.close_stage(stage.name, took, "failed", "error", failed.reason, failed.fault, began)
            elif short:
                turn.close_stage(stage.name, took, "reduced", "time", planned.reason, began=began)
            else:
                turn.close_stage(stage.name, took, began=began)
        return turns

    def _still_hangs(self, stage: Stage) -> bool:
        """Forget threads of the stage that have ended; return whether those left forbid to run it again."""
        self.hung[stage.name] = [each for each in self.hung.get(stage.name, ()) if each.is_alive()]
        inside = [function for each in self.hung[stage.name] if (function := where(each))]
        return len(inside) >= _MAX_HANGING or not all(function.startswith(_NO_ENGINE) for function in inside)

    def _make_context(self, stage: Stage, context: Context, planned: Plan, lease: Lease) -> Context:
        """Return the context of one stage, with its own deadline; models and search are lent."""
        earlier = self.stages[: self.stages.index(stage)]
        own = dataclasses.replace(
            context,
            deadline=context.deadline.sooner(planned.reserve),
            short=planned.mode == "short",
            gathering=tuple(each for each in earlier if each.gathers),
        )
        if own.short:
            own = dataclasses.replace(own, shorten=shorten_reply)
        return dataclasses.replace(own, models=lease.lend(own.models), search=lease.lend(own.search))


def shorten_reply(tokens: int) -> int:
    """Halve the limit of tokens of a reply, but leave one sentence whole: half of an only sentence is no answer."""
    return max(min(tokens, _ONE_SENTENCE), math.ceil(_SHORT_REPLIES * tokens))


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a stage failed on a turn, in words and by kind."""

    reason: str
    fault: Unanswered


def _describe_failure(error: BaseException) -> Failure:
    """Describe a stage's exception; the type of the error gives the kind."""
    fault = Unanswered.STAGE
    for kinds, kind_fault in _FAULTS:
        if isinstance(error, kinds):
            fault = kind_fault
            break
    return Failure(scrub(f"{type(error).__name__}: {error}")[:_MAX_REASON], fault)


def attempt(stage: Stage, turns: Sequence[Turn], context: Context) -> list[Failure | None]:
    """Run a stage; if it fails for the batch, run it for each turn alone, because one of them may be to blame.

    Returns:
        The failure of each turn, or None.
    """
    failures: list[Failure | None] = [None] * len(turns)
    tries: list[list[int]] = [list(range(len(turns)))]
    for places in tries:
        if places != tries[0] and not context.deadline.allows(stage.min_seconds):
            continue  # no time to try this turn alone: it keeps the failure of the batch
        try:
            stage.run([turns[place] for place in places], context)
            failure = None
        except (KeyboardInterrupt, ProcessEndsError):
            raise
        except BaseException as error:  # noqa: BLE001 - the boundary that keeps one stage's fault from costing the batch its answers: Rust
            # panics, SystemExit and asyncio's CancelledError too, which are no ``Exception``
            _log.exception("stage %s failed", stage.name)
            failure = _describe_failure(error)
            # A ModelError is that of an engine which can answer no one.
            if places is tries[0] and len(places) > 1 and not isinstance(error, ModelError):
                tries += [[place] for place in places]
        for place in places:
            failures[place] = failure
    return failures


def _close(
    turns: list[Turn],
    stage: Stage,
    seconds: float,
    status: Status,
    cause: Cause,
    reason: str | None,
    fault: Unanswered | None = None,
    began: float | None = None,
) -> list[Turn]:
    began = time.time() if began is None else began
    for turn in turns:
        turn.close_stage(stage.name, seconds, status, cause, reason, fault, began)
    return turns
