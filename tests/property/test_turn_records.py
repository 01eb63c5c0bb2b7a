"""Records of turns: they survive their file, and hold nothing that the settings leave out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.record import (
    FINDINGS,
    PICTURE_FIELDS,
    VERSION,
    BoxFound,
    Decision,
    EvidenceFound,
    Exchange,
    PictureFound,
    RecordError,
    SentMessage,
    Signal,
    StageRecord,
    TurnRecord,
    finding,
    read_record,
)
from agents.runner.trace import TraceWriter
from agents.settings.presets import TraceSettings
from agents.turn import Turn
from tests.property.fuzzing import fuzzed, hostile_text

MARKER = "Zarquon"

numbers = st.floats(allow_nan=False)
names = st.text("abc._ ", min_size=1, max_size=6)


def stage_records(texts: st.SearchStrategy[str], reasons: st.SearchStrategy[str]) -> st.SearchStrategy[StageRecord]:
    """Stages that found and noted all kinds of things; ``texts`` describe what was asked, seen, found or said."""
    scores = st.one_of(st.none(), numbers)
    leaves = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), numbers, texts)
    values = st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
        max_leaves=6,
    )
    return st.builds(
        StageRecord,
        stage=names,
        seconds=numbers,
        status=st.sampled_from(("ran", "reduced", "skipped", "failed", "hung")),
        cause=st.sampled_from((None, "time", "hanging", "error")),
        reason=st.one_of(st.none(), reasons),
        entity=st.one_of(st.none(), texts),
        pictures=st.lists(st.builds(PictureFound, texts, numbers, texts), max_size=2).map(tuple),
        boxes=st.lists(st.builds(BoxFound, *[numbers] * 4, texts, scores), max_size=2).map(tuple),
        queries=st.lists(texts, max_size=2).map(tuple),
        evidence=st.lists(
            st.builds(EvidenceFound, texts, st.sampled_from(("kg", "web", "image")), texts, texts, scores), max_size=2
        ).map(tuple),
        answers=st.dictionaries(names, texts, max_size=2),
        checks=st.dictionaries(names, st.one_of(st.booleans(), numbers, texts), max_size=2),
        signals=st.dictionaries(names, st.builds(Signal, numbers, st.booleans()), max_size=2),
        exchanges=st.lists(
            st.builds(
                Exchange, prompt=names, form=names, model=names, reply=texts, seconds=numbers, cached=st.booleans(),
                first_token_probs=st.dictionaries(texts, numbers, max_size=2), error=st.one_of(st.none(), reasons),
                messages=st.lists(st.builds(SentMessage, names, texts), max_size=2).map(tuple),
            ),
            max_size=2,
        ).map(tuple),
        decision=st.one_of(
            st.none(),
            st.builds(
                Decision, st.one_of(st.none(), texts), st.booleans(), st.one_of(st.none(), reasons),
                st.one_of(st.none(), reasons), scores, st.booleans(), st.booleans(),
            ),
        ),
        notes=st.dictionaries(names, values, max_size=3),
    )  # fmt: skip


whole_text = st.text(max_size=12)
marked_text = st.text("ab: ", max_size=4).map(lambda text: f"{text}{MARKER}{text}")
marked_reason = marked_text.map(lambda text: f"ValueError: {text}")


@fuzzed(150)
@given(stages=st.lists(stage_records(whole_text, whole_text), max_size=3), texts=st.tuples(*[whole_text] * 5))
def test_whatever_a_record_holds_survives_the_file(stages: list[StageRecord], texts: tuple[str, ...]) -> None:
    query, question, answer, session, interaction = texts
    record = TurnRecord(
        query, question, answer, tuple(stages), "e" if query else None, 1.5, 3, 2, session_id=session, interaction_id=interaction
    )  # fmt: skip
    line = json.dumps(record.as_json())
    assert read_record(line) == record
    assert read_record(json.loads(line)) == record
    assert read_record(line).as_json() == record.as_json()


def write_and_read(turn: Turn, settings: TraceSettings, **options: Any) -> tuple[str, TurnRecord]:
    """The line of a turn in a trace, and what is read from it."""
    records: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        TraceWriter(path, settings, records.extend, **options).write([turn], 0.5)
        text = path.read_text(encoding="utf-8")
    assert json.loads(text) == records[0]
    return text, read_record(text)


def make_turn(stages: list[StageRecord]) -> Turn:
    return Turn(
        MARKER, None, question=MARKER, answer=MARKER, error=f"answer: ValueError: {MARKER}", records=list(stages)
    )


@fuzzed(150)
@given(stages=st.lists(stage_records(marked_text, marked_reason), min_size=1, max_size=3))
def test_without_texts_no_text_of_user_reply_evidence_or_answer_is_left(stages: list[StageRecord]) -> None:
    text, record = write_and_read(make_turn(stages), TraceSettings(queries=False))
    assert MARKER not in text
    for before, after in zip(stages, record.stages, strict=True):  # numbers, names and what kind of fault it was stay
        assert (after.stage, after.status, after.cause) == (before.stage, before.status, before.cause)
        assert after.reason == (None if before.reason is None else "ValueError")
        assert after.signals == before.signals
        assert [box.left for box in after.boxes] == [box.left for box in before.boxes]
        assert [each.score for each in after.evidence] == [each.score for each in before.evidence]
        assert after.checks == {name: value for name, value in before.checks.items() if not isinstance(value, str)}
        assert (after.decision is None) == (before.decision is None)
        if before.decision is not None and after.decision is not None:
            assert replace(after.decision, candidate=None) == after.decision
            assert (after.decision.given, after.decision.probability) == (
                before.decision.given, before.decision.probability,
            )  # fmt: skip


@fuzzed(150)
@given(stages=st.lists(stage_records(marked_text, marked_reason), min_size=1, max_size=3))
def test_without_pictures_nothing_that_describes_one_is_left(stages: list[StageRecord]) -> None:
    text, record = write_and_read(make_turn(stages), TraceSettings(images=False), of_the_picture={"a", "b"})
    for stage in json.loads(text)["stages"]:
        assert stage.keys().isdisjoint(PICTURE_FIELDS)
        assert stage.get("notes", {}).keys().isdisjoint({"a", "b"})
        assert MARKER not in json.dumps(stage)  # replies and evidence may name what is seen
    assert (record.query, record.answer) == (MARKER, MARKER)
    assert {"entity", "nearest", "pictures", "boxes"} == PICTURE_FIELDS


@fuzzed(60)
@given(stages=st.lists(stage_records(hostile_text, hostile_text), max_size=2), query=hostile_text)
def test_hostile_texts_leave_a_line_that_can_be_read(stages: list[StageRecord], query: str) -> None:
    """Half surrogate pairs among them, which JSON can write and no reader takes."""
    turn = Turn(query, None, question=query, answer="a", records=list(stages))
    _, record = write_and_read(turn, TraceSettings())
    assert len(record.stages) == len(stages)


def test_what_is_no_json_costs_its_own_text_and_no_line() -> None:
    turn = Turn("q", None)
    turn.note(reply="x" * 5_000, lock=object(), deep={"a": (1, {2})})
    turn.record(evidence=[EvidenceFound("y" * 5_000)])
    turn.close_stage("odd", 0.1)
    _, record = write_and_read(turn, TraceSettings())
    [stage] = record.stages
    assert len(stage.notes["reply"]) == len(stage.evidence[0].text) == 2_001
    assert stage.notes["lock"].startswith("<object object") and stage.notes["deep"] == {"a": [1, "{2}"]}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query": "a", "stages": [{"stage": "x", "skipped": null}]}', "it has version 1 of the record, this program reads 2"),
        (f'{{"version": {VERSION + 1}}}', "it has version 3 of the record, this program reads 2"),
        ('{"version": null}', "it has version None of the record"),
        ("[1]", "it is no JSON object"),
        ('{"query": "c\ufffd', "it is no JSON (Unterminated string"),
        ("[" * 100_000, "it is no JSON (nested more than 100 levels deep)"),
        ('{"version": 2, "stages": 3}', "stages: Input should be a valid tuple"),
        ('{"version": 2, "stages": [{"stage": "x", "status": "odd"}]}', "stages.0.status: Input should be 'ran',"),
        ('{"version": 2, "stages": [{"seconds": 1}]}', "stages.0.stage: Field required"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_is_refused_in_one_line(line: str, message: str) -> None:
    with pytest.raises(RecordError) as caught:
        read_record(line)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_fields_of_a_later_program_are_passed_over() -> None:
    assert read_record('{"version": 2, "more": 1, "stages": [{"stage": "x", "exchanges": []}]}') == TurnRecord(
        stages=(StageRecord("x"),)
    )


def test_findings_add_up_within_a_stage_and_are_checked_at_once() -> None:
    turn = Turn("q", None)
    turn.record(checks={"a": True, "b": None}, signals={"x.y": Signal(0.5)}, boxes=[BoxFound(0, 0, 1, 1)], entity="Cup")
    turn.record(checks={"c": 0.5}, signals={"x.z": Signal(float("nan"))}, boxes=(), entity=None)
    assert turn.signals == {"x.y": Signal(0.5)}  # before the stage has ended too
    turn.close_stage("one", 0.1)
    turn.record(checks={"d": "no"})
    turn.note(empty=None)
    turn.close_stage("two", 0.2)
    one, two = turn.records
    assert (one.checks, one.boxes, one.entity) == ({"a": True, "c": 0.5}, (), None)
    assert (two.checks, two.signals, two.notes) == ({"d": "no"}, {}, {})
    assert turn.signals == {"x.y": Signal(0.5)}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("hits", (), "hits: no finding; known: answers, boxes"),
        ("signals", {"x.y": 0.5}, "signals: Signal is wanted, not float"),
        ("signals", [Signal(0.5)], "signals: a mapping is wanted, not list"),
        ("boxes", BoxFound(0, 0, 1, 1), "boxes: a tuple is wanted, not BoxFound"),
        ("boxes", [[0, 0, 1, 1]], "boxes: BoxFound is wanted, not list"),
        ("entity", 5, "entity: str is wanted, not int"),
        ("answers", {"draft": 5}, "answers: str is wanted, not int"),
        ("checks", {"a": [1]}, "checks: bool | int | float | str is wanted, not list"),
        ("decision", "answered", "decision: Decision is wanted, not str"),
    ],
)
def test_what_is_no_finding_fails_the_stage_that_tells_it(name: str, value: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        Turn("q", None).record(**{name: value})
    assert str(caught.value).startswith(message)
    assert {"entity", "boxes", "signals"} <= FINDINGS and finding("queries", ["a"]) == ("a",)
