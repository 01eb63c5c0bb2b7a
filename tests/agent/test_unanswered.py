"""Why a turn ended as "I don't know": from the real pipeline over models and searches that fail, and from records by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.crag_agent import CragAgent
from agents.models.base import ChatReply, ChatRequest, ModelError
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.record import (
    Decision,
    EvidenceFound,
    Exchange,
    StageRecord,
    TurnRecord,
    Unanswered,
    read_record,
)
from agents.settings.presets import settings_from
from agents.unanswered import WORDS, explain_error, why_unanswered
from tests.agent.scripted import ScriptedChat, ScriptedPipeline, WordOverlapReranker
from tests.support.scripted_parts import BrokenSearch

PHOTO = Image.new("RGB", (64, 48), (200, 30, 30))
STAGES = ("image_search", "queries", "web_search", "evidence", "rerank", "answer", "finalise")


def record_turn(
    reply: str | ChatReply | Exception,
    pipeline: Any = None,
    *,
    prepare: Callable[[CragAgent], None] = lambda _: None,
    images: Sequence[Any] = (PHOTO,),
    **settings: Any,
) -> TurnRecord:
    """The record of one question, as a trace holds it."""

    def say(_: ChatRequest) -> str | ChatReply:
        if isinstance(reply, Exception):
            raise reply
        return reply

    tower_pipeline = ScriptedPipeline(
        {(64, 48): ("Red Tower", {"height": "300 m"})}, {"tower": "The tower was opened in 1901."}
    )
    models = ModelSet(
        Profile(name="scripted", models={}),
        Path("unused"),
        ready={"reranker": WordOverlapReranker(), "chat": ScriptedChat(say)},
    )
    run_settings = settings_from({"stages": STAGES, **settings})
    agent = CragAgent(tower_pipeline if pipeline is None else pipeline, settings=run_settings, models=models)
    lines: list[Any] = []
    agent.trace_to(None, lines.extend)
    prepare(agent)
    agent.batch_generate_response(["How tall is this tower?"], list(images), [[]])
    (line,) = lines
    return read_record(json.dumps(line))


class EmptySearch:
    """A search that finds nothing."""

    def __call__(self, query: Any, k: int = 5) -> list[Any]:
        return []


def break_stage(name: str, error: Exception) -> Callable[[CragAgent], None]:
    """Have a stage of an agent raise."""

    def prepare(agent: CragAgent) -> None:
        (stage,) = [stage for stage in agent.pipeline.stages if stage.name == name]

        def run(*_: Any) -> None:
            raise error

        stage.run = run  # type: ignore[method-assign]

    return prepare


def test_an_answered_turn_has_no_cause() -> None:
    record = record_turn("300 m")
    assert record.answer == "300 m"
    assert record.unanswered is why_unanswered(record) is explain_error(record) is None


def test_a_right_answer_in_spite_of_a_failed_stage_is_no_error() -> None:
    record = record_turn("300 m", prepare=break_stage("rerank", ValueError("no scores")))
    assert record.answer == "300 m" and record.error is not None
    assert record.unanswered is None


@pytest.mark.parametrize(
    ("reply", "pipeline", "cause"),
    [
        ("I don't know", None, Unanswered.REFUSED),
        ("I cannot determine that.", None, Unanswered.REFUSED),
        ("", None, Unanswered.REFUSED),
        ("I don't know", EmptySearch(), Unanswered.NO_EVIDENCE),
        ("I don't know", BrokenSearch(), Unanswered.SEARCH),
        (ChatReply("", "error", error="The server answers 500: oops"), None, Unanswered.MODEL),
        (ChatReply("", "error", error="The server answers 429", no_answer=True), None, Unanswered.BUSY),
        (ChatReply("", "length"), None, Unanswered.MODEL),
        (ChatReply("", "abort"), None, Unanswered.TIME),
        (ModelError("the key is refused"), None, Unanswered.MODEL),
        (OSError("a disk"), None, Unanswered.STAGE),
    ],
)
def test_causes_of_a_turn_without_an_answer(reply: Any, pipeline: Any, cause: Unanswered) -> None:
    record = record_turn(reply, pipeline)
    assert record.answer == "I don't know"
    assert (record.unanswered, why_unanswered(record)) == (cause, cause)
    assert (explain_error(record) is not None) == cause.is_error
    assert record.decision is not None and not record.decision.given
    if record.decision.candidate is None:
        assert record.decision.reason == WORDS[cause]


def test_what_failed_is_said_in_one_line() -> None:
    record = record_turn(ChatReply("", "error", error="The server answers 500: out of\nmemory"))
    assert explain_error(record) == "the model failed: The server answers 500: out of memory"
    assert "the index is gone" in str(explain_error(record_turn("I don't know", BrokenSearch())))
    assert "limit" in str(explain_error(record_turn(ChatReply("", "length"))))


def test_an_answer_that_a_rule_holds_back_is_withheld_unless_its_verification_failed() -> None:
    settings = {"stages": (*STAGES[:-1], "verify", "finalise"), "finalise": {"max_idk": 0.1}}
    sure = ChatReply("300 m", "stop", logprobs=(-0.1,), first_token_probs={"I": 0.9, "300": 0.1})
    assert record_turn(sure, **settings).unanswered is Unanswered.WITHHELD
    failed = record_turn(sure, prepare=break_stage("verify", ModelError("gone")), **settings)
    assert failed.unanswered is Unanswered.MODEL


def test_the_last_stage_itself_may_fail() -> None:
    record = record_turn("300 m", prepare=break_stage("finalise", ValueError("no rule")))
    assert record.unanswered is Unanswered.STAGE
    assert explain_error(record) == "a stage failed: finalise: ValueError: no rule"


def test_a_photo_that_cannot_be_read_is_a_cause_only_without_an_answer() -> None:
    assert record_turn("300 m", images=["no photo"]).unanswered is None
    record = record_turn("I don't know", images=["no photo"])
    assert record.unanswered is Unanswered.PICTURE


def test_the_cause_outlives_texts_that_are_left_out_of_a_trace() -> None:
    refused = record_turn("I don't know", trace={"queries": False})
    assert refused.unanswered is Unanswered.REFUSED and refused.answer == ""
    failed = record_turn(ChatReply("", "error", error="500: secret words", no_answer=True), trace={"images": False})
    assert failed.unanswered is Unanswered.BUSY
    assert "secret" not in str(explain_error(failed))


def late(status: Any = "skipped", **more: Any) -> StageRecord:
    return StageRecord("answer", status=status, cause="time", reason="no time left", **more)


@pytest.mark.parametrize(
    ("stages", "candidate", "cause"),
    [
        ((late(),), None, Unanswered.TIME),
        ((late("reduced"),), None, Unanswered.NO_EVIDENCE),
        ((late(),), "Paris", Unanswered.WITHHELD),
        ((late(),), "I don't know", Unanswered.TIME),
        ((late(evidence=(EvidenceFound("a"),)),), "I don't know", Unanswered.REFUSED),
        ((late("hung", fault=Unanswered.TIME),), "Paris", Unanswered.TIME),
        ((StageRecord("look", status="failed", cause="error", fault=Unanswered.STAGE),), "Paris", Unanswered.STAGE),
        ((StageRecord("a", exchanges=(Exchange("p", "f", "m"),)),), None, Unanswered.REFUSED),
    ],
)
def test_a_cause_that_is_not_written_yet_is_found_in_the_stages(
    stages: tuple[StageRecord, ...], candidate: str | None, cause: Unanswered
) -> None:
    decided = StageRecord("finalise", decision=Decision(candidate, given=False, reason="x"))
    record = TurnRecord(answer="I don't know", stages=(*stages, decided))
    fields = {name: value for name, value in record.as_json().items() if name != "unanswered"}
    assert why_unanswered(read_record(fields)) is cause
    answer_stage = replace(decided, decision=Decision("Paris", given=True))
    assert why_unanswered(replace(record, stages=(*stages, answer_stage), answer="Paris")) is None


def test_every_cause_has_its_words() -> None:
    assert set(WORDS) == set(Unanswered)
    assert {cause for cause in Unanswered if not cause.is_error} == {
        Unanswered.NO_EVIDENCE,
        Unanswered.REFUSED,
        Unanswered.WITHHELD,
    }
