from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.rules import OURS, STARTER_KIT
from evaluation.scores.scoring import (
    bootstrap_intervals,
    conversation_score,
    is_miss,
    mean_conversation_score,
    score,
    score_groups,
    scores_dictionary,
    select_ego,
    stop_early,
)
from tests.evaluation.worlds import judged

VERDICTS = st.text("cmh", min_size=1, max_size=6)
DIALOGS = st.lists(VERDICTS, min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("answer", "kit", "release"),
    [
        ("I don't know", True, True),
        ("Sorry, I DON'T KNOW that.", True, True),
        ("I don’t know", False, True),
        ("I do not know", False, True),
        ("i dont know", False, True),
        ("I don't, know", False, True),
        ("I know", False, False),
        ("I don't\nknow", False, False),
        ("I don't \nknow", False, False),  # the line end stays between the words
        ("I don't\tknow", False, False),
        ("", False, False),
        ("I am not sure", False, False),
    ],
)
def test_both_ways_of_spotting_a_miss(answer: str, kit: bool, release: bool) -> None:
    assert is_miss(answer, "starter-kit") is kit
    assert is_miss(answer, "research-release") is release
    assert is_miss(answer) is (kit or release)


def test_scores_by_hand() -> None:
    scores = score([*judged("ccm", "a"), *judged("hc", "b")])
    assert (scores.total, scores.correct, scores.miss, scores.hallucination) == (5, 3, 1, 1)
    assert scores.accuracy == pytest.approx(0.6)
    assert scores.missing == pytest.approx(0.2)
    assert scores.hallucination_rate == pytest.approx(0.2)
    assert scores.truthfulness_score == pytest.approx((2 * 3 + 1) / 5 - 1)  # 0.4
    # a: 2/3 - 0; b: 1/2 - 1/2
    assert scores.mean_multi_turn_conversation_score == pytest.approx((2 / 3 + 0) / 2)


@pytest.mark.parametrize(("verdict", "points"), [("c", 1.0), ("m", 0.0), ("h", -1.0)])
def test_one_turn_has_its_points_but_in_a_whole_run_of_a_release(verdict: str, points: float) -> None:
    turns = judged(verdict)
    assert (score(turns).truthfulness_score, score(turns, STARTER_KIT).truthfulness_score) == (points, 0.0)
    for rules in (OURS, STARTER_KIT):
        [group] = score_groups(turns, lambda turn: "a", rules).values()
        assert group.truthfulness_score == points, "the rates beside it are of the same turn"


@pytest.mark.parametrize(
    ("dialog", "stopped", "points"),
    [
        ("cccc", "cccc", 1.0),
        ("hhcc", "hhmm", -0.5),
        ("mmcc", "mmmm", 0.0),
        ("mhcc", "mhmm", -0.25),
        ("hchc", "hchc", 0.0),
        ("chhccc", "chhmmm", 1 / 6 - 2 / 6),
        ("cchh", "cchh", 0.0),
        ("hhhh", "hhmm", -0.5),
        ("hh", "hh", -1.0),
    ],
)
def test_the_early_stop_by_hand(dialog: str, stopped: str, points: float) -> None:
    turns = judged(dialog)
    assert "".join(turn.verdict[0] for turn in stop_early(turns)) == stopped
    assert conversation_score(turns) == pytest.approx(points)


def test_totals_are_taken_before_the_early_stop() -> None:
    scores = score(judged("hhcc"))
    assert (scores.correct, scores.hallucination, scores.miss) == (2, 2, 0)


def test_dialogs_are_put_in_order_first() -> None:
    turns = judged("chhc")
    assert mean_conversation_score(turns[::-1]) == mean_conversation_score(turns)


def test_ego_scores_are_those_of_egocentric_turns() -> None:
    turns = [*judged("cc", "a", ego=True), *judged("hh", "b", ego=False)]
    assert score(select_ego(turns)).accuracy == 1.0
    dictionary = scores_dictionary(turns)
    assert dictionary["ego"]["total"] == 2
    assert dictionary["all"]["total"] == 4


def test_groups_are_scored_apart() -> None:
    turns = [*judged("cc", "a", domain="food"), *judged("hm", "b", domain="")]
    groups = score_groups(turns, lambda turn: turn.domain)
    assert groups["food"].accuracy == 1.0
    assert groups["(none)"].hallucination == 1


@given(DIALOGS)
def test_intervals_hold_the_score(dialogs: list[str]) -> None:
    turns = [turn for number, dialog in enumerate(dialogs) for turn in judged(dialog, f"s{number}")]
    intervals = bootstrap_intervals(turns)
    assert bool(intervals) is (len(dialogs) > 1)
    assert intervals == bootstrap_intervals(turns)
    for low, high in intervals.values():
        assert -1 <= low <= high <= 1


def test_equal_sessions_have_wilsons_interval() -> None:
    """Eight wrong answers leave an accuracy of up to 3.84 / (8 + 3.84) open, and two sessions that are all right nearly everything."""
    wrong = bootstrap_intervals([turn for number in range(8) for turn in judged("h", f"s{number}")])
    assert wrong["accuracy"] == pytest.approx((0, 0.324), abs=0.001)
    assert wrong["hallucination_rate"] == pytest.approx((0.676, 1), abs=0.001)
    assert wrong["truthfulness_score"] == pytest.approx((-1, -0.351), abs=0.001)
    missing = bootstrap_intervals([turn for number in range(8) for turn in judged("m", f"s{number}")])
    assert missing["truthfulness_score"] == pytest.approx((-0.324, 0.324), abs=0.001)
    right = bootstrap_intervals([*judged("ccc", "a"), *judged("ccc", "b")])
    assert right["accuracy"] == pytest.approx((0.342, 1), abs=0.001), "sessions count, not their turns"


def test_intervals_narrow_with_more_sessions() -> None:
    few = [turn for number in range(6) for turn in judged("ch"[number % 2], f"s{number}")]
    many = [turn for number in range(600) for turn in judged("ch"[number % 2], f"s{number}")]
    wide, narrow = (bootstrap_intervals(turns)["accuracy"] for turns in (few, many))
    assert narrow[1] - narrow[0] < 0.1 < wide[1] - wide[0]
    assert narrow[0] < 0.5 < narrow[1]
