"""From a trace and its answers to a router file."""

import json
from pathlib import Path

import pytest

from agents.methods.routing import TrainedRouter, compute_features
from agents.record import DRAFT, StageRecord, TurnRecord
from agents.turn import Draft
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import JudgeItem, Verdict
from tests.evaluation.worlds import picture, row, write_dataset, write_records
from training.chat_examples import TrainingDataError
from training.search_router import DraftedTurn, label_turns, main, read_drafted_turns

SIGN = ("What does the sign say?", "simple-knowledge", 'The sign says "STOP".', "The sign says STOP.")
CAR = ("Which company made the car?", "multi-hop", "Ford made the car.", "Ford made it.")
WRONG = ("Which company made the bus?", "multi-hop", "It is probably Fiat that made the bus.", "Ford made it.")
LOST = ("Who founded the cafe?", "multi-hop", "I don't know", "Anna Berg founded the cafe.")
NAMED = ("Which animal is this?", "simple-recognition", "This is a lion.", "It is a lion.")


def write_run(folder: Path, kinds: list[tuple[str, str, str, str]], times: int, split: str = "validation") -> Path:
    """The trace of a run; its answers and its manifest stand beside it."""
    records, answers = [], []
    for number in range(times):
        for place, (query, category, draft_answer, truth) in enumerate(kinds):
            draft = Draft(("The exact name of the object is a thing.",), "thing", draft_answer)
            stages = (
                StageRecord("draft", answers={DRAFT: draft_answer}, notes={"steps": list(draft.steps)}),
                StageRecord("route", notes={"features": compute_features(query, draft, None).model_dump()}),
            )
            key = {"session_id": f"s{number}", "interaction_id": f"s{number}-{place}"}
            records.append(TurnRecord(query, query, "ignored", stages, **key))
            answers.append(
                {
                    "session_id": f"s{number}", "interaction_id": f"s{number}-{place}", "query": query, "ground_truth": truth,
                    "agent_response": "ignored", "query_category": category,
                }
            )  # fmt: skip
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(answer) + "\n" for answer in answers)
    (folder / "response.jsonl").write_text(text, encoding="utf-8")
    (folder / "run.json").write_text(json.dumps({"dataset": f"mini@v0.1.2/{split}"}), encoding="utf-8")
    return write_records(folder / "trace.jsonl", records)


def read_turns(folder: Path, kinds: list[tuple[str, str, str, str]], times: int = 1) -> list[DraftedTurn]:
    return read_drafted_turns(write_run(folder, kinds, times).parent)


def test_labels_come_from_the_judged_draft(tmp_path: Path) -> None:
    turns = read_turns(tmp_path, [SIGN, CAR, WRONG, LOST, NAMED])
    labels = label_turns(turns, RuleJudge())
    assert labels == ["direct", "verify", "rag", "rag", "direct"]


def test_a_draft_whose_judge_failed_has_no_label(tmp_path: Path) -> None:
    class Silent(RuleJudge):
        def judge(self, item: JudgeItem) -> Verdict:
            return Verdict(False, "no reply", failed=True)

    assert label_turns(read_turns(tmp_path, [CAR, LOST]), Silent()) == [None, "rag"]


def test_accept_forms_reach_the_judge(tmp_path: Path) -> None:
    turns = read_turns(
        tmp_path, [("Which company made the car?", "multi-hop", "FoMoCo made it.", "Ford made the car.")]
    )
    assert label_turns(turns, RuleJudge()) == ["rag"]
    assert label_turns(turns, RuleJudge(), lambda _: {"s0-0": ["FoMoCo"]}) == ["verify"]


