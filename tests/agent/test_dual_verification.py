"""Dual verification: what the probabilities of a reply's tokens decide, and what is rejected without a call."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agents.asking.readers.verdicts import verdict
from agents.models.base import ChatReply
from agents.settings.presets import settings_from
from agents.stages.verify import Verify
from agents.turn import Candidate, Evidence
from tests.agent.scripted import ScriptedChat, context, run, turn

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
    asked = turn("a", candidate=Candidate("330 m", None, SURE))
    chat = ScriptedChat(lambda _: ChatReply("Reason: fine.\nResponse: Correct Answer", "stop", judging))
    run(Verify, [asked], context(settings_from({"stages": ["verify", "finalise"], "verify": options}), chat=chat))
    assert asked.verification.white_box is approved
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
