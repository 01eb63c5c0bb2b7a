"""What keeps a call in time: learnt times, plans, dialogs, the worker that is left behind, stages that do less."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from PIL import Image

from agents.models.base import ModelError
from agents.papers.core_mmrag import ParametricAnswer
from agents.papers.mavis import DocumentsStage
from agents.papers.qa_dragon import DraftStage
from agents.profiles.profile import PRESETS, Limits, names
from agents.record import TurnRecord
from agents.runner.guard import DialogTimes, Estimates, Plan, kept_for, plan
from agents.runner.pipeline import Pipeline
from agents.search.gateway import SearchGateway
from agents.search.hits import PageText
from agents.settings.presets import Settings, load_settings
from agents.settings.stage_needs import create_stages
from agents.stage import Context, Stage, stage_class, stage_names
from agents.stages.answer import Answer
from agents.stages.isolated_answers import IsolatedAnswers
from agents.stages.rerank import Rerank
from agents.stages.verify import Verify
from agents.stages.web_search import WebSearch
from agents.time_limits.deadline import NO_DEADLINE, CallCancelledError, Deadline
from agents.time_limits.worker import EscapedError, HungError, Worker
from agents.turn import Candidate, Evidence, Turn
from tests.agent.scripted import ScriptedChat, ScriptedPipeline, build_pipeline, context, run, turn
from tests.support.fault_plan import Plan as FaultPlan
from tests.support.hostile_files import Panic
from tests.support.scripted_clock import ScriptedClock, ScriptedWorker
from tests.support.scripted_parts import Search


class Timed(Stage):
    """A stage that takes as long as it is told on a scripted clock."""

    min_seconds = 1.0
    wanted_seconds = 2.0

    def __init__(self, name: str, kind: str = "ordinary", clock: Clock | None = None, seconds: float = 0.0) -> None:
        super().__init__()
        self.name, self.kind = name, kind  # type: ignore[misc, assignment]
        self.clock, self.seconds = clock, seconds
        self.ran: list[Context] = []

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        self.ran.append(context)
        if self.clock is not None:
            self.clock.now += self.seconds


def pipeline_with(limits: Limits, clock: Callable[[], float], *stages: Stage) -> Pipeline:
    parts = context(Settings(stages=(), limits=limits))
    return Pipeline(parts.settings, parts.models, parts.search, parts.prompts, clock, stages)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_estimates_follow_what_was_seen_and_doubt_themselves() -> None:
    estimates = Estimates()
    assert estimates.seconds("draft", 4, 7.0) == 7.0  # as declared
    estimates.observe("draft", 4, 2.0)
    assert estimates.seconds("draft", 4, 7.0) == pytest.approx(2.0 + 2 * 0.5)  # mean + 2 deviations of a quarter
    assert estimates.seconds("draft", 8, 7.0) == pytest.approx(6.0)  # in proportion for more turns
    assert estimates.seconds("draft", 1, 7.0) == pytest.approx(3.0)  # no less for fewer
    assert estimates.seconds("draft", 4, 7.0, short=True) == 7.0
    for _ in range(60):
        estimates.observe("draft", 4, 1.0)
    assert estimates.seconds("draft", 4, 7.0) == pytest.approx(1.0, abs=0.05)


def test_estimates_of_a_single_observation_decay_faster_and_other_sizes_keep_theirs() -> None:
    estimates = Estimates()
    for turns, times in ((1, 1), (2, 3), (16, 1)):
        for _ in range(times):
            estimates.observe("draft", turns, 1.0)
    before = {turns: estimates.seconds("draft", turns, 7.0) for turns in (1, 2, 16)}
    estimates.decay("draft", 1)
    estimates.decay("draft", 2)
    after = {turns: estimates.seconds("draft", turns, 7.0) / before[turns] for turns in (1, 2, 16)}
    assert after == {1: pytest.approx(0.8), 2: pytest.approx(0.8 ** (1 / 9)), 16: 1.0}


def make_plan(estimates: Estimates, remaining: float, later: Sequence[Stage] = ()) -> Plan:
    return plan(Timed("ground"), later, estimates, 1, remaining=remaining, whole_call=10.0)


def test_a_stage_runs_whole_short_or_not_at_all() -> None:
    later = [Timed("answer", "answers"), Timed("verify", "verifies")]
    assert kept_for(later, Estimates(), 1, 10.0) == pytest.approx(2.0)  # the answer's 1 s, and verification's 1 s
    assert kept_for(later, Estimates(), 1, 4.0) == pytest.approx(
        1.6
    )  # of 4 s no more than 15% is kept for verification
    assert make_plan(Estimates(), 4.0, later).mode == "whole"
    assert make_plan(Estimates(), 3.5, later).mode == "short"
    skipped = make_plan(Estimates(), 2.5, later)
    assert skipped.mode == "skipped"
    assert skipped.reason is not None and "2.50 s left" in skipped.reason


def test_a_slow_answer_leaves_the_stages_before_it_half_of_the_call() -> None:
    estimates = Estimates()
    estimates.at_least("answer", 1, 12.0)  # it hung once
    assert kept_for([Timed("answer", "answers")], estimates, 1, 10.0) == pytest.approx(5.0)


def test_a_stage_does_less_where_later_ones_could_not_run_at_all() -> None:
    search, answer = Timed("web_search"), Timed("answer", "answers")
    assert make_plan(Estimates(), 4.0, [search, answer]).mode == "whole"
    assert make_plan(Estimates(), 3.9, [search, answer]).mode == "short"  # each of them needs 1 s
    estimates = Estimates()
    estimates.observe("ground", 1, 0.2)
    assert make_plan(estimates, 1.5, [search, answer]).mode == "whole"  # doing less would not help them


def test_the_time_kept_for_the_answer_is_that_of_a_reduced_answer() -> None:
    answer = Timed("answer", "answers")
    estimates = Estimates()
    estimates.observe("answer", 1, 6.0)
    assert kept_for([answer], estimates, 1, 10.0) == pytest.approx(4.5)  # half of mean and 2 deviations
    estimates.observe("answer", 1, 2.0, short=True)
    assert kept_for([answer], estimates, 1, 10.0) == pytest.approx(3.0)


def test_an_answer_is_tried_in_whatever_time_is_left() -> None:
    estimates = Estimates()
    estimates.observe("answer", 1, 6.0)
    assert plan(Timed("answer", "answers"), [], estimates, 1, remaining=0.5, whole_call=10.0).mode == "short"
    assert plan(Timed("ground"), [], estimates, 1, remaining=0.5, whole_call=10.0).mode == "skipped"


def test_measured_seconds_win_over_declared_seconds() -> None:
    estimates = Estimates()
    estimates.observe("ground", 1, 0.1)
    assert make_plan(estimates, 0.5).mode == "whole"
    estimates = Estimates()
    estimates.observe("ground", 1, 6.0)
    assert make_plan(estimates, 5.0).mode == "short"


def cut_short(turn: Turn) -> bool:
    """What evaluation and calibration ask of a record."""
    return TurnRecord(stages=tuple(turn.records)).was_cut_short


def test_every_stage_that_the_clock_kept_from_running_is_recognised() -> None:
    """The stages of ``best`` on the machine with the least time, for deadlines from none left to more than enough."""
    settings, clock = load_settings("best", "embedded"), Clock()
    reasons: list[str] = []
    ran_whole = []
    for tenths in range(-10, 200, 5):
        stages = [Timed(stage.name, stage.kind) for stage in create_stages(settings)]
        for timed_stage, stage in zip(stages, create_stages(settings), strict=True):
            timed_stage.min_seconds, timed_stage.wanted_seconds = stage.min_seconds, stage.wanted_seconds  # type: ignore[misc]
        [finished_turn] = pipeline_with(settings.limits, clock, *stages).run([turn("a")], Deadline(tenths / 10, clock))
        missed = [record for record in finished_turn.records if not record.complete]
        assert [record.stage for record in finished_turn.records if record.complete] == [
            each.name for each in stages if each.ran
        ]
        assert {(record.status, record.cause) for record in missed} <= {("skipped", "time")}
        assert cut_short(finished_turn) is bool(missed)
        reasons += [str(record.reason) for record in missed]
        ran_whole.append(not missed)
    assert len(reasons) > 30 and any(ran_whole)
    for words in ("no time left", " s left, needs ", " s kept for later stages, needs "):
        assert any(words in reason for reason in reasons), words


def test_a_stage_that_failed_says_something_of_the_method_and_is_not_cut_short() -> None:
    class Broken(Stage):
        name = "broken"

        def run(self, turns: Sequence[Turn], context: Context) -> None:
            for each in turns:
                each.note(seen="it")
            raise ValueError("1.00 s left, needs 2.00 s")

    clock = Clock()
    finished_turns = pipeline_with(Limits(), clock, Broken()).run([turn("a"), turn("b")], Deadline(9.0, clock))
    for finished_turn in finished_turns:  # each was tried alone too
        [record] = finished_turn.records
        assert (record.status, record.cause, record.reason) == (
            "failed",
            "error",
            "ValueError: 1.00 s left, needs 2.00 s",
        )
        assert record.notes == {"seen": "it"} and not cut_short(finished_turn)
        assert finished_turn.error == "broken: ValueError: 1.00 s left, needs 2.00 s"


def get_ending(turn: Turn) -> tuple[str, str | None]:
    """How the only stage of a pipeline ended, and why so."""
    [record] = turn.records
    return record.status, record.cause


def test_a_stage_once_too_slow_is_tried_whole_again() -> None:
    clock = Clock()
    slow = Timed("ground", "ordinary", clock, 20.0)
    pipeline = pipeline_with(Limits(), clock, slow)
    ways = []
    for _ in range(12):
        [finished_turn] = pipeline.run([turn("a")], Deadline(9.0, clock))
        slow.seconds = 0.1  # a model was loaded the first time
        ways.append("whole" if finished_turn.records[0].status == "ran" else "short")
    assert ways[0] == "whole"
    assert ways[1] == "short"
    assert ways[-1] == "whole"


def test_what_runs_without_a_limit_teaches_nothing() -> None:
    """Models are loaded while an agent is warmed up."""
    clock = Clock()
    slow = Timed("ground", "ordinary", clock, 20.0)
    pipeline = pipeline_with(Limits(), clock, slow)
    pipeline.run([turn("a")])
    [finished_turn] = pipeline.run([turn("a")], Deadline(9.0, clock))
    assert (finished_turn.records[0].status, finished_turn.records[0].cause) == ("ran", None)


def test_a_stage_that_hung_is_known_to_take_at_least_that_long() -> None:
    estimates = Estimates()
    estimates.observe("draft", 1, 1.0)
    estimates.at_least("draft", 1, 8.0)
    assert estimates.seconds("draft", 1, 0.0) == pytest.approx(8.0)
    estimates.at_least("draft", 1, 0.5)  # it was started late, and had no more
    assert estimates.seconds("draft", 1, 0.0) == pytest.approx(8.0)
    estimates.at_least("ground", 2, 3.0)
    assert estimates.seconds("ground", 2, 0.0) == pytest.approx(3.0)


def test_dialogs_are_known_by_picture_and_first_question() -> None:
    times = DialogTimes(Limits(), time.monotonic)
    first = turn("Who built it?")
    assert times.allowance(first) == 10.0
    times.charge([first], 24.0)
    second = turn(
        "When?", history=({"role": "user", "content": "Who built it?"}, {"role": "assistant", "content": "Eiffel"})
    )
    assert times.allowance(second) == pytest.approx(3.0)  # half of the 6 s left
    other = turn("When?", size=(30, 30), history=second.history)
    assert times.allowance(other) == 10.0
    times.charge([second], 3.0)
    assert times.allowance(second) == pytest.approx(1.5)
    times.charge([turn("Who built it?")], 1.0)  # the same question about the same picture, asked again
    assert times.allowance(second) == 10.0


def test_dialogs_never_take_more_than_their_limit_and_are_forgotten_in_the_end() -> None:
    times = DialogTimes(Limits(), time.monotonic, limit=8)
    spent = 0.0
    history = ({"role": "user", "content": "a"},)
    for number in range(6):
        question_turn = turn("a", history=history if number else ())
        allowed = times.allowance(question_turn)
        spent += allowed
        times.charge([question_turn], allowed)
    assert spent <= 30.0
    times.charge([turn(f"question {number}") for number in range(100)], 1.0)
    assert len(times) == 8


def test_a_dialog_without_time_is_not_answered_late() -> None:
    clock = Clock()
    times = DialogTimes(Limits(), clock)
    times.charge([turn("a")], 30.0)
    late = turn("b", history=({"role": "user", "content": "a"},))
    assert times.deadline(Deadline(10.0, clock), [late]).left() <= 0.0


def test_work_that_hangs_is_left_behind_and_the_next_is_done() -> None:
    worker = Worker()
    release = threading.Event()
    started = time.perf_counter()
    with pytest.raises(HungError) as hung:
        worker.run(release.wait, lambda: time.perf_counter() - started > 0.05)
    assert hung.value.thread.is_alive()
    assert worker.run(lambda: 42, lambda: False) == 42
    release.set()
    hung.value.thread.join(5.0)
    assert not hung.value.thread.is_alive()


def test_what_work_raises_comes_out_and_the_thread_stays() -> None:
    worker = Worker()
    first = worker.run(threading.current_thread, lambda: False)
    with pytest.raises(KeyError):
        worker.run(lambda: {}["x"], lambda: False)
    assert worker.run(threading.current_thread, lambda: False) is first
    del worker
    gc.collect()
    first.join(5.0)
    assert not first.is_alive()


class EndsLate(Future[Any]):
    """A result that is there just after the wait for it was over, as where the waiting thread is descheduled in between."""

    def result(self, timeout: float | None = None) -> Any:
        try:
            return super().result(timeout)
        except TimeoutError:
            if timeout is not None and not self.done():
                go.set()
                assert super().exception(60.0) is None or isinstance(self.exception(), TimeoutError)
            raise


go = threading.Event()
"""Lets the work of ``EndsLate`` end."""


@pytest.mark.hostile("races: work that ends while its worker looks at the time")
def test_work_that_ends_just_after_the_wait_for_it_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.time_limits.worker.Future", EndsLate)
    go.clear()
    assert Worker().run(lambda: go.wait(60.0) and 42, lambda: False) == 42


@pytest.mark.hostile("races: work that ends while its worker looks at the time")
def test_a_time_out_of_the_work_itself_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        go.wait(60.0)
        raise TimeoutError("of the work")

    monkeypatch.setattr("agents.time_limits.worker.Future", EndsLate)
    go.clear()
    with pytest.raises(TimeoutError, match="of the work"):
        Worker().run(work, lambda: False)


@pytest.mark.parametrize("preset", names(PRESETS))
def test_every_stage_of_a_preset_says_what_it_needs(preset: str) -> None:
    for stage in create_stages(load_settings(preset, "gpu")):
        assert 0 <= stage.min_seconds <= stage.wanted_seconds
        assert stage.fills and stage.__doc__ and (stage.kind != "answers" or "candidate" in stage.fills)


def short(parts: Context) -> Context:
    return dataclasses.replace(parts, short=True)


@pytest.mark.parametrize(
    ("stage", "preset"), [(Rerank, "best"), (DocumentsStage, "mavis")], ids=["rerank", "documents"]
)
def test_with_less_time_fewer_pairs_are_scored(stage: type[Stage], preset: str) -> None:
    chunks = tuple(Evidence(f"chunk {number}", "web", "Tower") for number in range(40))
    pairs: list[int] = []

    class Counting:
        name = "counting"

        def score(self, batch: Sequence[tuple[str, str]]) -> list[float]:
            pairs.append(len(batch))
            return [0.5] * len(batch)

    parts = context(load_settings(preset, "gpu"), reranker=Counting())
    run(stage, [turn("How high is it?", evidence=chunks)], parts)
    run(stage, [turn("How high is it?", evidence=chunks)], short(parts))
    assert pairs == [40, 24]
    assert "24 chunks" in stage.when_short


def test_with_less_time_replies_are_half_as_long_and_searches_fewer() -> None:
    chat = ScriptedChat(lambda _: "a tower")
    parts = context(load_settings("best", "gpu"), chat=chat)
    pipeline = build_pipeline(parts, DraftStage)
    pipeline.run([turn("What?")])
    pipeline.run([turn("What?")], Deadline(2.5))  # 4 s are wanted
    whole, reduced = chat.requests
    assert reduced.max_tokens == math.ceil(0.5 * whole.max_tokens)
    question_turn = turn("How high?", queries=("a", "b", "c"))
    searched = ScriptedPipeline({}, {})
    run(WebSearch, [question_turn], short(context(load_settings("best", "gpu"), searched)))
    assert len(searched.queries) == 1


@pytest.mark.parametrize("stage", [Answer, ParametricAnswer, IsolatedAnswers, Verify], ids=lambda stage: stage.name)
def test_with_less_time_a_reply_of_one_sentence_keeps_all_its_tokens(stage: type[Stage]) -> None:
    """Half of the only sentence is no answer: it would be dropped, and the time of the turn lost."""
    chat = ScriptedChat(lambda _: "a tower")
    pipeline = build_pipeline(context(load_settings("best", "embedded"), chat=chat), stage)
    shown = (Evidence("It is 330 m high.", "kg", "Tower"), Evidence("It is high.", "web", "Towers", "a.org"))
    candidate = None if stage is Answer else Candidate("330 m.", None)

    def ask(deadline: Deadline) -> list[int]:
        chat.requests.clear()
        [record] = pipeline.run([turn("How high?", shown=shown, candidate=candidate)], deadline)[0].records
        assert (record.status == "reduced") == (deadline is not NO_DEADLINE)
        return [request.max_tokens for request in chat.requests]

    whole = ask(NO_DEADLINE)
    assert whole and ask(Deadline(1.5)) == whole  # 2 s are wanted


def test_what_a_stage_that_woke_up_late_writes_is_lost() -> None:
    class Late(Stage):
        def run(self, turns: Sequence[Turn], context: Context) -> None:
            release.wait(10.0)
            for each in turns:
                each.answer = "late"

    release = threading.Event()
    limits = Limits(seconds_per_turn=0.1, margin_seconds=0.02)
    pipeline = pipeline_with(limits, time.monotonic, Late())
    question_turn = Turn("a", Image.new("RGB", (8, 8)))
    [finished_turn] = pipeline.run([question_turn], Deadline(0.08))
    assert get_ending(finished_turn) == ("hung", "time")
    [again] = pipeline.run([turn("b")], Deadline(0.08))
    assert get_ending(again) == ("skipped", "hanging")
    assert cut_short(finished_turn) and cut_short(again)
    release.set()
    [[thread]] = pipeline.hung.values()
    thread.join(5.0)
    assert finished_turn.answer != "late"
    [careful] = pipeline.run([turn("c")], Deadline(0.08))
    assert get_ending(careful) == ("reduced", "time") and "would like" in str(
        careful.records[0].reason
    )  # it took all of its time before
    [back] = pipeline.run([turn("d")])
    assert back.answer == "late"  # the stage is back once its thread has ended


class Reading(Stage):
    """A stage that reads pages through the search, then asks a model."""

    name = "web_search"

    def __init__(self) -> None:
        super().__init__()
        self.refused: list[str] = []

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        try:
            context.search.search_web([each.query for each in turns], 5)
            context.models.chat("chat").chat([])
        except ModelError as error:
            self.refused.append(str(error))
            raise
        for each in turns:
            each.answer = "read"


def reading_pipeline(
    bad: threading.Event, plan: FaultPlan | None = None, seconds: float = 0.08
) -> tuple[Pipeline, Callable[[str], Turn], Reading]:
    """A pipeline that hangs while it reads what the query "bad" finds, in the gateway, until the event."""

    class Pages(Search):
        def pages(self, query: str) -> list[dict[str, Any]]:
            return [{**hit, "page_content": query} for hit in super().pages(query)]

    def reading(pages: Sequence[str], _: Deadline) -> list[PageText]:
        if any(page.startswith("bad") for page in pages):
            _ = plan.hang() if plan is not None else bad.wait(10.0)
        return [PageText(page) for page in pages]

    stage = Reading()
    limits = Limits(seconds_per_turn=0.1, margin_seconds=0.02)
    parts = context(Settings(stages=(), limits=limits), chat=ScriptedChat(lambda _: "x"))
    gateway = SearchGateway(Pages(), read_pages=reading)
    clock = time.monotonic if plan is None or plan.clock is None else plan.clock
    pipeline = Pipeline(parts.settings, parts.models, gateway, parts.prompts, clock, [stage])
    if plan is not None and plan.clock is not None:
        pipeline.worker = ScriptedWorker(plan.clock)

    def ask(query: str) -> Turn:
        [finished_turn] = pipeline.run([turn(query)], Deadline(seconds, clock))
        return finished_turn

    return pipeline, ask, stage


def test_a_stage_that_hung_outside_of_engines_runs_again_in_the_next_call() -> None:
    plan = FaultPlan(call_seconds=10.0, clock=ScriptedClock())
    pipeline, ask, stage = reading_pipeline(plan.released, plan, seconds=10.0)
    try:
        hung = ask("bad page")
        assert get_ending(hung) == ("hung", "time") and "in agents.search.gateway" in str(hung.records[0].reason)
        good = ask("good page")
        assert (good.answer, get_ending(good)) == ("read", ("ran", None))  # what a page took says nothing of the next
        assert get_ending(ask("bad page")) == ("hung", "time")
        assert get_ending(ask("good page")) == ("skipped", "hanging")  # twice: it is the stage
    finally:
        plan.released.set()
    threads = [thread for threads in pipeline.hung.values() for thread in threads]
    for thread in threads:
        thread.join(5.0)
    assert len(threads) == 2
    assert stage.refused == ["the stage was given up, because it took too long"] * 2  # nothing reached a model late
    assert ask("good page").answer == "read"


def test_stages_that_a_stage_runs_for_its_steps_reach_no_model_once_it_was_given_up() -> None:
    class Searching(Stage):
        name, gathers = "web_search", True

        def run(self, turns: Sequence[Turn], context: Context) -> None:
            if turns[0].query == "step":
                release.wait(10.0)

    class Ranking(Reading):
        name, gathers = "rerank", True

        def run(self, turns: Sequence[Turn], context: Context) -> None:
            if turns[0].query == "step":
                super().run(turns, context)

    class Steps(Stage):
        name = "steps"

        def run(self, turns: Sequence[Turn], context: Context) -> None:
            context.gather([turn("step")])

    release, ranking = threading.Event(), Ranking()
    limits = Limits(seconds_per_turn=0.1, margin_seconds=0.02)
    pipeline = pipeline_with(limits, time.monotonic, Searching(), ranking, Steps())
    pipeline.run([turn("a")], Deadline(0.08))
    [thread] = pipeline.hung["steps"]
    release.set()
    thread.join(5.0)
    assert ranking.refused == ["the stage was given up, because it took too long"]


@pytest.mark.parametrize("error", [SystemExit(1), Panic("rust"), asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_what_is_no_exception_comes_out_of_a_worker_as_one(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(EscapedError, match=type(error).__name__):
        Worker().run(fail, lambda: False)


def test_an_interrupt_goes_through() -> None:
    class Interrupted(Stage):
        def run(self, turns: Sequence[Turn], context: Context) -> None:
            raise KeyboardInterrupt

    pipeline = pipeline_with(Limits(), time.monotonic, Interrupted())
    with pytest.raises(KeyboardInterrupt):
        pipeline.run([turn("a")])


def test_a_signal_that_ends_the_process_ends_the_wait() -> None:
    def over() -> bool:  # runs in the thread that waits, as handlers of signals do
        raise SystemExit(143)

    release = threading.Event()
    with pytest.raises(SystemExit):
        Worker().run(lambda: release.wait(5.0), over)
    release.set()


@pytest.mark.parametrize("margin", [9.0, 1.0])
def test_however_large_the_margin_a_call_keeps_its_limit(margin: float) -> None:
    """The last stage hangs when all time was spent before it."""
    plan = FaultPlan(call_seconds=10.0, clock=ScriptedClock())
    clock = plan.clock
    assert clock is not None

    class Hangs(Stage):
        def run(self, turns: Sequence[Turn], context: Context) -> None:
            plan.hang()

    limits = Limits(margin_seconds=margin)
    pipeline = pipeline_with(limits, clock, Hangs(), Hangs())
    pipeline.worker = ScriptedWorker(clock)
    began = clock()
    question_turn = turn("a")
    pipeline.run([question_turn], DialogTimes(limits, clock).deadline(Deadline(10.0, clock), [question_turn]))
    plan.released.set()
    assert clock() - began <= 10.0


def test_a_cancelled_call_ends_and_teaches_nothing() -> None:
    """The stage that runs may end of itself; no further one begins."""

    class Cancelling(Timed):
        def run(self, turns: Sequence[Turn], context: Context) -> None:
            super().run(turns, context)
            call.cancel()
            has_passed.append(context.deadline.passed())

    clock = Clock()
    call = Deadline(1000.0, clock)
    slow, never = Cancelling("slow", clock=clock, seconds=50.0), Timed("never", clock=clock)
    pipeline = pipeline_with(Limits(), clock, slow, never)
    stage_reports: list[str] = []
    has_passed: list[bool] = []
    with pytest.raises(CallCancelledError):
        pipeline.run([turn("a")], call.within(900.0), watch=stage_reports.append)
    assert stage_reports == ["slow"] and has_passed == [True] and not never.ran
    assert not pipeline.hung["slow"]
    slow.seconds = 0.0
    [after] = pipeline.run([turn("b")], Deadline(20.0, clock))  # the 50 s were no measure of the stage
    assert [(record.stage, record.status) for record in after.records] == [("slow", "ran"), ("never", "ran")]


def test_deadlines_made_of_one_are_cancelled_with_it_and_no_other() -> None:
    clock = Clock()
    call, other = Deadline(10.0, clock), Deadline(10.0, clock)
    parts = [call.sooner(1.0), call.within(5.0), call.sooner(2.0).within(3.0)]
    parts[-1].cancel()
    assert call.cancelled and all(part.cancelled and part.left() <= 0.0 for part in parts)
    assert call.due() == 10.0
    assert not other.cancelled and other.left() == 10.0
    assert not NO_DEADLINE.cancelled


def test_every_stage_has_words_for_people_who_wait() -> None:
    assert [name for name in stage_names() if not stage_class(name).doing] == []
