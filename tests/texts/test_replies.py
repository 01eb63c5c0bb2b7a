"""Whatever a model replies, the parser reads it or says that it cannot."""

from typing import Any

import pytest

from agents.texts.replies import json_object, number, read_label, strings, yes_or_no


@pytest.mark.parametrize(
    ("reply", "fields"),
    [
        ('{"object": "red car"}', {"object": "red car"}),
        ('Sure!\n```json\n{"object": "car"}\n```', {"object": "car"}),
        ("{'object': 'car',}", {"object": "car"}),
        ('{"queries": ["a", "b"', {"queries": ["a", "b"]}),
        ('{"a": 1} and {"b": 2}', {"a": 1}),
        ("no json here", None),
        ("", None),
        ("[1, 2]", None),
    ],
)
def test_json_is_found_and_mended(reply: str, fields: dict[str, Any] | None) -> None:
    assert json_object(reply) == fields


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("Yes.", True),
        ("**No**, because", False),
        ("Response: Incorrect Answer", False),
        ("correct", True),
        ("maybe", None),
        ("", None),
        ("Yes it does.", True),
        ("No it does not", False),
        ("yes", True),
        ("NO!", False),
        ("Answer: yes", True),
        ("Nothing says so", None),
        ("They are consistent.", True),
        ("The answers are inconsistent.", False),
        ("Both say the same.", None),
        ("- No", False),
    ],
)
def test_yes_and_no(reply: str, verdict: bool | None) -> None:
    assert yes_or_no(reply) is verdict


def test_labelled_lines() -> None:
    reply = "**Reason:** It is stated\nin the text.\n- **Answer:** 330 m"
    assert read_label(reply, "reason") == "It is stated\nin the text."
    assert read_label(reply, "answer") == "330 m"
    assert read_label(reply, "confidence") is None


@pytest.mark.parametrize(
    ("text", "value"), [("0.9", 0.9), ("about .5 or so", 0.5), ("1.0", 1.0), ("7", None), ("high", None), (None, None)]
)
def test_numbers_are_bounded(text: str | None, value: float | None) -> None:
    assert number(text, 0.0, 1.0) == value


def test_strings_are_cleaned_and_unique() -> None:
    assert strings([" a  b", "a b", "", 3, "c", "d"], 2) == ["a b", "c"]
    assert strings("one", 3) == ["one"]
    assert strings(None, 3) == []
