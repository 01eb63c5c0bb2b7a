"""Progress bars of studies: turns of all runs together, those that are there already, those that will not be asked."""

from __future__ import annotations

import re

import pytest

from evaluation.judge.judging import JUDGING, count_to_judge, judge_turns
from evaluation.judge.rule_judge import RuleJudge
from evaluation.progress import Share, StudyBar, turn_bar
from tests.evaluation.worlds import judged


def states(text: str) -> list[tuple[str, int, int]]:
    """What a bar was said to do, and of how many turns how many were done, line by line."""
    matches = [re.match(r"(.*?): .*?(\d+)/(\d+) \[", line) for line in text.splitlines()]
    return [(match[1], int(match[2]), int(match[3])) for match in matches if match]


def test_one_bar_counts_the_turns_of_all_runs(capsys: pytest.CaptureFixture[str]) -> None:
    shares = {"a": Share(10, 4), "b": Share(10, 10), "c": Share(10)}
    with StudyBar("answers", shares) as study:
        assert states(capsys.readouterr().err) == [("answers", 14, 30)]
        with study.bars_for("first", "a")("answers", 10, 4) as bar:
            bar.update(3)
        study.end("a")  # three turns were not asked, and never will be
        assert states(capsys.readouterr().err)[-1] == ("first", 17, 27)
        make = study.bars_for("second", "b", "c")
        with make("answers", 10, 10), make("judging", 5) as judging:  # what is not counted changes no figure
            judging.update(5)
        assert states(capsys.readouterr().err)[-1] == ("second, judging", 17, 27)
        with make("answers", 12, 1) as bar:  # more turns than was thought, and one that was answered before
            bar.update(11)
        study.end("b", "c")
    assert states(capsys.readouterr().err)[-1] == ("second", 29, 29)


def test_the_time_left_goes_by_what_was_done_now(capsys: pytest.CaptureFixture[str]) -> None:
    """90 turns were there before: what they took says nothing."""
    with StudyBar("answers", {"a": Share(100, 90)}) as study, study.bars_for("run", "a")("answers", 100, 90) as bar:
        bar.update(5)
        meter = study._bar.format_dict
    assert (meter["initial"], meter["n"], meter["total"], meter["rate"]) == (
        90,
        95,
        100,
        None,
    )  # None: since the beginning
    assert (study._bar.smoothing, capsys.readouterr().out) == (0, "")


def test_progress_bars_are_lines_without_a_terminal_and_can_be_off(capsys: pytest.CaptureFixture[str]) -> None:
    with turn_bar("answers", 2) as bar:
        bar.update(2)
    output = capsys.readouterr().err
    assert "\r" not in output and states(output) == [("answers", 0, 2), ("answers", 2, 2)]
    with (
        StudyBar("answers", {"a": Share(2)}, is_visible=False) as study,
        study.bars_for("run", "a")("answers", 3) as bar,
    ):
        bar.update(2)
        study.end("a")
    assert capsys.readouterr().err == ""


def test_only_what_is_asked_of_a_judge_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    turns = [each.turn for each in judged("ccc")]
    turns[0] = type(turns[0])(**{**turns[0].to_dict(), "agent_response": "I don't know"})
    turns[1] = type(turns[1])(**{**turns[1].to_dict(), "agent_response": turns[1].ground_truth})
    assert count_to_judge(turns) == 1
    judge_turns(turns, RuleJudge(), progress=True)
    assert states(capsys.readouterr().err)[-1] == (JUDGING, 1, 1)
