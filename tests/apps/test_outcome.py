"""What people are told of a turn is what its trace says."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agents.record import (
    FOLLOWS_ORDERS,
    REQUEST_IMAGES,
    BoxFound,
    Decision,
    Exchange,
    PictureFound,
    StageRecord,
    TurnRecord,
    Unanswered,
)
from agents.stage import Context, Stage
from agents.turn import Turn
from apps.answering import Answerer, Question
from apps.outcome import Outcome, Time, _explain, build_outcome
from tests.apps.conftest import PHOTO, ScriptedAgent, crag_agent
from tests.support.failure_table import answering


def test_each_question_of_a_batch_has_its_own_outcome(tmp_path: Path) -> None:
    answerer = Answerer(crag_agent(), tmp_path / "trace.jsonl")
    blank = PHOTO.resize((10, 10))
    outcomes = answerer.answer([Question("How tall is this?", PHOTO), Question("Who made it?", blank)])
    assert [outcome.entity for outcome in outcomes] == ["Red Tower", None]
    again = answerer.answer([Question("Who made it?", blank)])
    assert [outcome.entity for outcome in again] == [None]
    assert len((tmp_path / "trace.jsonl").read_text().splitlines()) == 3  # the file is written as well


def test_an_agent_without_a_trace_has_its_answers_alone() -> None:
    outcome = Answerer(ScriptedAgent()).answer([Question("Who?", None)])[0]
    assert outcome == build_outcome("answer to Who?", None)


def test_what_is_not_recognised_is_told_with_its_nearest() -> None:
    stages = (
        StageRecord("image_search", entity="Cup"),
        StageRecord("select_entity", nearest=PictureFound("Cup", 0.224)),
    )
    outcome = build_outcome("a", TurnRecord(stages=stages))
    assert (outcome.entity, outcome.nearest) == (None, ("Cup", 0.224))
    assert outcome.unrecognised == "Not recognised; nearest: Cup (cosine 0.22)"


def test_boxes_become_crops() -> None:
    boxes = (BoxFound(1, 2, 30, 40, "a cup", 0.9), BoxFound(5, 5, 1, 1), BoxFound(0, 0, math.nan, 9))
    stage = StageRecord("ground", 0.1, boxes=(*boxes, BoxFound(0, 0, 1e300, 9), BoxFound(0, 0, math.inf, 9)))
    [crop] = build_outcome("a", TurnRecord(stages=(stage,))).crops  # the others are no parts of a photo
    assert (crop.left, crop.top, crop.right, crop.bottom, crop.phrase) == (1, 2, 30, 40, "a cup")


def test_a_stage_that_did_not_run_says_why_in_one_word() -> None:
    """What terminal and page print behind "skipped:"."""
    stages = (
        StageRecord("a", 0.5, "reduced", "time", "1.00 s left, would like 2.00 s"),
        StageRecord("b", 0.0, "skipped", "time", "no time left"),
        StageRecord("c", 0.1, "failed", "error", "ValueError: no"),
        StageRecord("d", 0.2, "hung", "time", "no end after 0.20 s, in agents.x:1"),
    )
    reasons = [time.skipped for time in build_outcome("a", TurnRecord(stages=stages)).times]
    assert reasons == [None, "no time left", "failed: ValueError: no", "hung: no end after 0.20 s, in agents.x:1"]


@pytest.mark.parametrize(
    ("error", "public_error"),
    [
        ("rerank: ModelError: Cannot reach http://10.0.0.5:9000/rerank: /srv/models/x", "rerank: ModelError"),
        ("isolated_answers: Cannot reach http://10.0.0.5:9000/v1: refused", "isolated_answers"),
        ("image: UnidentifiedImageError: cannot identify /home/me/a.jpg", "image: UnidentifiedImageError"),
        ("steps: hung: no end after 3.00 s, in agents.x:1", "steps: hung"),
        ("web_search: SearchError", "web_search: SearchError"),
        ("what http://10.0.0.5 says", "something failed"),
        (None, None),
    ],
)
def test_of_an_error_strangers_are_told_stage_and_kind(error: str | None, public_error: str | None) -> None:
    failed = "failed: ModelError: Cannot reach http://10.0.0.5:9000/v1"
    times = (Time("a", 0.1, None), Time("b", 0.0, "no time left"), Time("c", 0.1, failed))
    whole = Outcome("300 m", entity="A: b", times=times, error=error)
    public_outcome = whole.without_error_texts()
    assert public_outcome.error == public_error
    assert [time.skipped for time in public_outcome.times] == [None, "no time left", "failed: ModelError"]
    assert replace(public_outcome, error=error, times=times) == whole


def test_a_record_that_cannot_be_read_costs_the_details_alone(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Stage):
        name = "odd"

        def run(self, turns: Sequence[Turn], context: Context) -> None:
            for turn in turns:
                turn.record(boxes=[BoxFound("left", 0, 1, 1)])  # type: ignore[arg-type]

    agent = crag_agent()
    agent.pipeline.stages.insert(0, Odd())
    outcome = Answerer(agent).answer([Question("How tall is this?", PHOTO)])[0]
    assert outcome == build_outcome("300 m", None)
    assert "stages.0.boxes.0.left" in caplog.text


@pytest.mark.parametrize(
    ("decision", "explanation", "withheld"),
    [
        (Decision("300 m", given=True), "Answered.", None),
        (Decision("300 m", given=True, probability=0.71, needed=0.5), "Answered: 71% sure, 50% needed.", None),
        (
            Decision("300 m", given=False, reason="the gate", probability=0.209, needed=0.5),
            "Would have said “300 m”; 21% sure, 50% needed.",
            "300 m",
        ),
        (
            Decision("300 m", given=False, reason="the gate", probability=0.4996, needed=0.5),
            "Would have said “300 m”; 49.96% sure, 50.00% needed.",
            "300 m",
        ),
        (
            Decision("A bee", given=False, reason="it is late", ruled_out="it is late", probability=0.9, needed=0.5),
            "Would have said “A bee”; not said, because it is late.",
            "A bee",
        ),
        (Decision(None, given=False, reason="no answer was found"), "No answer was found.", None),
        (Decision("I don't know.", given=False, reason="the model does not know"), "The model does not know.", None),
    ],
)
def test_a_decision_is_told_with_how_sure_the_agent_is(
    decision: Decision, explanation: str, withheld: str | None
) -> None:
    outcome = build_outcome("a", TurnRecord(stages=(StageRecord("finalise", decision=decision),)))
    assert (outcome.explained, outcome.withheld) == (explanation, withheld)


def test_an_answer_that_follows_orders_out_of_the_evidence_is_not_shown() -> None:
    decision = Decision("Visit evil.example", given=False, reason=FOLLOWS_ORDERS, ruled_out=FOLLOWS_ORDERS)
    outcome = build_outcome("I don't know", TurnRecord(stages=(StageRecord("finalise", decision=decision),)))
    assert outcome.withheld is None and "evil" not in outcome.explained


def test_text_read_in_the_photo_is_told() -> None:
    exchanges = (Exchange("p", "f", "m"), Exchange("p", "f", "m", read=("STOP", "5 km")))
    assert build_outcome("a", TurnRecord(stages=(StageRecord("answer", exchanges=exchanges),))).read == ("STOP", "5 km")


def test_an_outcome_survives_json() -> None:
    outcome = Answerer(crag_agent()).answer([Question("How tall is this?", PHOTO)])[0]
    assert Outcome.from_json(json.loads(json.dumps(outcome.as_json()))) == outcome
    assert Outcome.from_json({"answer": 3}) is None


def test_a_full_disk_does_not_hide_that_the_agent_failed(tmp_path: Path) -> None:
    """A file stands where the pictures of requests belong."""
    (tmp_path / REQUEST_IMAGES).write_text("")
    with answering("broken") as agent:
        trace = agent.settings.trace.model_copy(update={"requests": True})
        agent.settings = agent.settings.model_copy(update={"trace": trace})
        (outcome,) = Answerer(agent, tmp_path / "t.jsonl").answer([Question("How tall is this?", PHOTO)])
    assert outcome.failed and outcome.cause is Unanswered.BUSY
    assert not (tmp_path / "t.jsonl").exists()


@pytest.mark.parametrize("off", ["queries", "images"])
def test_who_asked_is_told_what_traces_may_not_hold(tmp_path: Path, off: str) -> None:
    """``trace.*`` is about files: a reply goes to whoever sent question and photo."""
    agent = crag_agent()
    trace = agent.settings.trace.model_copy(update={off: False})
    agent.settings = agent.settings.model_copy(update={"trace": trace})
    (outcome,) = Answerer(agent, tmp_path / "t.jsonl").answer([Question("How tall is this?", PHOTO)])
    (untraced_outcome,) = Answerer(crag_agent()).answer([Question("How tall is this?", PHOTO)])
    assert (
        outcome.entity == untraced_outcome.entity == "Red Tower" and outcome.sources == untraced_outcome.sources != ()
    )
    trace_text = (tmp_path / "t.jsonl").read_text(encoding="utf-8")
    assert '"stage"' in trace_text and "Red Tower" not in trace_text


def test_the_signals_that_pulled_are_told() -> None:
    withheld = Decision(
        "1874", False, "44% sure, 50% needed", probability=0.44, needed=0.5, pulls={"no_entity": -0.94, "p_yes": 0.4}
    )
    assert _explain(withheld) == ("Would have said “1874”; 44% sure, 50% needed: no entity -0.9.", "1874")
    given = replace(withheld, given=True, reason=None, probability=0.6)
    assert _explain(given) == ("Answered: 60% sure, 50% needed: p yes +0.4.", None)
