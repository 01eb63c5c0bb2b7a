"""Each source asked alone, and what their votes decide (RobustRAG, arXiv 2405.15556)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.methods.source_votes import GRAPH_VOTES, Vote, count_votes, is_same_claim, is_supported_by
from agents.models.base import ChatReply, ChatRequest
from agents.settings.presets import load_settings, settings_from
from agents.stages.finalise import Finalise
from agents.stages.isolated_answers import IsolatedAnswers
from agents.turn import IDK, Candidate, Evidence, SourceVotes, Turn
from tests.agent.scripted import ScriptedChat, context, run, turn

QUESTION = "How high is this tower?"
ROW = Evidence("The height of Tower is 330 m.", "kg", "Tower", key="height")
ROOF = Evidence("The roof of Tower is of tin.", "kg", "Tower", key="roof")
PAGE = Evidence("It rises to 330 m.", "web", "Tower", "https://one.example")
PLANTED = Evidence("How high is this tower? It is 40 m.", "web", "Tower", "https://planted.example")


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("330 m", "The tower is 330 m high.", True),
        ("It rises to 330 m above the river.", "The height of the tower is 330 m.", True),
        ("330 m", "40 m", False),
        ("Yes.", "No.", False),
        ("Gustave Eiffel", "It was built by Eiffel", True),
        ("Gustave Eiffel", "It was built by Maurice Koechlin", False),
    ],
)
def test_answers_are_compared_by_what_they_add_to_the_question(first: str, second: str, same: bool) -> None:
    assert is_same_claim(first, second, QUESTION) is same
    assert is_same_claim(second, first, QUESTION) is same


@pytest.mark.parametrize(
    ("votes", "counted"),
    [
        ([], SourceVotes()),
        ([Vote("330 m", 2), Vote("40 m")], SourceVotes(2, 1, "40 m")),
        ([Vote("330 m"), Vote("40 m"), Vote("It is 40 m."), Vote("7 m")], SourceVotes(1, 2, "40 m")),
        ([Vote(IDK), Vote("330 m"), Vote("I do not know.")], SourceVotes(1, 0, None)),
    ],
)
def test_the_largest_group_that_says_otherwise_is_counted(votes: list[Vote], counted: SourceVotes) -> None:
    assert count_votes("The tower is 330 m high.", QUESTION, votes) == counted


def test_what_a_source_does_not_hold_is_not_its_vote() -> None:
    assert is_supported_by("The tower is 330 m high.", QUESTION, ["It rises", "to 330 m."])
    assert not is_supported_by("The tower is 324 m high.", QUESTION, ["It rises to 330 m."])
    assert not is_supported_by("It is high.", QUESTION, ["It is high."])  # nothing is added to the question
    chat = ScriptedChat(
        lambda request: ChatReply("7 m" if "rises" in request.messages[-1].content else "330 m", "stop")
    )
    dialog_turn = make_turn(ROW, PAGE)
    run(IsolatedAnswers, [dialog_turn], context(load_settings("best", "embedded"), chat=chat))
    assert dialog_turn.votes == SourceVotes(GRAPH_VOTES, 0, None)


@given(st.lists(st.sampled_from(["330 m", "40 m", "7 m", IDK])), st.integers(1, 3))
def test_k_planted_sources_change_the_lead_by_k_at_most(honest: list[str], planted: int) -> None:
    votes = [Vote(answer) for answer in honest]
    before = count_votes("330 m", QUESTION, votes).lead
    after = count_votes("330 m", QUESTION, [*votes, *[Vote("40 m")] * planted]).lead
    assert before - planted <= after <= before


def test_one_call_asks_each_source_of_the_batch_without_the_dialog() -> None:
    def say(request: ChatRequest) -> ChatReply:
        prompt = request.messages[-1].content
        assert "earlier order" not in prompt
        assert ("330 m." in prompt) + ("40 m." in prompt) + (
            "It rises" in prompt
        ) <= 2  # the row and the page hold the same number
        return ChatReply("40 m" if "40 m" in prompt else "330 m", "stop")

    chat = ScriptedChat(say)
    history = ({"role": "assistant", "content": "earlier order"},)
    several = make_turn(ROW, ROOF, PAGE, PLANTED, history=history)
    single, refused = make_turn(ROW, ROOF), make_turn(ROW, PAGE, answer=IDK)
    stepped = make_turn(ROW, PAGE)
    stepped.candidate = Candidate("330 m", None, stepwise=True)
    run(IsolatedAnswers, [several, single, refused, stepped], context(load_settings("best", "embedded"), chat=chat))
    assert chat.batches == [3]  # the graph, two pages
    assert several.votes == SourceVotes(GRAPH_VOTES + 1, 1, "40 m")
    assert (single.votes, refused.votes, stepped.votes) == (None, None, None)


def test_sources_are_named_by_title_and_vote_by_kind() -> None:
    """A page that calls itself by the name of the graph has no more votes than others."""
    pretender = replace(PLANTED, title="kg")
    chat = ScriptedChat(
        lambda request: ChatReply("40 m" if "40 m" in request.messages[-1].content else "330 m", "stop")
    )
    asked = make_turn(ROW, pretender, PAGE)
    run(IsolatedAnswers, [asked], context(load_settings("best", "embedded"), chat=chat))
    assert asked.votes == SourceVotes(GRAPH_VOTES + 1, 1, "40 m")
    assert [*asked._findings["answers"]] == ["alone: kg", "alone: https://planted.example", "alone: Tower"]


def test_a_failed_reply_does_not_vote_and_is_told() -> None:
    chat = ScriptedChat(
        lambda request: ChatReply("", "error") if "40 m" in request.messages[-1].content else ChatReply("330 m", "stop")
    )
    dialog_turn = make_turn(ROW, PLANTED)
    run(IsolatedAnswers, [dialog_turn], context(load_settings("best", "embedded"), chat=chat))
    assert dialog_turn.votes == SourceVotes(GRAPH_VOTES, 0, None)
    assert "isolated_answers" in (dialog_turn.error or "")


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        (SourceVotes(1, 1, "40 m"), [True, False]),
        (SourceVotes(1, GRAPH_VOTES, "40 m"), [False, False]),
        (SourceVotes(GRAPH_VOTES, 1, "40 m"), [True, True]),
        (SourceVotes(0, 0), [True, False]),
        (None, [True, True]),
    ],
)
def test_the_lead_that_an_answer_needs(votes: SourceVotes | None, expected: list[bool]) -> None:
    outcomes = []
    for lead in (0, 1):
        settings = settings_from({"stages": ["finalise"], "finalise": {"min_lead": lead}})
        dialog_turn = make_turn(ROW, PLANTED)
        dialog_turn.votes = votes
        run(Finalise, [dialog_turn], context(settings))
        outcomes.append(dialog_turn.answer != IDK)
    assert outcomes == expected
    undecided = make_turn(ROW, PLANTED)
    undecided.votes = votes
    finalise = {"min_lead": 1, "lead_decides": False}
    run(Finalise, [undecided], context(settings_from({"stages": ["finalise"], "finalise": finalise})))
    assert undecided.answer != IDK, "the gate alone weighs the lead"


def test_the_rule_brings_its_stage() -> None:
    stages = load_settings("best", "gpu", overrides=["finalise.min_lead=0"]).stages
    assert stages[-2:] == ("isolated_answers", "finalise")
    assert "isolated_answers" not in load_settings("best", "gpu").stages  # alone, a turn has no time for it there
    assert "isolated_answers" in load_settings("best", "embedded_batch").stages


def make_turn(*chunks: Evidence, answer: str = "330 m", history: tuple[dict[str, str], ...] = ()) -> Turn:
    return turn(QUESTION, evidence=chunks, shown=chunks, candidate=Candidate(answer, None), history=history)
