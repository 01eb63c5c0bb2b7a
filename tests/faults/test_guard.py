"""The parts of the latency guard: estimates, plans, dialogs, the worker that is left behind, reduction."""

from __future__ import annotations

import dataclasses
import gc
import math
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

import pytest
from PIL import Image

from agents.deadline import Deadline
from agents.latency.budget import Budget
from agents.latency.dialogs import DialogTimes
from agents.latency.estimates import Estimates
from agents.latency.guard import Guard
from agents.latency.reduction import reduced, reduced_settings
from agents.latency.worker import HungError, Worker
from agents.search.gateway import SearchGateway
from agents.settings import PRESETS, Limits, load_settings, names
from agents.stage import Context, Stage
from agents.stages.documents import DocumentsStage
from agents.stages.rerank import Rerank
from agents.stages.web_search import WebSearch
from agents.turn import Evidence, Turn
from tests.agent.scripted import ScriptedChat, ScriptedPipeline, context, turn


class Timed:
    """A stage that takes as long as it is told on a scripted clock."""

    least_seconds: ClassVar[float] = 1.0
    wanted_seconds: ClassVar[float] = 2.0

    def __init__(self, name: str, clock: Clock | None = None, seconds: float = 0.0) -> None:
        self.name = name  # type: ignore[misc]
        self.clock, self.seconds = clock, seconds
        self.ran: list[Context] = []

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        self.ran.append(context)
        if self.clock is not None:
            self.clock.now += self.seconds


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_estimates_follow_what_was_seen_and_doubt_themselves() -> None:
    known = Estimates()
    assert known.seconds("draft", 4) is None
    known.observe("draft", 4, 2.0)
    assert known.seconds("draft", 4) == pytest.approx(2.0 + 2 * 0.5)  # mean + 2 deviations of a quarter
    assert known.seconds("draft", 8) == pytest.approx(6.0)  # in proportion for more turns
    assert known.seconds("draft", 1) == pytest.approx(3.0)  # no less for fewer
    assert known.seconds("draft", 4, reduced=True) is None
    for _ in range(60):
        known.observe("draft", 4, 1.0)
    assert known.seconds("draft", 4) == pytest.approx(1.0, abs=0.05)
    known.relax("draft")
    assert known.seconds("draft", 4) == pytest.approx(0.8, abs=0.05)


def test_a_stage_runs_whole_reduced_or_not_at_all() -> None:
    stages: list[Stage] = [Timed("ground"), Timed("answer"), Timed("verify")]
    budget = Budget(stages, Estimates(), verification_share=0.15)
    assert budget.reserve(stages[0], 1, 10.0) == pytest.approx(2.0)  # the answer's 1 s, and verification's 1 s
    assert budget.reserve(stages[0], 1, 4.0) == pytest.approx(1.6)  # of 4 s no more than 15% is kept for verification
    assert budget.plan(stages[0], 1, left=4.0, whole_call=10.0).way == "whole"
    assert budget.plan(stages[0], 1, left=3.5, whole_call=10.0).way == "reduced"
    skipped = budget.plan(stages[0], 1, left=2.5, whole_call=10.0)
    assert skipped.way == "skipped"
    assert skipped.reason is not None and "2.50 s left" in skipped.reason


def test_a_slow_answer_leaves_the_stages_before_it_half_of_the_call() -> None:
    stages: list[Stage] = [Timed("ground"), Timed("answer")]
    known = Estimates()
    known.at_least("answer", 1, 9.5)  # it hung once
    assert Budget(stages, known, verification_share=0.15).reserve(stages[0], 1, 10.0) == pytest.approx(5.0)


def test_what_was_measured_counts_more_than_what_was_declared() -> None:
    stages: list[Stage] = [Timed("ground")]
    known = Estimates()
    known.observe("ground", 1, 0.1)
    assert Budget(stages, known, 0.15).plan(stages[0], 1, left=0.5, whole_call=10.0).way == "whole"
    known = Estimates()
    known.observe("ground", 1, 6.0)
    assert Budget(stages, known, 0.15).plan(stages[0], 1, left=5.0, whole_call=10.0).way == "reduced"


def test_a_stage_once_too_slow_is_tried_whole_again() -> None:
    clock = Clock()
    slow = Timed("ground", clock, 20.0)
    guard = Guard([slow], Limits(), clock)
    ways = []
    for _ in range(12):
        asked = [turn("a")]
        made = context(load_settings("best", "gpu"))
        call = guard.start(1)
        deadline = guard.deadline(call, asked)
        guard.run(slow, asked, _with(made, deadline), deadline.left())
        slow.seconds = 0.1  # a model was loaded the first time
        ways.append("reduced" if "reduced" in asked[0].trace[0] or asked[0].trace[0]["skipped"] else "whole")
    assert ways[0] == "whole"
    assert ways[1] == "reduced"
    assert ways[-1] == "whole"


def _with(made: Context, deadline: object) -> Context:
    return dataclasses.replace(made, deadline=deadline)  # type: ignore[arg-type]


def test_a_stage_that_hung_is_known_to_take_at_least_that_long() -> None:
    known = Estimates()
    known.observe("draft", 1, 1.0)
    known.at_least("draft", 1, 8.0)
    assert known.seconds("draft", 1) == pytest.approx(8.0)
    known.at_least("draft", 1, 0.5)  # it was started late, and had no more
    assert known.seconds("draft", 1) == pytest.approx(8.0)
    known.at_least("ground", 2, 3.0)
    assert known.seconds("ground", 2) == pytest.approx(3.0)


