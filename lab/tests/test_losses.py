"""Where answers are lost, by hand, and the table over a recorded run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.record import EvidenceFound, StageRecord, TurnRecord
from evaluation.files.outputs import write_outputs
from lab.benchmarks.losses import CountedTurn, Place, find_place, list_groups, main, says_answer, score_group
from tests.evaluation.worlds import judged, picture, row, write_dataset, write_records


@pytest.mark.parametrize(
    ("text", "accept", "says"),
    [
        ("The tower is 330 metres tall.", ["330 m"], True),
        ("The tower is 330 metres tall.", ["324 m"], False),
        ("It was designed by Jan Gehl in Copenhagen.", ["Jan Gehl"], True),
        ("It was not designed by Jan Gehl.", ["Jan Gehl"], False),
        ("The 12 men met.", ["12 o'clock"], False),
        ("Gustave made it.", ["Gustave Eiffel", "Eiffel"], False),
        ("", ["yes"], False),
    ],
)
def test_a_text_says_an_answer_by_its_words_and_figures(text: str, accept: list[str], says: bool) -> None:
    assert says_answer([text], accept) is says


def _record(entity: str | None, entities: list[str], text: str) -> TurnRecord:
    choice_record = StageRecord("select_entity", 0.0, "ran", entity=entity, notes={"entities": entities})
    answer_record = StageRecord("answer", 0.0, "ran", evidence=(EvidenceFound(text),))
    return TurnRecord(query="q", question="q", answer="a", stages=(choice_record, answer_record))


def test_a_turn_stands_by_holder_steps_entity_and_evidence() -> None:
    yak, facts = frozenset({"Yak"}), {"hops": 1, "entity": "yak"}
    holder = "in the graph"
    right = _record("Yak", [], "A yak weighs 500 kg.")
    assert find_place(right, yak, facts, ["500 kg"]) == Place(holder, False, False, True)
    other_record = _record("Cow", ["Yak"], "Cows moo.")
    assert find_place(other_record, yak, facts | {"hops": 2}, ["500 kg"]) == Place(holder, True, False, False)
    # what the evidence of another thing says is no find
    wrong = _record("Cow", [], "A cow weighs 500 kg.")
    assert find_place(wrong, yak, facts, ["500 kg"]) == Place(holder, False, True, None)
    assert find_place(_record(None, [], ""), yak, facts, ["500 kg"]) == Place(holder, False, True, None)


def test_of_what_the_graph_lacks_no_entity_is_the_right_one() -> None:
    facts = {"hops": 1, "entity": "zebu"}
    page = _record(None, [], "A zebu weighs 500 kg.")
    assert find_place(page, None, facts, ["500 kg"]) == Place("not in the graph", False, False, True)
    assert find_place(_record("Cow", [], ""), None, facts, ["500 kg"]) == Place("not in the graph", False, True, None)
    assert find_place(page, None, facts, []).found is None
    assert find_place(page, None, {"hops": 0, "entity": None}, ["5"]).holder == "about no thing"


def test_a_turn_that_nothing_answers_is_in_no_other_group() -> None:
    facts = {"photo_group": "not-in-graph"}
    assert list_groups(facts, []) == ("nothing answers", "all")
    assert list_groups(facts, ["5"]) == ("not in the graph", "all")
    assert list_groups({"photo_group": "not-shown"}, ["5"]) == ("all",)


def test_truthfulness_is_resampled_by_entity() -> None:
    place = Place("in the graph", False, False, True)
    turns = [CountedTurn(place, outcome, "yak", ("all",), False) for outcome in ("right", "right", "wrong", "missing")]
    assert score_group(turns) == (0.25, None)
    others = [CountedTurn(place, "wrong", "cow", ("all",), False)]
    score, interval = score_group(turns + others)
    assert score == 0.0
    assert interval == (-1.0, 0.25)  # only the cow, or only the yak


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
    assert main(["--runs", str(run), "--one-prompt", str(run), "--cache", str(tmp_path)]) == (0 if is_counted else 2)
    output = capsys.readouterr()
    assert ("1 turns" in output.out, "answers no question of validation" in output.err) == (is_counted, not is_counted)
