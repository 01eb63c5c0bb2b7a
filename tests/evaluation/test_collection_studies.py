"""``crag test`` and ``crag calibrate`` of a collection: why turns are lost, what changed since, and a gate of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.methods.gate import Gate
from agents.record import (
    UNSURE_NAME,
    EvidenceFound,
    Exchange,
    PictureFound,
    Signal,
    StageRecord,
    TurnRecord,
    Unanswered,
)
from agents.record import Decision as Told
from agents.search.collection import Collection
from agents.settings.run_config import RunConfig
from agents.time_limits.signals import INTERRUPTED
from evaluation.data.own_dataset import load_own_questions
from evaluation.files.outputs import write_outputs
from evaluation.judge.judging import judge_turns
from evaluation.judge.rule_judge import RuleJudge
from evaluation.records import make_answered_turn
from evaluation.run.options import RunOptions
from evaluation.studies import calibrate, collection_check
from evaluation.studies.collection_runs import read_judged_questions
from evaluation.studies.decisions import read_decisions
from evaluation.studies.lost_turns import count_outcomes, find_lost_turns
from tests.evaluation.worlds import picture, write_records

IDK = "I don't know"
MODELS = ("qwen2.5-coder-1.5b-instruct-q4_k_m", "efficientnet-lite2")


def make_collection(folder: Path, rows: Sequence[str]) -> Path:
    """A collection with a page, a visitor's photo and these rows of questions."""
    (folder / "pages").mkdir(parents=True)
    (folder / "pages" / "tickets.md").write_text("A ticket costs 6 euros.")
    picture().save(folder / "mill.png")
    (folder / "questions.csv").write_text("\n".join(["photo,question,answers", *rows]) + "\n")
    return folder


def write_run(folder: Path, collection: Path, answers: Sequence[tuple[str, dict[str, Any]]]) -> int:
    """A judged run over the questions of a collection: an answer a question, with fields of its record and of its turn."""
    data = load_own_questions(collection / "questions.csv")
    turns, records = [], []
    for session, (answer, fields) in zip(data.sessions, answers, strict=True):
        fields = dict(fields)
        cause = fields.pop("cause", None)
        turn = make_answered_turn(session, session.turns[0], answer)
        turns.append(turn if cause is None else type(turn)(**{**turn.to_dict(), "error_cause": cause}))
        decision = fields.pop("decision", None) or Told(
            fields.pop("candidate", None if answer == IDK else answer), answer != IDK, fields.pop("reason", None)
        )
        stage = StageRecord("finalise", decision=decision, **fields)
        unanswered = Unanswered(cause) if cause else None
        records.append(
            TurnRecord(turn.query, turn.query, answer, (stage,), session_id=turn.session_id, interaction_id=turn.interaction_id,
                       unanswered=unanswered)
        )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    judged = judge_turns(turns, RuleJudge(), accept=data.accept, facts=data.facts)
    write_outputs(folder, judged, {"judge": "rule"})
    write_records(folder / "trace.jsonl", records)
    (folder / "run.json").write_text(json.dumps({"preset": "best", "profile": "embedded", "dataset": data.name}))
    return 0


ROWS = (
    "mill.png,Who built this?,J. Smith",
    "mill.png,When was this built?,1874",
    ",How much is a ticket?,6 euros|6",
    ",When is it open?,9 to 5",
    ",Is there a café?,yes",
    ",Who is the cook?,",
    ",What is the phone number?,",
    "mill.png,How high is this?,12 m",
)
TICKET = EvidenceFound("A ticket costs 6 euros.")
ANSWERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("J. Smith", {}),
    (IDK, {"nearest": PictureFound("Town Hall", 0.71), "candidate": "1902"}),
    (IDK, {"evidence": (TICKET,), "candidate": "6 euros", "reason": "it is not sure enough"}),
    (IDK, {"evidence": (TICKET,)}),
    (IDK, {"evidence": (TICKET,), "candidate": "yes"}),
    (IDK, {}),
    ("555-1234", {}),
    (IDK, {"cause": "busy"}),
)


@pytest.fixture
def museum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_collection(tmp_path / "museum", ROWS)


@pytest.mark.parametrize(
    ("photo", "expected"),
    [
        ("mill.png", "mill.png"),
        ("./mill.png", "mill.png"),
        ("{museum}/mill.png", "mill.png"),
        ("../other/mill.png", "../other/mill.png"),
        ("{museum}/../other/mill.png", "../other/mill.png"),
        ("", ""),
    ],
)
def test_a_photo_is_told_as_seen_from_the_collection(museum: Path, photo: str, expected: str) -> None:
    """Its path in the file of questions may be absolute, too."""
    (museum.parent / "other").mkdir()
    picture().save(museum.parent / "other" / "mill.png")
    (museum / "questions.csv").write_text(
        f"photo,question,answer\n{photo.format(museum=museum)},Who built this?,J. Smith\n"
    )
    write_run(museum.parent / "run", museum, [("J. Smith", {})])
    for place in (museum, Path("museum")):
        [question] = read_judged_questions(museum.parent / "run", load_own_questions(place / "questions.csv"), place)
        assert question.photo == expected


