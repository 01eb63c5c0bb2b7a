"""Probabilities of a reply's first token, worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.asking.readers.answers import read_candidate
from agents.methods.token_probabilities import compute_idk_probability, compute_yes_probability
from agents.models.base import ChatReply, sum_first_token_probs
from agents.settings.presets import Settings
from agents.stages.verify import Verify
from agents.turn import Candidate
from tests.agent.scripted import ScriptedChat, context, run, turn


@pytest.mark.parametrize(
    ("opening", "expected"),
    [
        ({"I": 0.2, " I": 0.1, '"I': 0.05, "I don": 0.02, "The": 0.5}, 0.37),
        ({"In": 0.3, "It": 0.2, "Italy": 0.1, "i": 0.1, " ": 0.1, "": 0.1}, 0.0),
        ({"I don't know": 0.9}, 0.9),
        ({}, None),
        (None, None),
    ],
)
def test_the_probability_of_an_abstention(opening: dict[str, float] | None, expected: float | None) -> None:
    assert compute_idk_probability(opening) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("opening", "expected"),
    [
        ({"Yes": 0.5, " yes": 0.1, "YES": 0.05, "No": 0.2, "**no": 0.05, "Not": 0.1}, 0.65 / 0.9),
        ({"yes": 0.3}, 1.0),
        ({"No": 0.3}, 0.0),
        ({"The": 0.9}, None),
        (None, None),
    ],
)
def test_the_probability_of_a_yes(opening: dict[str, float] | None, expected: float | None) -> None:
    assert compute_yes_probability(opening) == pytest.approx(expected)


@given(st.dictionaries(st.text(max_size=6), st.floats(0, 1), max_size=10))
def test_whatever_the_tokens_are_both_are_probabilities(opening: dict[str, float]) -> None:
    for probability in (compute_idk_probability(opening), compute_yes_probability(opening)):
        assert probability is None or 0 <= probability <= 1


def test_a_candidate_knows_how_near_it_was_to_an_abstention() -> None:
    opening = {"330": 0.8, "I": 0.15}
    plain = read_candidate(ChatReply("330 m", "stop", first_token_probs=opening))
    assert plain is not None
    assert plain.idk == pytest.approx(0.15)
    labelled = read_candidate(
        ChatReply("Reason: it says so.\nAnswer: 330 m", "stop", first_token_probs={"Reason": 0.9, "I": 0.1})
    )
    assert labelled is not None
    assert labelled.idk is None  # the first token is none of the answer's
    without = read_candidate(ChatReply("330 m", "stop"))
    assert without is not None
    assert without.idk is None


def test_the_verdict_keeps_its_probability() -> None:
    dialog_turn = turn("How tall?", candidate=Candidate("330 m", None))
    chat = ScriptedChat(lambda _: ChatReply("No", "stop", first_token_probs={"No": 0.6, "Yes": 0.2}))
    run(Verify, [dialog_turn], context(Settings(stages=("verify",)), chat=chat))
    assert (dialog_turn.verification.model, dialog_turn.verification.p_yes) == (False, pytest.approx(0.25))
    dialog_turn.close_stage("verify", 0.0)
    assert dialog_turn.records[0].checks["verifier's P(yes)"] == pytest.approx(0.25)


def test_tokens_with_the_same_text_are_added_up() -> None:
    assert sum_first_token_probs([("I", 0.2), ("It", 0.3), ("I", 0.1)]) == pytest.approx({"I": 0.3, "It": 0.3})
    assert sum_first_token_probs([]) is None
