"""How far judges agree: kappa by hand, labels, and the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.files.outputs import write_outputs
from evaluation.records import AnsweredTurn, EvaluationError, Key
from evaluation.studies import agreement as study
from evaluation.studies.agreement import measure_agreement, read_labels, select_judged
from tests.evaluation.worlds import judged, picture, row, run_command, write_dataset


def make_verdicts(verdicts: str) -> dict[Key, bool]:
    """Make verdicts on sessions of one turn; a dash: none."""
    return {(f"s{n}", "i"): verdict == "r" for n, verdict in enumerate(verdicts) if verdict != "-"}


def test_kappa_by_hand() -> None:
    # 20 both right, 5 right by the first alone, 10 by the second alone, 15 both wrong: the textbook's 0.4
    agreement = measure_agreement(
        "a", "b", make_verdicts("r" * 25 + "w" * 25), make_verdicts("r" * 20 + "w" * 5 + "r" * 10 + "w" * 15)
    )
    assert agreement is not None
    assert (agreement.turns, agreement.share, agreement.kappa) == (50, pytest.approx(0.7), pytest.approx(0.4))
    assert agreement.confusion == ((15, 10), (5, 20))
    assert agreement.interval is not None and -0.05 < agreement.interval[0] < 0.4 < agreement.interval[1] < 0.75


def test_only_turns_that_both_decided_count() -> None:
    agreement = measure_agreement("a", "b", make_verdicts("rrw-"), make_verdicts("r-ww"))
    assert agreement is not None and (agreement.turns, agreement.share, agreement.kappa) == (2, 1.0, pytest.approx(1.0))
    assert measure_agreement("a", "b", make_verdicts("r-"), make_verdicts("-r")) is None


def test_raters_who_never_vary_have_no_kappa() -> None:
    agreement = measure_agreement("a", "b", make_verdicts("rrr"), make_verdicts("rrr"))
    assert agreement is not None and (agreement.share, agreement.kappa, agreement.interval) == (1.0, None, None)
    one_varies = measure_agreement("a", "b", make_verdicts("rrr"), make_verdicts("rrw"))
    assert one_varies is not None and one_varies.kappa == pytest.approx(0.0)


def test_turns_of_a_dialog_are_one_observation() -> None:
    first = {("s", str(n)): n % 2 == 0 for n in range(10)}
    agreement = measure_agreement("a", "b", first, first | {("s", "0"): False})
    assert agreement is not None and agreement.interval is None


def test_misses_exact_answers_and_failures_are_not_decided() -> None:
    turns = judged("chm", "s")
    exact, failed = replace(turns[0], semantic=None, exact=True), replace(turns[1], judge_failed=True)
    assert select_judged([exact, failed, turns[2]]) == {}
    assert select_judged(turns) == {("s", "s-0"): True, ("s", "s-1"): False}


def make_turns(*keys: Key) -> list[AnsweredTurn]:
    base = judged("h")[0].turn
    return [replace(base, session_id=session, interaction_id=turn, agent_response="330 m") for session, turn in keys]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", "interaction_id,label\na,perfect\nb,Incorrect\nc,missing\nelsewhere,wrong\n"),
        ("labels.csv", "session_id,interaction_id,label\ns,a,0.5\ns,b,-1\nother,b,1\n"),
        ("labels.jsonl", '{"interaction_id": "a", "label": true}\n{"interaction_id": "b", "label": 0}\n'),
    ],
)
def test_labels_by_hand_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    turns = make_turns(("s", "a"), ("s", "b"), ("s", "c"))
    assert read_labels(tmp_path / name, turns) == {("s", "a"): True, ("s", "b"): False}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", "session_id,interaction_id,label\n1,a,correct\n2,a,wrong\n,b,correct\n,c,wrong\n"),
        ("labels.jsonl", '{"session_id": "1", "interaction_id": "a", "label": 1}\n{"session_id": "2", "interaction_id": "a", "label": 0}\n'
         '{"interaction_id": "b", "label": 1}\n{"session_id": null, "interaction_id": "c", "label": 0}\n'),
        ("labels.jsonl", '{"session_id": 1, "interaction_id": "a", "label": 1}\n{"session_id": 2, "interaction_id": "a", "label": 0}\n'
         '{"interaction_id": "b", "label": true}\n{"session_id": "", "interaction_id": "c", "label": false}\n'),
        ("labels.csv", "session_id,interaction_id,label\n1,a,correct\n1,a,perfect\n2,a,wrong\n2,a,\n3,b,yes\n3,c,no\n1,c,no\n9,z,no\n"),
    ],
)  # fmt: skip
def test_a_session_is_needed_only_where_interactions_repeat(
    tmp_path: Path, name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).write_text(text)
    turns = make_turns(("1", "a"), ("2", "a"), ("3", "b"), ("3", "c"))
    assert read_labels(tmp_path / name, turns) == {
        ("1", "a"): True, ("2", "a"): False, ("3", "b"): True, ("3", "c"): False
    }  # fmt: skip
    assert ("2 of 8 labels belong to none of these answers" in caplog.text) == ("9,z" in text)
    assert ("belong to none" in caplog.text) == ("9,z" in text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("session_id,interaction_id,label\ns,a,1\ns,a,0\n", "label 2: a has another label already; keep one"),
        ("session_id,interaction_id,label\ns,a,1\nt,a,no\ns,a,missing\n", "label 3: a has another label already"),
        ("session_id,interaction_id,label\ns,a,1\n,a,1\n", "label 2: a is a turn of several sessions; add session_id"),
        ("interaction_id,label\na,good\n", "'good' is neither"),
        ("interaction,label\na,1\n", "needs the columns"),
        ("interaction_id,label\na,1\n", "several sessions; add session_id"),
        ("interaction_id,label\nz,1\n", "contains no label of these answers"),
        ("", "cannot be read"),
    ],
)
def test_bad_labels_are_told(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(EvaluationError, match=message):
        read_labels(tmp_path / "labels.csv", make_turns(("s", "a"), ("t", "a")))


@pytest.mark.parametrize("bad", ['{"interaction_id": "a", "label": null}', '{"interaction_id": "a"}'])
def test_a_line_without_a_label_is_told(tmp_path: Path, bad: str) -> None:
    (tmp_path / "labels.jsonl").write_text(bad + '\n{"interaction_id": "b", "label": "right"}\n')
    with pytest.raises(EvaluationError, match="label 1: 'nan' is neither"):
        read_labels(tmp_path / "labels.jsonl", make_turns(("s", "a"), ("s", "b")))


@pytest.mark.parametrize("ending", ["", "\n"])
def test_a_broken_line_of_labels_is_named(tmp_path: Path, ending: str) -> None:
    """The last one is, too: nobody appends to it."""
    (tmp_path / "labels.jsonl").write_text(
        '{"interaction_id": "a", "label": 1}\n\n{"interaction_id": "b", "lab' + ending
    )
    with pytest.raises(EvaluationError, match=r"labels\.jsonl, line 3: not JSON"):
        read_labels(tmp_path / "labels.jsonl", make_turns(("s", "a"), ("s", "b")))


def run(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    return run_command(study.main, *arguments, "--no-progress", "--cache", tmp_path / "c")


def test_the_rule_a_runs_table_and_a_person_are_compared(tmp_path: Path) -> None:
    turns = [turn for n in range(3) for turn in judged("h", f"s{n}")]  # the run's judge took all answers for wrong
    answers = ["It is the truth", "a lie", "a lie"]
    turns = [
        replace(turn, turn=replace(turn.turn, agent_response=answer))
        for turn, answer in zip(turns, answers, strict=True)
    ]
    write_outputs(tmp_path / "run", turns, {"judge": "a strict one"})
    (tmp_path / "run" / "response.jsonl").write_text("".join(json.dumps(turn.turn.to_dict()) + "\n" for turn in turns))
    labels = tmp_path / "labels.csv"
    labels.write_text("interaction_id,label\ns0-0,perfect\ns1-0,incorrect\ns2-0,missing\n")
    arguments = [str(tmp_path / "run"), "--judges", "rule,own", "--labels", str(labels), "--out", str(tmp_path / "out")]
    status, printed = run(tmp_path, *arguments)
    assert status == 0
    pairs = json.loads((tmp_path / "out" / "agreement.json").read_text())["pairs"]
    assert [(pair["one"], pair["other"], pair["turns"], pair["share"]) for pair in pairs] == [
        ("rule", "own: a strict one", 3, pytest.approx(2 / 3)),
        ("rule", "by hand", 2, 1.0),
        ("own: a strict one", "by hand", 2, 0.5),
    ]
    assert (
        "It is the truth" in printed
        and "Answers on which they differ" in (tmp_path / "out" / "agreement.html").read_text()
    )


def test_raters_who_decided_on_no_turn_together_are_told(tmp_path: Path) -> None:
    turns = make_turns(("s", "exact"), ("s", "a"))
    turns[0] = replace(turns[0], agent_response=turns[0].ground_truth)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(turn.to_dict()) + "\n" for turn in turns))
    labels, out = tmp_path / "labels.csv", tmp_path / "out"
    labels.write_text("interaction_id,label\nexact,perfect\n")
    status, printed = run(tmp_path, str(tmp_path / "a.jsonl"), "--labels", str(labels), "--out", str(out))
    assert status == 2 and "no answer was decided by two raters" in printed
    assert not (out / "agreement.json").exists()


def test_answers_to_no_question_of_the_data_set_are_not_rated(tmp_path: Path) -> None:
    saved = tmp_path / "a.jsonl"
    saved.write_text(json.dumps(make_turns(("s", "a"))[0].to_dict()) + "\n")
    write_dataset(tmp_path / "data", [row("t", 2, "v0.1.2", picture(), "")], "v0.1.2")
    status, printed = run(tmp_path, str(saved), "--judges", "rule,own", "--dataset", str(tmp_path / "data"))
    assert status == 2 and "a answers no question of crag-mm-multi-turn-public@v0.1.2/validation" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--judges", "rule"], "two raters are needed"),
        (["--judges", "rule,none"], "rule, none name one judge"),
        (["--judges", "rule,own"], "has no table of judged turns"),
        (["--judges", "rule,m@organiser"], "name the checkout with --organiser"),
    ],
)
def test_slips_are_told(tmp_path: Path, arguments: list[str], message: str) -> None:
    saved = tmp_path / "a.jsonl"
    saved.write_text(json.dumps(make_turns(("s", "a"))[0].to_dict()) + "\n")
    status, printed = run(tmp_path, str(saved), *arguments)
    assert status == 2 and message in printed