@pytest.mark.parametrize(
    "edited", ["Who built this mill?,J. Smith", "Who built this?,J. Smith|Smith", "Who built this?,"]
)
def test_a_question_that_was_edited_during_the_run_is_not_explained_by_its_answers(museum: Path, edited: str) -> None:
    """Its turn has another question, or another truth."""
    write_run(museum.parent / "run", museum, ANSWERS)
    lines = (museum / "questions.csv").read_text().replace("Who built this?,J. Smith", edited)
    (museum / "questions.csv").write_text(lines)
    questions = load_own_questions(museum / "questions.csv")
    judged_questions = read_judged_questions(museum.parent / "run", questions, museum)
    assert [each.judged.turn.query for each in judged_questions] == [row.split(",")[1] for row in ROWS[1:]]
    assert [each.answers for each in judged_questions[:2]] == [("1874",), ("6 euros", "6")]


def test_a_candidate_is_not_judged_by_answers_that_were_edited(museum: Path) -> None:
    held_back = {"candidate": "half a dozen", "signals": {"p_yes": Signal(0.5)}}
    write_run(museum.parent / "run", museum, [*ANSWERS[:2], (IDK, held_back), *ANSWERS[3:]])
    lines = (museum / "questions.csv").read_text().replace("6 euros|6", "6 euros|6|half a dozen")
    (museum / "questions.csv").write_text(lines)
    questions = load_own_questions(museum / "questions.csv")
    decisions = read_decisions(museum.parent / "run", RuleJudge(), questions.select_accept)
    assert decisions[2].points == -1


def play(
    monkeypatch: pytest.MonkeyPatch, module: Any, museum: Path, answers: Sequence[tuple[str, dict[str, Any]]]
) -> list[RunOptions]:
    """Have a command read these answers in place of those of an agent; returns the options of its runs."""
    runs: list[RunOptions] = []

    def run(options: RunOptions, _: object) -> int:
        runs.append(options)
        return write_run(options.output_dir, museum, answers)

    monkeypatch.setattr(module, "evaluate", run)
    return runs


