"""Differences are those of the same token, the same verdict, the same reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log

import pytest

from agents.models.base import ChatMessage, ChatReply, ChatRequest
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from lab.benchmarks.rounding_noise import RecordingChat, build_rows, compare_replies

EXACT = ChatReply("1889", "stop", (log(0.5), log(0.9)), first_token_probs={"1889": 0.5, "I": 0.3})


def test_first_tokens_are_compared_by_their_text() -> None:
    rounded = replace(EXACT, first_token_probs={"I": 0.2, "The": 0.1})
    assert compare_replies([EXACT], [rounded])["first token"] == pytest.approx([0.5, 0.1])


def test_only_the_five_likeliest_first_tokens_count() -> None:
    exact = replace(EXACT, first_token_probs={str(place): place / 100 for place in range(9)})
    assert compare_replies([exact], [EXACT])["first token"] == pytest.approx([0.08, 0.07, 0.06, 0.05, 0.04])


def test_token_probabilities_of_unequal_replies_tell_nothing() -> None:
    rounded = replace(EXACT, logprobs=(log(0.4), log(0.8)))
    differences = compare_replies([EXACT, EXACT], [rounded, replace(rounded, text="1887")])
    assert differences["mean probability"] == pytest.approx([0.1])
    assert differences["least probability"] == pytest.approx([0.1])


def test_verdicts_are_compared_by_their_share_of_yes() -> None:
    yes = ChatReply("yes", "stop", (-0.1,), first_token_probs={"yes": 0.6, "no": 0.2})
    no = ChatReply("No", "stop", (-0.1,), first_token_probs={"yes": 0.2, "No": 0.6})
    assert compare_replies([yes, EXACT], [no, EXACT])["P(yes)"] == pytest.approx([0.5])


def test_a_kind_without_pairs_has_no_figures() -> None:
    assert list(build_rows({"P(yes)": [], "first token": [0.1, 0.3]})) == [
        ("P(yes)", "0"),
        ("first token", "2", "0.200", "0.300"),
    ]


def test_requests_are_kept_as_the_model_got_them() -> None:
    in_words = ChatRequest((ChatMessage("user", "a tower"),))

    class Composed:
        name = "composed"

        def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
            return [replace(EXACT, received=in_words), EXACT, replace(EXACT, first_token_probs=None)]

    asked = [ChatRequest((ChatMessage("user", text),)) for text in ("a photo", "words", "failed")]
    recording = RecordingChat(Composed())
    assert len(recording.chat(asked)) == 3
    assert [request for request, _ in recording.asked] == [in_words, asked[1]]
