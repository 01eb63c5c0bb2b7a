"""A question in steps from its words to its answer, over the index that the real builder makes: only the language model is scripted."""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agents.models.base import Box, ChatReply, ChatRequest, TextLine
from agents.search.hits import Entity
from agents.settings.presets import settings_from
from agents.stages.steps import Steps
from agents.turn import IDK
from tests.agent.scripted import (
    GATHERING,
    Alike,
    ScriptedChat,
    ScriptedOcr,
    WordOverlapReranker,
    context,
    run,
    run_stages,
    turn,
)
from tests.search.conftest import PAGES

SETTINGS = settings_from(GATHERING)


def first_length(request: ChatRequest) -> ChatReply:
    """The first length in metres that a prompt's evidence gives of the thing it asks about."""
    evidence, _, question = request.messages[-1].content.rpartition("Question:")
    about = " ".join(text for title, text in re.findall(r'] "([^"]*)": (.*)', evidence) if title in question)
    match = re.search(r"(\d+) (?:metres|metrów)", about)
    return ChatReply(f"{match.group(1)} metres" if match else IDK, "stop", (-0.1,))


def plan_or(reply: Callable[[ChatRequest], ChatReply], ask: str, condition: str) -> Callable[[ChatRequest], ChatReply]:
    """Say a plan that asks the same of two things, or reply to its steps."""

    def say(request: ChatRequest) -> ChatReply:
        shown = request.messages[-1].content.rpartition("The photo shows:")[2].partition("\n")[0]
        things = re.findall(r'"([^"]*)"', shown)
        if not things:
            return reply(request)
        asks = "\n".join(f"ask: {ask.format(thing)}" for thing in things)
        return ChatReply(f"{asks}\ncompute: count [1] [2] {condition}", "stop")

    return say


def make_turn(question: str, *names: str) -> Any:
    return turn(question, entities=tuple(Entity(name, {}) for name in names))


def test_things_are_counted_by_what_their_pages_say(pipeline: Any) -> None:
    chat = ScriptedChat(plan_or(first_length, "How tall is {}?", "more than 500 metres"))
    tall = make_turn("How many of these two are over 500 metres high?", "Red Tower", "Żółty Most")
    unknown = make_turn("How many of these two are over 500 metres high?", "Red Tower", "Green Hill")
    world = context(SETTINGS, pipeline, chat=chat, fine_reranker=WordOverlapReranker(), text_reader=ScriptedOcr([]))
    run(Steps, [tall, unknown], world)
    assert tall.candidate.text == "1 of the 2: Żółty Most"
    assert unknown.candidate.text == IDK  # a fact that nobody knows is not counted as one that does not hold
    assert chat.batches == [2, 4]  # planned, and asked together
    assert {chunk.url for chunk in tall.shown} >= {"https://x.example/tower", "https://x.example/bridge"}


def test_text_in_the_photo_is_evidence_beside_the_pages(pipeline: Any) -> None:
    def say(request: ChatRequest) -> ChatReply:
        prompt = request.messages[-1].content
        if "The photo shows" in prompt:
            assert 'Text in the photo: "METRES PER STEP 2"' in prompt
            return ChatReply("1. ask: How tall is the Red Tower in metres?\n2. compute: ratio [1] 2", "stop")
        assert '"METRES PER STEP 2"' in prompt
        return first_length(request)

    lines = [TextLine("METRES PER STEP", Box(0, 0, 90, 20), 0.8), TextLine("2", Box(100, 0, 120, 20), 0.8)]
    climbed = make_turn("With the numbers on this sign, how many steps does this tower have?", "Red Tower")
    world = context(
        SETTINGS, pipeline, chat=ScriptedChat(say), fine_reranker=WordOverlapReranker(), text_reader=ScriptedOcr(lines)
    )
    run(Steps, [climbed], world)
    assert climbed.candidate.text == "150"
    assert [chunk.source for chunk in climbed.shown][:2] == ["step", "photo"]


@pytest.fixture
def full_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The organiser's page cache, whose pages say more than their snippets."""
    monkeypatch.setenv("CRAG_WEBSEARCH_CACHE_DIR", str(tmp_path))
    pages = {url: text for url, _, text in PAGES}
    for url, tonnes in (("https://x.example/tower", 7300), ("https://x.example/bridge", 400)):
        text = f"{html.unescape(pages[url])} All in all it has a mass of {tonnes} tonnes."
        (tmp_path / hashlib.sha256(url.encode()).hexdigest()).write_text(f"<p>{text}</p>", encoding="utf-8")


@pytest.mark.usefixtures("full_pages")
def test_a_step_reads_the_full_pages_that_the_evaluator_cached(pipeline: Any) -> None:
    def first_mass(request: ChatRequest) -> ChatReply:
        evidence, _, question = request.messages[-1].content.rpartition("Question:")
        about = " ".join(text for title, text in re.findall(r'] "([^"]*)": (.*)', evidence) if title in question)
        match = re.search(r"(\d+) tonnes", about)
        return ChatReply(f"{match.group(1)} tonnes" if match else IDK, "stop", (-0.1,))

    heavy = make_turn("How many of these two weigh over 500 tonnes?", "Red Tower", "Żółty Most")
    world = context(
        SETTINGS,
        pipeline,
        chat=ScriptedChat(plan_or(first_mass, "How much does {} weigh?", "more than 500 tonnes")),
        fine_reranker=WordOverlapReranker(),
        text_reader=ScriptedOcr([]),
    )
    run(Steps, [heavy], world)
    assert heavy.candidate.text == "1 of the 2: Red Tower"


@pytest.mark.usefixtures("full_pages")
def test_a_search_that_is_repeated_reads_them_too_and_finds_each_page_once(pipeline: Any) -> None:
    preset = settings_from(
        {
            "stages": ["web_search", "evidence", "coherence", "finalise"],
            "web_search": {"k": 1},
            "coherence": {"k": 5, "second": "none"},
        }
    )
    short = turn("How much does the Red Tower weigh?", None, queries=("Red Tower",))
    run_stages([short], context(preset, pipeline, text_encoder=Alike()))
    assert sum("7300 tonnes" in chunk.text for chunk in short.evidence) == 1
    assert (
        sum("400 tonnes" in chunk.text for chunk in short.evidence) == 1
    )  # of a page that only the larger search finds
    assert len({chunk.text for chunk in short.evidence}) == len(short.evidence)
