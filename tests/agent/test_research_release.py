"""The research release's way of calling: no pipeline, the evidence as one text a turn, the domains by name."""

from __future__ import annotations

import re
from typing import Any

import pytest
from PIL import Image

from agents.methods.domains import find_domain, load_domains
from agents.models.base import ChatReply, ChatRequest
from agents.profiles.profile import PRESETS, names
from agents.runner.intake import add_provided, open_turns
from agents.turn import IDK
from tests.search.test_provided_context import format_context
from tests.support.fault_plan import Plan
from tests.support.fault_trial import spoilt_agent
from tests.support.fault_variants import full_settings
from tests.support.scripted_parts import Chat

SEARCHING = [name for name in names(PRESETS) if name != "vlm_only"]
_HEIGHT = re.compile(r"\b(111|222|330) metres")
QUERY = "How high is this tower?"


class FromEvidence(Chat):
    """Says the height that stands in its prompt, and knows none of its own."""

    def reply(self, request: ChatRequest) -> ChatReply:
        chat_reply = super().reply(request)
        heights = _HEIGHT.findall("\n".join(message.content for message in request.messages))
        if chat_reply.text.startswith("{"):
            return chat_reply  # a search
        text = chat_reply.text.replace("330", heights[-1]) if heights else IDK
        return ChatReply(text, "stop", chat_reply.logprobs)


def context(height: int) -> str:
    return format_context(
        [("Needle Tower", {"architect": "[[Ann Example]]", "height": f"{height} metres"})],
        [("Needle Tower", f"The Needle Tower is {height} metres high. It has 3 floors.")],
    )


def ask(preset: str, contexts: Any, **more: Any) -> list[str]:
    agent = spoilt_agent(full_settings(preset), Plan(call_seconds=100.0, search=None, chat=FromEvidence()))
    images = [Image.new("RGB", (160 + n, 128), "gray") for n in range(2)]
    return agent.batch_generate_response([QUERY] * 2, images, [[], []], rag_context_list=contexts, **more)


@pytest.mark.parametrize("preset", SEARCHING)
def test_every_preset_answers_from_the_evidence_of_its_own_turn(preset: str) -> None:
    one, two = ask(preset, [context(111), context(222)], domains=["local", "local"])
    assert "111" in one
    assert "222" in two


@pytest.mark.parametrize("contexts", [["", ""], None, ["<search results></search results>"], "text", [7, None, {}]])
def test_no_evidence_is_no_answer_and_no_error(contexts: Any) -> None:
    assert ask("direct_rag", contexts) == [IDK, IDK]


def test_a_pipeline_is_searched_whatever_is_given() -> None:
    agent = spoilt_agent(full_settings("direct_rag"), Plan(call_seconds=100.0, chat=FromEvidence()))
    (answer,) = agent.batch_generate_response(
        [QUERY], [Image.new("RGB", (160, 128))], [[]], rag_context_list=[context(111)]
    )
    assert "330" in answer


@pytest.mark.parametrize(
    ("label", "domain"),
    [
        ("local", "sightseeing (local)"),
        ("Animal", "nature (animal)"),
        ("food", "food"),
        ("math and science", "math and science"),
        ("", None),
        ("astrology", None),
    ],
)
def test_labels_of_the_data_sets(label: str, domain: str | None) -> None:
    assert find_domain(label) == domain


def test_every_domain_is_found_by_its_own_name() -> None:
    assert [find_domain(name) for name in load_domains()] == list(load_domains())


def test_the_domain_that_is_passed_is_the_turns() -> None:
    turns = open_turns(["a", "b", "c"], None, None)
    add_provided(turns, None, ["vehicle", 3])
    assert [turn.domain for turn in turns] == ["vehicle", None, None]
