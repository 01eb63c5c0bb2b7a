"""Replies as models really write them: without labels, with bold ones, with a sentence before the answer, cut in the middle."""

from __future__ import annotations

import itertools

import pytest

from agents.asking.prompts import PromptLibrary
from agents.asking.readers.answers import read_candidate
from agents.asking.readers.drafts import parse_draft
from agents.asking.readers.verdicts import verdict
from agents.models.base import ChatReply
from agents.papers.core_mmrag import FourSteps, parse_four_steps
from agents.profiles.profile import PROMPTS
from agents.texts.replies import json_object, read_label


@pytest.mark.parametrize(
    ("reply", "approves"),
    [
        ("Reason: The evidence says so.\nResponse: Correct Answer", True),
        ("**Reason:** It says so.\n**Response:** Incorrect Answer", False),
        ("**Response: Correct Answer**", True),
        ("Response: **Correct Answer.**", True),
        ("Correct Answer", True),
        ("The answer is correct.", True),
        ("The evidence gives 330 m.\nCorrect Answer", True),
        ("Reason: it is stated.\n\nYes, the answer is correct.", True),
        ("Response: Not correct", False),
        ("Reason: The answer is correct about the brand but gives the wrong year.", None),
        ("The answer is correct about the brand but not about the year.", None),
        ("Reason: The answer is correct about the brand but", None),
        ("The true height is 5 m while the answer says 6 m.", None),
        ("Reason: True, it is a tower, but the height is another.", None),
        ("Response: Correct about the brand but not the year", None),
        ("Response: Partially correct", None),
        ("The answer is not supported by the evidence.", False),
        ("I would say that this is incorrect.", False),
        ("", None),
        ("The photo shows a tower.", None),
    ],
)
def test_only_a_clear_verdict_approves(reply: str, approves: bool | None) -> None:
    assert verdict(ChatReply(reply, "stop")).approves is approves


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("**Answer:** 330 m", "330 m"),
        ("**Answer**: 330 m", "330 m"),
        ("## Answer\n330 m", "330 m"),
        ("The evidence gives the height.\n\nAnswer: 330 m", "330 m"),
        ("Reason: It says so.\nFinal answer: 330 m", "330 m"),
        ("Sure! Here is the answer:\nIt is 330 m high.", "It is 330 m high."),
        ("It is 330 m high.", "It is 330 m high."),
        ("Certainly not before 1900.", "Certainly not before 1900."),
    ],
)
def test_an_answer_is_found_behind_what_stands_before_it(reply: str, answer: str) -> None:
    candidate = read_candidate(ChatReply(reply, "stop"))
    assert candidate is not None and candidate.text == answer


@pytest.mark.parametrize(
    "reply",
    [
        "**Step 1:** [1900]\n**Step 2:** Reference B\n**Step 3:** 1964\n**Step 4:** 1964",
        "Step 1: **[1900]**\nStep 2: **Reference B**\nStep 3: **1964**\nStep 4: **1964**",
        "### Step 1\n[1900]\n### Step 2\nReference B\n### Step 3\n1964\n### Step 4\n1964",
        "**Own answer:** [1900]\n**Reference:** B\n**Reference answer:** 1964\n**Final answer:** 1964",
    ],
)
def test_bold_steps(reply: str) -> None:
    assert parse_four_steps(reply, 3) == FourSteps("1900", 1, "1964", "1964")


@pytest.mark.parametrize(
    ("step", "name"),
    [
        ("is Dr. Pepper.", "Dr. Pepper"),
        ("is St. Paul's Cathedral. It is in London.", "St. Paul's Cathedral"),
        ("is a Volvo 2.0 T6.", "Volvo 2.0 T6"),
        ('is "Canna indica".', "Canna indica"),
        ("is the Golden Gate Bridge, a red bridge.", "Golden Gate Bridge"),
        ("is **Canna indica**.", "Canna indica"),
        ("is not visible in the image.", None),
        ("is unknown.", None),
        ("is not specified.", None),
        ("is not clear from the photo.", None),
        ("is hard to tell.", None),
        ("is", None),
    ],
)
def test_the_object_that_a_draft_names(step: str, name: str | None) -> None:
    draft = parse_draft(
        ChatReply(f"1. The exact name of the object that the question is about {step}\nAnswer: x", "stop"), 5
    )
    assert draft.object_name == name


DECISIONS = {
    "entity_selection": ["entity"],
    "object_choice": ["object"],
    "tool_router": ["need_image_search", "need_text_search"],
}


@pytest.mark.parametrize(("prompt", "keys"), DECISIONS.items())
def test_the_decision_comes_before_its_reason(prompt: str, keys: list[str]) -> None:
    settings = PromptLibrary(PROMPTS)[prompt].settings
    assert settings.schema_ is not None
    assert list(settings.schema_["properties"]) == settings.schema_["required"] == [*keys, "reason"]
    text = (PROMPTS / f"{prompt}.j2").read_text(encoding="utf-8")
    forms = [line for line in text.splitlines() if '"reason":' in line]
    assert forms
    for form in forms:
        places = [form.index(f'"{key}"') for key in (*keys, "reason")]
        assert places == sorted(places)


@pytest.mark.parametrize(
    ("reply", "decided"),
    [
        ('{"entity": 2, "reason": "The photo shows', {"entity": 2}),
        ('{"object": "red car", "rea', {"object": "red car"}),
        (
            '{"need_image_search": true, "need_text_search": false, "reason": "',
            {"need_image_search": True, "need_text_search": False},
        ),
    ],
)
def test_a_reply_cut_within_its_reason_has_its_decision(reply: str, decided: dict[str, object]) -> None:
    fields = json_object(reply) or {}
    assert {key: fields.get(key) for key in decided} == decided


def test_a_label_is_found_whatever_marks_stand_around_it() -> None:
    for mark, colon, blank in itertools.product(("", "**", "- ", "> ", "1. ", "### "), (":", " :"), ("", " ")):
        assert read_label(f"A sentence.\n{mark}Answer{colon}{blank}330 m", "answer") == "330 m"