def test_a_stopped_run_is_not_explained(museum: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (collection_check, calibrate):
        monkeypatch.setattr(module, "evaluate", lambda *_: INTERRUPTED)
        assert module.main([str(museum)]) == 130
    assert not list(museum.parent.rglob("lost.json"))


def test_each_lost_turn_says_why_and_what_would_mend_it(
    museum: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = play(monkeypatch, collection_check, museum, ANSWERS)
    assert collection_check.main([str(museum)]) == 0
    (run,) = runs
    assert (run.knowledge, run.output_dir, run.eval_model) == (museum, Path("results/museum/1"), "rule")
    content = json.loads(Path("results/museum/1/lost.json").read_text())
    lost = {each["question"]: each for each in content["lost"]}
    assert {question: each["why"] for question, each in lost.items()} == {
        "When was this built?": "not recognised",
        "When is it open?": "not found",
        "How much is a ticket?": "withheld",
        "Is there a café?": "withheld",
        "What is the phone number?": "wrong",
        "How high is this?": "error",
    }
    assert lost["When was this built?"]["mend"] == "a photo like mill.png among those of its exhibit"
    assert lost["When was this built?"]["detail"] == "nearest: Town Hall (cosine 0.71)"
    assert "6 euros (it is not sure enough)" in lost["How much is a ticket?"]["detail"]
    assert lost["How much is a ticket?"]["mend"] == f"crag calibrate {museum}"
    assert "a page, or a column of the table" in lost["When is it open?"]["mend"]
    assert "must not be answered" in lost["What is the phone number?"]["detail"]
    output = capsys.readouterr().out
    assert "1 of 6 questions answered right, 1 answered wrong, 1 of 2 declined that must not be answered" in output
    assert "not recognised: 1, not found: 1, withheld: 2, wrong: 1, error: 1" in output
    assert "<h" in Path("results/museum/1/lost.html").read_text()


def test_a_right_candidate_of_an_unrecognised_photo_was_withheld(museum: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nearest = {
        "nearest": PictureFound("Town Hall", 0.71),
        "candidate": "in 1874",
        "evidence": (EvidenceFound("built: 1874"),),
    }
    play(monkeypatch, collection_check, museum, [ANSWERS[0], (IDK, nearest), *ANSWERS[2:]])
    assert collection_check.main([str(museum)]) == 0
    lost = json.loads(Path("results/museum/1/lost.json").read_text())["lost"]
    assert {each["question"]: each["why"] for each in lost}["When was this built?"] == "withheld"


@pytest.mark.parametrize(
    ("rule", "mend"),
    [
        (UNSURE_NAME, "a photo like mill.png among those of its exhibit"),
        ("a source gives a different answer", "the rule that forbids it: finalise in the preset"),
    ],
)
def test_a_right_name_that_a_rule_withheld_takes_a_photo(museum: Path, rule: str, mend: str) -> None:
    decision = Told("J. Smith", False, rule, rule)
    write_run(museum.parent / "run", museum, [(IDK, {"decision": decision}), *ANSWERS[1:]])
    questions = read_judged_questions(museum.parent / "run", load_own_questions(museum / "questions.csv"), museum)
    (lost,) = (each for each in find_lost_turns(questions, "museum") if each.question.answers == ("J. Smith",))
    assert lost.reason == "withheld" and lost.mend == mend


def test_a_name_that_picture_search_was_not_sure_enough_to_say_is_lost_with_the_photo(museum: Path) -> None:
    """The page that has the name is no fault: it does not say what the photo shows."""
    page, column = (
        EvidenceFound("J. Smith built the mill.", "web", url="a.md"),
        EvidenceFound("Height: 9 m.", "kg", "J. Smith"),
    )
    fields = {
        "entity": "J. Smith",
        "pictures": (PictureFound("J. Smith", 0.81),),
        "exchanges": (Exchange("answer", "text", "m"),),
    }
    told = []
    for evidence in ((column, page), (replace(column, text="This is J. Smith."), page)):
        write_run(museum.parent / "run", museum, [(IDK, {**fields, "evidence": evidence}), *ANSWERS[1:]])
        questions = read_judged_questions(museum.parent / "run", load_own_questions(museum / "questions.csv"), museum)
        told += [each for each in find_lost_turns(questions, "museum") if each.question.answers == ("J. Smith",)]
    unsure, unused = told
    assert unsure.detail.startswith("the photo was taken for J. Smith (cosine 0.81), not surely enough to say so")
    assert unsure.mend == "a photo like mill.png among those of its exhibit"
    assert unused.detail.startswith("J. Smith says it: place 1 of the 2 shown") and "clearer words" in unused.mend


def test_a_follow_up_that_was_misread_is_told_as_it_was_read(museum: Path) -> None:
    write_run(museum.parent / "run", museum, [*ANSWERS[:3], (IDK, {"evidence": (TICKET,)}), *ANSWERS[4:]])
    questions = read_judged_questions(museum.parent / "run", load_own_questions(museum / "questions.csv"), museum)
    misread = [
        each if each.record is None else replace(each, record=replace(each.record, question="When is Ann open?"))
        for each in questions
    ]
    (lost,) = (
        each
        for each in find_lost_turns(misread, "museum", [("a.md", "It is open 9 to 5.")])
        if each.question.answers == ("9 to 5",)
    )
    assert (
        lost.reason == "not found"
        and lost.detail == "a.md says it, and is not in the evidence; the question was read as: When is Ann open?"
    )
    assert lost.mend == "a question that names what it asks about"


def test_an_answer_that_the_judge_failed_on_is_lost_but_not_wrong(museum: Path) -> None:
    """What must not be answered is wrong whatever the judge says."""
    write_run(museum.parent / "run", museum, [*ANSWERS[:2], ("7 euros", {}), *ANSWERS[3:]])
    questions = read_judged_questions(museum.parent / "run", load_own_questions(museum / "questions.csv"), museum)
    failed = [replace(each, judged=replace(each.judged, judge_failed=not each.judged.miss)) for each in questions[2:]]
    lost = {each.question.judged.turn.query: each.reason for each in find_lost_turns(failed, "museum")}
    assert (lost["How much is a ticket?"], lost["What is the phone number?"]) == ("unjudged", "wrong")
    assert count_outcomes(failed).startswith("0 of 4 questions answered right, 1 answered wrong, 1 not judged")


def test_an_earlier_run_is_compared_and_a_truthfulness_can_be_asked_for(
    museum: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, collection_check, museum, ANSWERS)
    assert collection_check.main([str(museum), "--min-truthfulness=-10%"]) == 0
    better = [*ANSWERS[:2], ("6 euros", {}), *ANSWERS[3:]]
    play(monkeypatch, collection_check, museum, better)
    capsys.readouterr()
    assert collection_check.main([str(museum), "--against", "results/museum/1", "--min-truthfulness", "0.5"]) == 1
    output = capsys.readouterr().out
    assert "missing → right" in output and "How much is a ticket?" in output
    assert "truthfulness is 12.5%, and --min-truthfulness asks for 50.0%" in output
    flips = json.loads(Path("results/museum/2/flips.json").read_text())["flips"]
    assert [each["query"] for each in flips] == ["How much is a ticket?"]


def test_what_cannot_be_compared_is_told_before_anything_is_asked(
    museum: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = play(monkeypatch, collection_check, museum, ANSWERS)
    assert collection_check.main([str(museum), "--against", "nowhere"]) == 2
    assert collection_check.main([str(museum), "--resume"]) == 2
    assert not runs
    with pytest.raises(SystemExit):
        collection_check.main([str(museum), "--min-truthfulness", "60"])
    assert "write a truthfulness from -1 to 1" in capsys.readouterr().err


def test_programs_read_the_result(
    museum: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, collection_check, museum, ANSWERS)
    assert collection_check.main([str(museum), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["scores"]["all"]["total"] == 8 and len(result["lost"]) == 6


def many(count: int, wrong: int) -> tuple[list[str], list[tuple[str, dict[str, Any]]]]:
    """Questions and answers, of which the last are wrong; the verdict tells them apart, and nothing else does."""
    rows, answers = [], []
    for number in range(count):
        rows.append(f",What is number {number}?,{number} apples")
        right = number < count - wrong
        signals = {"p_yes": Signal((0.8 if right else 0.3) + number / 1000), "evidence_score": Signal(number % 3)}
        answers.append((f"{number if right else number + 100} apples", {"signals": signals}))
    return rows, answers


def test_a_gate_is_fitted_kept_beside_the_collection_and_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows, answers = many(30, 10)
    farm = make_collection(tmp_path / "farm", rows)
    play(monkeypatch, calibrate, farm, answers)
    command = [str(farm), "--repeats", "1"]
    assert calibrate.main([*command, "--dry-run"]) == 0
    assert not (farm / "gates").exists()
    assert calibrate.main(command) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "more than chance" in output and "20.0 of 20" in output
    (path,) = (farm / "gates").iterdir()
    gate = Gate.load(path)
    assert (gate.fitted_on["preset"], tuple(gate.fitted_on["models"])) == ("best", MODELS)
    mean, low, high = gate.fitted_on["cross_validated"]
    assert -1 <= low <= mean <= high <= 1
    config = RunConfig.read(knowledge=farm)
    assert config.settings.finalise.gate == str(path) and config.collection_note == ""  # type: ignore[attr-defined]
    other = RunConfig.read(profile="laptop", knowledge=farm)
    assert other.settings.finalise.gate != str(path)  # type: ignore[attr-defined]
    assert "no gate of the collection is used" in other.collection_note and "crag calibrate" in other.collection_note
    without_gate = RunConfig.read(knowledge=farm, overrides=["finalise.gate=null"])
    assert without_gate.settings.finalise.gate is None  # type: ignore[attr-defined]


def test_the_run_of_a_gate_gives_every_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows, answers = many(30, 10)
    farm = make_collection(tmp_path / "farm", rows)
    runs = play(monkeypatch, calibrate, farm, answers)
    assert calibrate.main([str(farm), "--repeats", "1", "--dry-run", "--set", "answer.k=3"]) == 0
    assert runs[0].set == ("answer.k=3", *calibrate.OPEN) and runs[0].output_dir == Path("results/farm/open")


@pytest.mark.parametrize(
    ("count", "wrong", "words"),
    [
        (12, 2, "too few questions for a gate: 10 candidates are right (in 10 dialogs) and 2 wrong (in 2)"),
        (12, 0, "nothing is to be withheld: 12 candidates are right"),
    ],
)
def test_too_few_questions_are_refused_in_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    count: int,
    wrong: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    rows, answers = many(count, wrong)
    play(monkeypatch, calibrate, farm := make_collection(tmp_path / "farm", rows), answers)
    assert calibrate.main([str(farm)]) == 2
    output = " ".join(capsys.readouterr().out.split())
    assert words in output and (wrong == 0 or "about 30 dialogs, and here are 12" in output)
    assert not (farm / "gates").exists()


def test_a_malformed_gate_is_told(tmp_path: Path) -> None:
    farm = make_collection(tmp_path / "farm", [",Who?,x"])
    path = Collection(farm).gate_file("best", MODELS)
    path.parent.mkdir()
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"best-|best_"):
        RunConfig.read(knowledge=farm)