def test_dialogs_are_known_by_picture_and_first_question() -> None:
    times = DialogTimes(30.0)
    first = turn("Who built it?")
    assert times.allowance(first, 10.0) == 10.0
    times.charge([first], 24.0)
    second = turn(
        "When?", history=({"role": "user", "content": "Who built it?"}, {"role": "assistant", "content": "Eiffel"})
    )
    assert times.allowance(second, 10.0) == pytest.approx(3.0)  # half of the 6 s left
    other = turn("When?", size=(30, 30), history=second.history)
    assert times.allowance(other, 10.0) == 10.0
    times.charge([second], 3.0)
    assert times.allowance(second, 10.0) == pytest.approx(1.5)
    times.charge([turn("Who built it?")], 1.0)  # the same question about the same picture, asked anew
    assert times.allowance(second, 10.0) == 10.0


def test_dialogs_never_take_more_than_their_limit_and_are_forgotten_in_the_end() -> None:
    times = DialogTimes(30.0, most=8)
    spent = 0.0
    history = ({"role": "user", "content": "a"},)
    for number in range(6):
        asked = turn("a", history=history if number else ())
        allowed = times.allowance(asked, 10.0)
        spent += allowed
        times.charge([asked], allowed)
    assert spent <= 30.0
    times.charge([turn(f"question {number}") for number in range(100)], 1.0)
    assert len(times) == 8


def test_a_dialog_without_time_is_not_answered_late() -> None:
    clock = Clock()
    guard = Guard([], Limits(), clock)
    first = turn("a")
    call = guard.start(1)
    clock.now += 30.0
    guard.finish([first], call)
    late = turn("b", history=({"role": "user", "content": "a"},))
    assert guard.deadline(guard.start(1), [late]).left() <= 0.0


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


@pytest.mark.parametrize("preset", names(PRESETS))
def test_every_preset_can_be_reduced(preset: str) -> None:
    for profile in ("gpu", "embedded"):
        whole = load_settings(preset, profile)
        less = reduced_settings(whole)
        assert less.stages == whole.stages
        assert less.ground.most_crops <= whole.ground.most_crops
        assert less.queries.most == 1
        assert less.evidence.most_chunks <= 24
        assert type(whole).model_validate(less.model_dump()) == less


@pytest.mark.parametrize(
    ("stage", "preset"), [(Rerank(), "best"), (DocumentsStage(), "mavis")], ids=["rerank", "documents"]
)
def test_a_reduced_stage_scores_fewer_pairs(stage: Stage, preset: str) -> None:
    settings = load_settings(preset, "gpu")
    asked = turn("How high is it?")
    asked.evidence = tuple(Evidence(f"chunk {number}", "web", "Tower") for number in range(40))
    pairs: list[int] = []

    class Counting:
        name = "counting"

        def score(self, given: Sequence[tuple[str, str]]) -> list[float]:
            pairs.append(len(given))
            return [0.5] * len(given)

    made = context(settings, reranker=Counting())
    stage.run([asked], made)
    stage.run([asked], reduced(made))
    assert pairs == [40, settings.reduced.chunks]


def test_a_reduced_model_says_less_and_searches_are_fewer() -> None:
    settings = load_settings("best", "gpu")
    chat = ScriptedChat(lambda _: "a tower")
    less = reduced(context(settings, chat=chat))
    request = less.prompts["parametric_answer"].request(image=None, question="What?", history=(), evidence=())
    less.models.chat().chat([request])
    assert chat.requests[0].max_tokens == math.ceil(settings.reduced.tokens * request.max_tokens)
    asked = turn("How high?", queries=("a", "b", "c"))
    searched = ScriptedPipeline({}, {})
    WebSearch().run([asked], dataclasses.replace(less, search=SearchGateway(searched)))
    assert len(searched.queries) == settings.reduced.queries == 1


def test_what_a_stage_that_woke_up_late_writes_is_lost() -> None:
    class Late:
        name: ClassVar[str] = "draft"
        least_seconds: ClassVar[float] = 0.0
        wanted_seconds: ClassVar[float] = 0.0

        def run(self, turns: Sequence[Turn], context: Context) -> None:
            release.wait(10.0)
            for asked in turns:
                asked.answer = "late"

    release = threading.Event()
    stage = Late()
    guard = Guard([stage], Limits(seconds_per_turn=0.1, margin_seconds=0.02))
    asked = [Turn("a", Image.new("RGB", (8, 8)))]
    made = context(load_settings("vlm_only", "gpu"))  # files are read before the clock runs
    call = guard.start(1)
    deadline = guard.deadline(call, asked)
    made = _with(made, deadline)
    guard.run(stage, asked, made, 0.1)
    assert "hung" in asked[0].trace[0]["skipped"]
    again = [turn("b")]
    guard.run(stage, again, made, 0.1)
    assert "still hangs" in again[0].trace[0]["skipped"]
    release.set()
    guard._hung["draft"].join(5.0)
    assert asked[0].answer != "late"
    careful = [turn("c")]
    guard.run(stage, careful, dataclasses.replace(made, deadline=Deadline(0.08)), 0.1)
    assert "would like" in careful[0].trace[0]["reduced"]  # it took all of its time before
    guard.run(stage, again, context(load_settings("vlm_only", "gpu")), 0.1)
    assert again[0].answer == "late"  # the stage is back once its thread has ended
