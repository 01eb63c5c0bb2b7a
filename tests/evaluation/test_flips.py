"""Two runs beside each other: flipped verdicts, and the stage in which traces first differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from agents.record import PictureFound, StageRecord, TurnRecord
from evaluation.files.outputs import write_outputs
from evaluation.files.run_log import RUN_LOG
from evaluation.files.traces import TRACE
from evaluation.records import EvaluationError, JudgedTurn, RunLogLine
from evaluation.studies import flips
from evaluation.studies.flips import find_first_difference, find_flips
from evaluation.studies.judged_entries import Entry
from tests.evaluation.worlds import judged, run_command, write_records


def trace(*stages: StageRecord) -> TurnRecord:
    return TurnRecord(stages=tuple(replace(stage, seconds=stage.seconds or n) for n, stage in enumerate(stages, 1)))


def search(score: float) -> StageRecord:
    return StageRecord("image_search", pictures=(PictureFound("yak", score),))


SEARCH = search(0.51234)
ANSWER = StageRecord("answer", notes={"reply": "540 kg"})
OTHER = replace(ANSWER, notes={"reply": "5"})
ROUTE = StageRecord("route", notes={"route": "rag"})
MISSED = StageRecord("verify", status="skipped", cause="time", reason="no time")


@pytest.mark.parametrize(
    ("one", "other", "stage", "difference"),
    [
        ([SEARCH, ANSWER], [replace(SEARCH, seconds=9), ANSWER], "(answer)", "all stages noted the same"),
        ([SEARCH, ANSWER], [SEARCH, replace(OTHER, notes={"reply": "5", "finish": "stop"})], "answer", "finish, reply"),
        ([SEARCH, ANSWER], [SEARCH, replace(ANSWER, answers={"draft": "5"}, checks={"ok": True})], "answer", "answers, checks"),
        ([SEARCH], [search(0.51239)], "(answer)", "all stages noted the same"),
        ([SEARCH], [search(0.52)], "image_search", "pictures"),
        # the first stage both have comes before one that the first trace alone has
        ([ROUTE, SEARCH, ANSWER], [SEARCH, OTHER], "answer", "reply"),
        ([ROUTE, ANSWER], [ANSWER], "route", "in the first run alone"),
        ([ANSWER], [ANSWER, StageRecord("verify")], "verify", "in the second run alone"),
        ([ANSWER], [ANSWER, MISSED], "(answer)", "all stages noted the same"),
        # how much time was left is no difference, whether there was enough is
        ([MISSED], [replace(MISSED, reason="0.8 s left")], "(answer)", "all stages noted the same"),
        ([replace(ANSWER, status="reduced", cause="time", reason="1.2 s left")], [ANSWER], "answer", "cause, status"),
        ([replace(ANSWER, status="failed", cause="error", reason="no")], [ANSWER], "answer", "cause, status"),
        ([], [], "(answer)", "all stages noted the same"),
    ],
)  # fmt: skip
def test_the_first_difference_of_two_traces(
    one: Sequence[StageRecord], other: Sequence[StageRecord], stage: str, difference: str
) -> None:
    assert asdict(find_first_difference(trace(*one), trace(*other))) == {"stage": stage, "what": difference}


def run_folder(folder: Path, turns: Sequence[JudgedTurn], traces: Sequence[TurnRecord]) -> Path:
    """A finished run: answers, verdicts, run log and traces."""
    write_outputs(folder, turns, {"judge": "by hand"})
    lines = [RunLogLine(*turn.turn.key, 0, n, len(turns), 1.0, 2.0, None, None) for n, turn in enumerate(turns)]
    files = {"response.jsonl": [turn.turn.to_dict() for turn in turns], RUN_LOG: [asdict(line) for line in lines]}
    for name, records in files.items():
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    keys = (turn.turn.key for turn in turns)
    pairs = zip(keys, traces, strict=False)
    write_records(folder / TRACE, [replace(record, session_id=s, interaction_id=i) for (s, i), record in pairs])
    return folder


def test_flips_are_counted_and_traced(tmp_path: Path) -> None:
    before = [*judged("cm", "a"), *judged("h", "b"), *judged("m", "c"), *judged("c", "d")]
    after = [*judged("hm", "a"), *judged("c", "b"), *judged("c", "c"), *judged("c", "d")]
    same, other = trace(SEARCH, ANSWER), trace(SEARCH, OTHER)
    entity = trace(replace(SEARCH, pictures=()), OTHER)
    one = run_folder(tmp_path / "one", before, [same] * 4)  # the last turn has no trace
    two = run_folder(tmp_path / "two", after, [other, other, entity, other])
    status, output = run_command(flips.main, one, two, "--out", tmp_path / "out")
    assert status == 0
    result = json.loads((tmp_path / "out" / "flips.json").read_text())
    assert result["matrix"]["right"] == {"right": 1, "missing": 0, "wrong": 1, "error": 0, "unjudged": 0}
    assert (
        result["matrix"]["wrong"]["right"]
        == result["matrix"]["missing"]["right"]
        == result["matrix"]["missing"]["missing"]
        == 1
    )
    assert [(flip["interaction_id"], flip["first_difference"]["stage"]) for flip in result["flips"]] == [
        ("a-0", "answer"),  # the loss comes first
        ("c-0", "answer"),
        ("b-0", "image_search"),
    ]
    assert result["comparison"]["change"] == pytest.approx((-2 + 1 + 2) / 5)
    assert "3 of 5 turns of both flipped" in output and "by hand" in output
    assert "right → wrong" in (tmp_path / "out" / "flips.html").read_text()


def test_a_turn_without_a_trace_and_one_without_a_verdict_are_named(tmp_path: Path) -> None:
    one, two = Entry("a", (*judged("h", "s"), *judged("c", "t"))), judged("h", "s")
    turn_flips = find_flips(one, Entry("b", (replace(two[0], judge_failed=True),)))
    assert [
        (flips.name_verdict(flip.before), flips.name_verdict(flip.after), flip.difference) for flip in turn_flips
    ] == [("wrong", "unjudged", None)]
    tables = flips.build_tables(one, Entry("b", (turn_flips[0].after,)), turn_flips)
    assert tables[0].headings[1:] == ("wrong", "unjudged", "together")
    assert "left out: a 1" in tables[0].notes[1]
    assert tables[1].rows == [("(no trace)", "1", "0", "0", "+0")]
    with pytest.raises(EvaluationError, match="no turn in common"):
        find_flips(one, Entry("c", tuple(judged("h", "u"))))


def test_two_equal_runs_have_the_matrix_alone() -> None:
    entry = Entry("a", (*judged("h", "s"), *judged("c", "t")))
    assert [table.title for table in flips.build_tables(entry, entry, find_flips(entry, entry))] == ["Verdicts"]
