"""Groups of turns, intervals over entities, and the tables over a recorded run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agents.record import TurnRecord
from evaluation.files.outputs import write_outputs
from evaluation.records import JudgedTurn
from evaluation.scores.losses import LOSSES, Loss
from lab.benchmarks.losses import CountedTurn, build_tables, list_groups, main
from tests.evaluation.worlds import judged, picture, row, write_dataset, write_records


def test_a_turn_that_nothing_answers_is_in_no_other_group() -> None:
    facts = {"photo_group": "not-in-graph"}
    assert list_groups(facts, []) == ("nothing answers", "all")
    assert list_groups(facts, ["5"]) == ("not in the graph", "all")
    assert list_groups({"photo_group": "not-shown"}, ["5"]) == ("all",)


def _of(entity: str, each: JudgedTurn) -> CountedTurn:
    loss = None if each.correct else Loss.WRONG
    return CountedTurn(replace(each, turn=replace(each.turn, session_id=entity)), ("all",), loss)


def test_truthfulness_is_resampled_by_entity_and_losses_are_counted() -> None:
    turns = [_of("yak", each) for each in judged("cch")]
    truthfulness, lost = build_tables(turns, "validation")
    assert truthfulness.rows == [("all", "3", "2", "0", "1", "33.3", "")]
    assert lost.rows == [(LOSSES[Loss.WRONG], "1")]
    truthfulness, _ = build_tables([*turns, *(_of("cow", each) for each in judged("h"))], "validation")
    assert truthfulness.rows[0][-2:] == ("0.0", "[-100.0, 33.3]")  # only the cow, or only the yak


@pytest.mark.parametrize(
    ("query", "truth", "split", "is_counted"),
    [
        ("q0?", "truth", "validation", True),
        ("Who built this?", "truth", "validation", False),
        ("q0?", "another", "validation", False),
        ("q0?", "truth", "public_test", False),
    ],
    ids=["the same", "another question", "another truth", "another split"],
)
def test_only_questions_that_the_set_still_asks_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str, truth: str, split: str, is_counted: bool
) -> None:
    """Keep the ids of a question that is reworded, as the set does; give the other split a session of its own."""
    for each in ("validation", "public_test"):
        rows = [row("s" if each == split else "other", 1, "v0.1.2", picture(), None)]
        rows[0]["turns"][0]["query"], rows[0]["answers"][0]["ans_full"] = query, truth
        write_dataset(tmp_path / "datasets", rows, "v0.1.2", each, "crag-mm-single-turn-public")
    (tmp_path / "datasets" / "content_ids.json").write_text(json.dumps({"s-0": {"hops": 1}, "other-0": {"hops": 1}}))
    run = tmp_path / "run"
    run.mkdir()
    turns = judged("c")
    write_outputs(run, turns, {"judge": "rule"})
    key = {"session_id": turns[0].turn.session_id, "interaction_id": turns[0].turn.interaction_id}
    write_records(run / "trace.jsonl", [TurnRecord("q0?", "q0?", "answer", **key)])
    assert main(["--runs", str(run), "--cache", str(tmp_path)]) == (0 if is_counted else 2)
    output = capsys.readouterr()
    assert ("1 turns" in output.out, "answers no question of validation" in output.err) == (is_counted, not is_counted)
