"""Replies that Qwen2.5-Coder-1.5B-Instruct, the embedded profile's model, really gave, read by the parsers of the stages.

``real_replies.jsonl`` holds each with what is to be read, written by hand. More are collected by
``python -m benchmarks.readable_replies --replies FILE``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agents.models.base import ChatReply
from agents.settings.profiles import PROMPTS
from benchmarks.readable_replies import copied, readers

CORPUS = [
    json.loads(line) for line in Path(__file__).with_name("real_replies.jsonl").read_text(encoding="utf-8").splitlines()
]
READERS = readers()
PICTURE_DESCRIPTION = "image_in_words"  # shown to a model, never replied to


@pytest.mark.parametrize("line", CORPUS, ids=lambda line: f"{line['prompt']}: {line['reply'][:30]!r}")
def test_what_a_model_really_said_is_read(line: dict[str, Any]) -> None:
    assert READERS[line["prompt"]](ChatReply(line["reply"], line["finish"])) == line["read"]


def test_every_prompt_has_a_reader() -> None:
    assert set(READERS) == {path.stem for path in PROMPTS.glob("*.j2")} - {PICTURE_DESCRIPTION}


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (["a lighthouse", 1, "31 Metres", "31 metres"], True),
        ({"answer": "a tower of 31 metres"}, False),
        (["I don't know", 1, "none"], False),
        ("metres", True),
        ("metre", False),
        (None, False),
    ],
)
def test_words_of_the_template_in_a_reply_are_found(read: Any, found: bool) -> None:
    assert copied(read, "Where you cannot, say I don't know, or none.\nReference answer: 31 metres") is found
