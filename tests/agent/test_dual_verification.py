"""Dual verification: what the probabilities of a reply's tokens decide, and what is rejected without a call."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from agents.asking.readers.verdicts import verdict
from agents.models.base import ChatReply
from agents.settings.presets import load_settings, settings_from
from agents.stages.finalise import Finalise
from agents.stages.verify import Verify
from agents.turn import IDK, Candidate, Draft, Evidence, Turn
from tests.agent.scripted import ScriptedChat, context, run, run_stages, turn

SURE, UNSURE = (math.log(0.9), math.log(0.9)), (math.log(0.9), math.log(0.09))


@pytest.mark.parametrize(
    ("options", "judging", "approved"),
    [
        ({}, SURE, True),
        ({}, UNSURE, False),  # the judging model is unsure of its own words
        ({}, None, True),
        ({"min_probability": 0.05, "mean_probability": 0.2}, UNSURE, True),
        ({"white_box": "line"}, UNSURE, True),  # the paper's g_white is over the answer alone
        ({"white_box": "line", "white_box_threshold": 0.95}, SURE, False),
    ],
)
def test_the_bounds_hold_for_answer_and_judgement_and_the_line_for_the_answer(
    options: dict[str, Any], judging: tuple[float, ...] | None, approved: bool
) -> None:
    dialog_turn = turn("a", candidate=Candidate("330 m", None, SURE))
    chat = ScriptedChat(lambda _: ChatReply("Reason: fine.\nResponse: Correct Answer", "stop", judging))
    run(Verify, [dialog_turn], context(settings_from({"stages": ["verify", "finalise"], "verify": options}), chat=chat))
    assert dialog_turn.verification.white_box is approved
    assert chat.requests[0].logprobs


def test_only_a_verdict_of_one_word_begins_with_its_yes() -> None:
    alternatives = {"Reason": 0.9, "No": 0.002, "Yes": 0.001}
    assert verdict(ChatReply("Reason: fine.\nResponse: correct", "stop", first_token_probs=alternatives)).p_yes is None
    assert verdict(ChatReply("yes", "stop", first_token_probs={"yes": 0.8, "no": 0.2})).p_yes == pytest.approx(0.8)


def test_without_evidence_an_answer_is_rejected_before_anyone_is_asked() -> None:
    chat = ScriptedChat(lambda _: "Reason: fine.\nResponse: Correct Answer")
    grounded = turn(
        "a", candidate=Candidate("330 m", None, SURE), shown=(Evidence("It is 330 m tall.", "web", "Tower"),)
    )
    bare = turn("b", candidate=Candidate("330 m", None, SURE))
    direct = turn("c", candidate=Candidate("STOP", None, SURE, drafted=True), route="direct")
    preset = settings_from({"stages": ["verify", "finalise"], "verify": {"needs_evidence": True}})
    run(Verify, [bare, grounded, direct], context(preset, chat=chat))
    assert chat.batches == [1]
    assert [each.verification.model for each in (grounded, bare, direct)] == [True, False, None]
    assert bare.verification.reason == "no evidence was found"


NINE_SURE = (math.log(0.95),) * 9
LOW = (math.log(0.6),) * 9  # of geometric mean 0.6: below the published 0.7


def decide(reply: ChatReply, logprobs: tuple[float, ...] = NINE_SURE, draft: Draft | None = None) -> Turn:
    """What ``best`` makes of a verdict where it has no gate."""
    dialog_turn = turn("How tall is it?", candidate=Candidate("330 m", None, logprobs), draft=draft)
    settings = load_settings("best", "gpu")
    assert settings.lacks_gate
    run_stages([dialog_turn], context(settings, chat=ScriptedChat(lambda _: reply)), Verify, Finalise)
    return dialog_turn


@pytest.mark.parametrize(
    ("verdict_text", "alternatives", "answer"),
    [
        ("yes", {"yes": 0.60, "Yes": 0.36, "no": 0.03}, "330 m"),  # one word in two spellings
        ("Yes", {"Yes": 0.65, "No": 0.34}, "330 m"),
        ("Yes", {"Yes": 0.71, "No": 0.28}, "330 m"),
        ("no", {"no": 0.40, "yes": 0.30, "Yes": 0.25}, "330 m"),  # the likeliest token is not the likeliest word
        ("Yes", {"Yes": 0.40, "No": 0.30, "no": 0.25}, IDK),
        ("No", {"No": 0.93, "Yes": 0.05}, IDK),
        ("yes", None, "330 m"),  # a server without log-probabilities
        ("no", None, IDK),
    ],
)
def test_a_verdict_of_one_word_counts_by_all_its_spellings(
    verdict_text: str, alternatives: dict[str, float] | None, answer: str
) -> None:
    logprobs = None if alternatives is None else (math.log(max(alternatives.values())),)
    dialog_turn = decide(ChatReply(verdict_text, "stop", logprobs, first_token_probs=alternatives))
    assert dialog_turn.answer == answer
    assert dialog_turn.verification.white_box is True  # the answer's own tokens, whatever the verdict's


YES = ChatReply("yes", "stop", (math.log(0.9),), first_token_probs={"yes": 0.9, "no": 0.1})
SAME, OTHER = Draft((), None, "It is 330 m tall."), Draft((), None, "96 m")


@pytest.mark.parametrize(
    ("reply", "logprobs", "draft", "answer"),
    [
        (YES, LOW, None, IDK),
        (YES, NINE_SURE, OTHER, "330 m"),  # a search often puts a draft right
        (YES, LOW, OTHER, IDK),
        (YES, LOW, SAME, "330 m"),  # two witnesses against one
        (YES, LOW, Draft((), None, IDK), IDK),  # a draft that does not know is no witness
        (ChatReply("hm", "stop"), NINE_SURE, None, "330 m"),
        (ChatReply("hm", "stop"), NINE_SURE, OTHER, IDK),
        (ChatReply("hm", "stop"), LOW, SAME, "330 m"),  # no verdict, but the same answer twice
    ],
)
def test_a_draft_that_says_the_same_outweighs_low_probabilities(
    reply: ChatReply, logprobs: tuple[float, ...], draft: Draft | None, answer: str
) -> None:
    dialog_turn = decide(reply, logprobs, draft)
    assert dialog_turn.answer == answer
    has_draft_answer = draft is not None and draft.answer != IDK
    signal = dialog_turn.signals.get("agreement")
    assert (None if signal is None else signal.value) == (float(draft is SAME) if has_draft_answer else None)


def test_a_draft_agrees_that_says_yes_and_repeats_a_name_of_the_question() -> None:
    draft = Draft((), None, "Yes, it is bigger than a Labrador.")
    dialog_turn = turn(
        "Is this bigger than a Labrador?", candidate=Candidate("Yes, a Great Dane is bigger.", None, LOW), draft=draft
    )
    run_stages([dialog_turn], context(load_settings("best", "gpu"), chat=ScriptedChat(lambda _: YES)), Verify)
    assert dialog_turn.verification is not None and dialog_turn.verification.draft is True


def test_the_short_verdict_of_qa_dragon_is_as_sure_as_its_long_one() -> None:
    """0.66 on the deciding word: within the bounds among the tokens of a reason, and no veto where it stands alone."""
    settings = load_settings("qa_dragon", "gpu")
    for short in (False, True):
        sure = (math.log(0.66),) if short else (*NINE_SURE, math.log(0.66))
        reply_text = "Yes" if short else "Reason: it says so.\nResponse: Correct"
        chat = ScriptedChat(lambda _, reply_text=reply_text, sure=sure: ChatReply(reply_text, "stop", sure))  # type: ignore[misc]
        dialog_turn = turn("a", candidate=Candidate("330 m", None, NINE_SURE), shown=(Evidence("330 m", "web", "t"),))
        run_stages([dialog_turn], dataclasses.replace(context(settings, chat=chat), short=short), Verify, Finalise)
        assert dialog_turn.answer == "330 m"