@pytest.mark.parametrize(("question", "verified"), [("Which company made the van?", 16), ("Who sold the van?", 8)])
def test_a_draft_is_not_judged_by_the_accept_forms_of_a_question_that_was_edited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: str, verified: int
) -> None:
    van = ("Which company made the van?", "multi-hop", "FoMoCo made it.", "Ford made the van.")
    write_run(tmp_path / "run", [SIGN, CAR, van, LOST], times=8)
    (tmp_path / "run" / "run.json").write_text('{"dataset": "crag-mm-multi-turn-public@v0.1.2/validation"}')
    rows = [row(f"s{number}", 4, "v0.1.2", picture(), None) for number in range(8)]
    for each in rows:
        each["turns"][2]["query"], each["answers"][1]["ans_full"] = question, van[-1]
    data = write_dataset(tmp_path / "data", rows, "v0.1.2")
    (data / "accept.json").write_text(json.dumps({f"s{number}-2": ["FoMoCo"] for number in range(8)}))
    options = ["--dataset", str(data), "--cache", str(tmp_path), "--eval-model", "rule", "--out", str(tmp_path / "o")]
    assert main([str(tmp_path / "run"), *options]) == 0
    assert f"{verified} verify" in capsys.readouterr().out


def test_the_file_of_a_run_is_a_router_that_beats_the_majority(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in ("single-turn", "multi-turn"):
        write_run(tmp_path / place, [SIGN, CAR, WRONG, LOST, NAMED], times=8)
    out = tmp_path / "router.json"
    assert main([str(tmp_path), "--eval-model", "None", "--out", str(out)]) == 0
    assert "80 drafts: 32 direct, 32 rag, 16 verify" in capsys.readouterr().out
    router = TrainedRouter.load(out)
    assert router.accuracy["cross_validated"] > router.accuracy["majority"]
    routes = [router.route(turn.features) for turn in read_turns(tmp_path, [SIGN, CAR, LOST])]
    assert routes == ["direct", "verify", "rag"]


def test_an_answer_without_trace_is_passed_over(tmp_path: Path) -> None:
    trace = write_run(tmp_path, [SIGN, CAR, LOST], times=1)
    lines = trace.read_text(encoding="utf-8").splitlines(keepends=True)
    trace.write_text("".join(lines[1:]), encoding="utf-8")
    turns = read_drafted_turns(tmp_path)
    assert [turn.answered.interaction_id for turn in turns] == ["s0-1", "s0-2"]


def test_a_trace_of_another_run_gives_nothing(tmp_path: Path) -> None:
    trace = write_run(tmp_path, [SIGN, CAR], times=1)
    trace.write_text(trace.read_text(encoding="utf-8").replace('"s0"', '"another"'), encoding="utf-8")
    with pytest.raises(TrainingDataError, match="stages draft and route"):
        read_drafted_turns(tmp_path)


def _record(*stages: StageRecord) -> str:
    return json.dumps(TurnRecord(SIGN[0], stages=stages, session_id="s0", interaction_id="s0-0").as_json())


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ("{", "holds no record that can be read: it is no JSON (Expecting property name"),
        ("[]", "holds no record that can be read: it is no JSON object"),
        ('{"query": "What does the sign say?", "stages": []}', "it has version 1 of the record, this program reads 2"),
        (_record(StageRecord("draft", answers={DRAFT: "x"})), "stages draft and route"),
        (
            _record(StageRecord("draft", answers={DRAFT: "x"}), StageRecord("route", notes={"features": {"mood": 1}})),
            "trace.jsonl, interaction s0-0: mood: Extra inputs are not permitted",
        ),
    ],
)
def test_a_wrong_trace_is_told(tmp_path: Path, trace: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, [SIGN], times=1).write_text(trace + "\n", encoding="utf-8")
    assert main([str(tmp_path), "--eval-model", "None", "--out", str(tmp_path / "o.json")]) == 2
    output = capsys.readouterr().err
    assert message in output and len(output.splitlines()) == 1


def test_no_run_and_the_test_split_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--out", "x"]) == 2
    assert f"no trace.jsonl in {tmp_path}" in capsys.readouterr().err
    write_run(tmp_path, [SIGN, CAR], times=1, split="public_test")
    assert main([str(tmp_path), "--out", "x"]) == 2
    assert "never from public_test" in capsys.readouterr().err
