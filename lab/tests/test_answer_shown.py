"""The measurement of *answer shown* runs a preset over a real collection with given looks, and asks no chat model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.search.build_index import main as build_index
from evaluation.records import EvaluationError
from lab.benchmarks import answer_shown
from lab.strong_model.looks import LOOKS, make_look, read_looks

QUESTIONS = "photo,question,answers\n,What does a family ticket cost?,29 euros\n,Who feeds the owls?,Martha Lind\n,Is it open?,yes\n"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    house = tmp_path / "house"
    (house / "pages").mkdir(parents=True)
    (house / "pages" / "tickets.md").write_text("# Tickets\nA family ticket costs 29 euros.")
    (house / "pages" / "keeper.md").write_text("# The keeper\nMartha Lind feeds the owls before dawn.")
    (house / "questions.csv").write_text(QUESTIONS)
    assert build_index([str(house), "--cache", str(tmp_path / "cache"), "--no-progress"]) == 0
    return house


def test_looks_are_given_and_changes_are_listed(
    house: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks, first = tmp_path / "looks.jsonl", tmp_path / "1.json"
    looks.write_text(json.dumps({"question": "Who feeds the owls?", "look": make_look("owls")}) + "\n")
    command = [str(house), "--cache", str(tmp_path / "cache"), "--looks", str(looks)]
    assert answer_shown.main([*command, "--set", "grounded_answer.k=0", "--show", "--json", str(first)]) == 0
    text = capsys.readouterr().out
    turns = json.loads(first.read_text())["turns"].values()
    assert {(each["question"], each["lost"]) for each in turns} == {  # a yes is in no text
        ("What does a family ticket cost?", "not shown"),
        ("Who feeds the owls?", "not shown"),
    }
    assert "1 of 2 turns have no look" in text and "pages/keeper.md" in text
    assert answer_shown.main([*command, "--against", str(first)]) == 0
    text = capsys.readouterr().out
    assert text.count("gained") == 2 and "limits.evidence_tokens = 3000" in text


def test_every_recorded_look_has_a_turn_and_can_be_read(tmp_path: Path) -> None:
    looks = read_looks(LOOKS)
    assert len(looks) == 234 and all({"things", "needs", "queries", "answer"} <= look.keys() for look in looks.values())
    broken = tmp_path / "looks.jsonl"
    broken.write_text('{"question": "Who?"}\n')
    with pytest.raises(EvaluationError, match="line 1"):
        read_looks(broken)
