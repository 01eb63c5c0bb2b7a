"""Progress bars: turns that are there already, those that will not be asked, lines in place of a bar."""

from __future__ import annotations

import re

import pytest

from evaluation.judge.judging import JUDGING, judge_turns
from evaluation.judge.rule_judge import RuleJudge
from evaluation.progress import label_bars, turn_bar
from tests.evaluation.worlds import judged


def states(text: str) -> list[tuple[str, int, int]]:
    """What a bar was said to do, and of how many turns how many were done, line by line."""
    matches = [re.match(r"(.*?): .*?(\d+)/(\d+) \[", line) for line in text.splitlines()]
    return [(match[1], int(match[2]), int(match[3])) for match in matches if match]


def test_progress_bars_are_lines_without_a_terminal_and_can_be_off(capsys: pytest.CaptureFixture[str]) -> None:
    with turn_bar("answers", 2) as bar:
        bar.update(2)
    output = capsys.readouterr().err
    assert "\r" not in output and states(output) == [("answers", 0, 2), ("answers", 2, 2)]
    with label_bars("[1/2] best")("answers", 5, 3) as bar:
        bar.update(2)
    assert states(capsys.readouterr().err) == [("[1/2] best, answers", 3, 5), ("[1/2] best, answers", 5, 5)]
    with turn_bar("answers", 2, is_visible=False) as bar:
        bar.update(2)
    assert capsys.readouterr().err == ""


def test_only_what_is_asked_of_a_judge_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    turns = [each.turn for each in judged("ccc")]
    turns[0] = type(turns[0])(**{**turns[0].to_dict(), "agent_response": "I don't know"})
    turns[1] = type(turns[1])(**{**turns[1].to_dict(), "agent_response": turns[1].ground_truth})
    judge_turns(turns, RuleJudge(), progress=True)
    assert states(capsys.readouterr().err)[-1] == (JUDGING, 1, 1)
