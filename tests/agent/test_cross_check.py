"""The check of an answer against the draft: agreement needs no call, and one call may choose either or none."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agents.models.base import ChatReply
from agents.settings.presets import settings_from
from agents.stages.cross_check import CrossCheck
from agents.stages.finalise import Finalise
from agents.turn import IDK, Candidate, Draft, Evidence, Look, Thing, Turn
from tests.agent.scripted import ScriptedChat, context, run, run_stages, turn

HEIGHT = Evidence("It is 330 m high.", "web", "Eiffel Tower")
UNSURE = (math.log(0.9), math.log(0.05))


def make_turn(answer: str | None, draft: str, needs: Any = "both", **fields: Any) -> Turn:
    return turn(
        "How high is this?",
        look=Look(needs, (Thing("iron tower", name="Eiffel Tower"),), by_model=True),
        draft=Draft((), None, draft),
        candidate=None if answer is None else Candidate(answer, None, **fields),
        shown=(HEIGHT,),
    )


def check(turns: list[Turn], reply: str | ChatReply = "A", **options: Any) -> ScriptedChat:
    chat = ScriptedChat(lambda _: reply)
    table = {"stages": ["cross_check", "finalise"], "cross_check": options, "finalise": {"verified_by": "witnesses"}}
    run_stages(turns, context(settings_from(table), chat=chat), CrossCheck, Finalise)
    return chat


@pytest.mark.parametrize(
    ("draft", "answer", "agrees"),
    [
        ("330 m", "The Eiffel Tower is 330 m high.", True),
        ("It is 330 metres tall.", "The Eiffel Tower is 330 m high.", True),
        ("from 324 to 330 m", "The tower is 330 m high.", False),
        ("the Eiffel Tower", "The tower is 330 m high.", False),
        ("about 330 storeys or 324 m", "The tower is 330 m high.", False),
        ("Peasmarsh", "Maria Ann Smith was born in the village of Peasmarsh, Sussex.", True),
        ("22 March", "The eggs should hatch on 22 March.", True),
        ("Yes", "Yes, it weighs 395 g.", True),
        ("Yes, 395 g", "No, at 395 g it is too light.", False),
        ("410 g", "It is not 410 g but 395 g.", False),
        ("Paris or London", "Paris", False),
        ("0.25 dollars", "It costs 25 dollars.", False),
    ],
)
def test_a_draft_whose_names_and_numbers_the_answer_holds_agrees(draft: str, answer: str, agrees: bool) -> None:
    """An answer that the draft gave before any search takes no call, whatever its tokens' probabilities."""
    compared = make_turn(answer, draft, logprobs=UNSURE)
    assert (check([compared]).batches == []) is (compared.verification.draft is True) is agrees
    assert not agrees or compared.answer == answer


def test_one_call_shows_both_where_they_differ_and_not_as_the_models_own_turn() -> None:
    differing = [make_turn("It is 330 m high.", "300 m"), make_turn("It is 331 m high.", "301 m")]
    chat = check(differing)
    assert chat.batches == [2]
    roles = [message.role for message in chat.requests[0].messages]
    text = chat.requests[0].messages[-1].content
    assert roles == ["system", "user"]
    assert 'A: "It is 330 m high."' in text and 'B: "300 m"' in text and "It is 330 m high." in text
    assert [each.answer for each in differing] == ["It is 330 m high.", "It is 331 m high."]


@pytest.mark.parametrize(
    ("own_knowledge", "needs", "reply", "answer"),
    [
        ("never", "both", "A", "It is 330 m high."),
        ("never", "both", "B", IDK),  # another answer is right, and may not be given
        ("never", "both", "none", IDK),
        ("never", "both", "well", IDK),  # no verdict, and nothing else speaks for it
        ("never", "picture", "B", "300 m"),  # what the photo shows is no own knowledge
        ("checked", "both", "B", "300 m"),
        ("checked", "both", "none", IDK),
    ],
)
def test_what_is_chosen_is_given_if_it_may_be(own_knowledge: str, needs: str, reply: str, answer: str) -> None:
    differing = make_turn("It is 330 m high.", "300 m", needs)
    check([differing], reply, own_knowledge=own_knowledge)
    assert differing.answer == answer


@pytest.mark.parametrize(
    ("own_knowledge", "needs", "reply", "answer", "calls"),
    [
        ("never", "both", "A", IDK, []),
        ("checked", "both", "A", "300 m", [1]),
        ("checked", "both", "none", IDK, [1]),
        ("never", "picture", "A", "300 m", [1]),
    ],
)
def test_a_draft_alone_is_given_after_a_check_that_can_say_no(
    own_knowledge: str, needs: str, reply: str, answer: str, calls: list[int]
) -> None:
    refused = make_turn("I don't know", "300 m", needs)
    chat = check([refused], reply, own_knowledge=own_knowledge)
    assert (refused.answer, chat.batches) == (answer, calls)
    if answer != IDK:
        assert refused.candidate is not None
        assert refused.candidate.origin == ("photo" if needs == "picture" else "own")


def test_where_nothing_is_proposed_nobody_is_asked() -> None:
    both = [make_turn("I don't know", "I don't know"), make_turn(None, "")]
    assert check(both, own_knowledge="checked").batches == []
    assert [each.answer for each in both] == [IDK, IDK]


@pytest.mark.parametrize(("probability", "answer"), [(0.9, "300 m"), (0.7, IDK), (None, "300 m")])
def test_own_knowledge_takes_the_probability_that_was_fitted(probability: float | None, answer: str) -> None:
    probabilities = {} if probability is None else {"A": probability, "none": 1 - probability}
    refused = make_turn("I don't know", "300 m")
    reply = ChatReply("A", "stop", first_token_probs=probabilities)
    check([refused], reply, own_knowledge="checked", own_minimum=0.8)
    assert refused.answer == answer


def test_tokens_of_low_probability_withhold_what_no_draft_says() -> None:
    doubtful = make_turn("It is 330 m high.", "I don't know", logprobs=UNSURE)
    check([doubtful], "A")
    assert (doubtful.verification.model, doubtful.verification.white_box, doubtful.answer) == (True, False, IDK)


def test_only_a_check_that_may_give_own_knowledge_speaks_of_it() -> None:
    texts = []
    for own_knowledge in ("never", "checked"):
        differing = make_turn("It is 330 m high.", "300 m")
        chat = ScriptedChat(lambda _: "A")
        table = {"stages": ["finalise"], "cross_check": {"own_knowledge": own_knowledge}}
        run(CrossCheck, [differing], context(settings_from(table), chat=chat))
        texts.append(chat.requests[0].messages[0].content)
    assert ["well-known" in text for text in texts] == [False, True]


def test_own_knowledge_that_the_draft_says_too_is_proposed_once() -> None:
    compared = make_turn("The Eiffel Tower is 330 m high.", "330 m", origin="own")
    chat = check([compared], "A", own_knowledge="checked")
    text = chat.requests[0].messages[-1].content
    assert 'A: "The Eiffel Tower is 330 m high."' in text and "B:" not in text
    assert compared.answer == "The Eiffel Tower is 330 m high."
