"""Samples that are balanced by kind of question: how they are drawn, and how a run asks and states them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.data.sampling import draw_balanced
from evaluation.files.responses import read_responses
from evaluation.records import QuestionTurn, Session
from tests.evaluation.runs_of_scripts import run_it, scripted_world


def make_sessions(kinds: Sequence[str]) -> list[Session]:
    """A session of each kind, by its place."""
    return [
        Session(f"s{place}", (QuestionTurn("i", 0, "?", "", query_category=kind),), place)
        for place, kind in enumerate(kinds)
    ]


@given(st.lists(st.sampled_from("abcd"), max_size=30), st.integers(1, 30), st.integers(0, 5))
def test_no_kind_has_two_more_than_another_that_has_sessions_left(kinds: list[str], size: int, seed: int) -> None:
    sample = draw_balanced(make_sessions(kinds), size, seed).sessions
    assert len(sample) == min(size, len(kinds)) == len({session.session_id for session in sample})
    sample_counts, there = Counter(session.turns[0].query_category for session in sample), Counter(kinds)
    open_kinds = [kind for kind in there if sample_counts[kind] < there[kind]]
    assert all(sample_counts[other] - sample_counts[kind] <= 1 for kind in open_kinds for other in there)


def test_the_seed_alone_decides_and_the_words_say_it() -> None:
    sessions = [*make_sessions("aaaaaabbbc"), Session("skipped", ())]
    first = draw_balanced(sessions, 4, 0)
    assert draw_balanced(sessions, 4, 0) == first
    assert first.description.startswith("4 of 11 sessions, balanced by kind of question, seed 0: a ")
    assert first.description.endswith(", c 1") and "skipped" not in {session.session_id for session in first.sessions}
    samples = {tuple(session.session_id for session in draw_balanced(sessions, 4, seed).sessions) for seed in range(9)}
    assert len(samples) > 5


def test_a_run_asks_the_sample_states_it_and_goes_on_with_it_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_world(tmp_path) as world:
        out = tmp_path / "out"
        assert run_it(world, out, "--num-conversations", "2", "--balanced", "0") == 0
        session_ids = [turn.session_id for turn in read_responses(out / "response.jsonl")]
        description = json.loads((out / "run.json").read_text())["sample"]
        assert len({*session_ids}) == 2 and description.startswith("2 of ") and "seed 0" in description
        assert run_it(world, out, "--num-conversations", "2", "--balanced", "0", "--resume") == 0
        assert [turn.session_id for turn in read_responses(out / "response.jsonl")] == session_ids
        assert run_it(world, out, "--num-conversations", "2", "--balanced", "1", "--resume") == 2
        assert run_it(world, tmp_path / "all", "--balanced", "0") == 0, "all are asked"
        assert "sample" not in json.loads((tmp_path / "all" / "run.json").read_text())
