"""The agent that chooses its searches itself: batched steps, its tools and their faults, time, and what is kept as evidence."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agents.asking.ask import read
from agents.asking.readers.agent_steps import AGENT_STEP, AgentStep
from agents.evidence.tool_results import list_pages, list_pictured, select_newest
from agents.models.base import ChatReply, ChatRequest
from agents.record import TurnRecord
from agents.search.hits import PageText, WebHit
from agents.settings.presets import load_settings, settings_from
from agents.stages.search_agent import SearchAgent
from agents.time_limits.deadline import Deadline
from agents.turn import IDK, Evidence, Turn
from evaluation.scores.answer_shown import find_shown_answer
from evaluation.scores.losses import Loss
from tests.agent.scripted import (
    Scripted,
    ScriptedChat,
    ScriptedPipeline,
    build_pipeline,
    context,
    hit,
    run,
    run_stages,
    turn,
)

PAGES = {
    "BigBen": "Big Ben height is 96 metres",
    "Louvre": "The Louvre is a museum in Paris",
}
ENTITIES: dict[tuple[int, int], tuple[str, dict[str, Any]]] = {
    (64, 48): ("Old Mill", {"height": "31 m"}),
    (32, 24): ("Old Barn", {"height": "9 m"}),
}
WHOLE, PART = '{"tool": "image_search", "box": null}', '{"tool": "image_search", "box": [0, 0, 0.5, 0.5]}'
WEB = '{"tool": "web_search", "query": "Big Ben height"}'
SETTINGS = {"stages": ["search_agent", "finalise"]}


def say(text: str) -> str:
    return json.dumps({"tool": "answer", "box": None, "query": "", "answer": text})


def follow(*replies: str) -> Callable[[ChatRequest], str]:
    """Reply to each request by the number of results that it shows."""
    return lambda request: replies[min(request.messages[-1].content.count("You called"), len(replies) - 1)]


def make(chat: ScriptedChat, seconds: float = float("inf"), pipeline: Any = None, **options: Any) -> Scripted:
    table = {**SETTINGS, "search_agent": options}
    return context(settings_from(table), pipeline or ScriptedPipeline(ENTITIES, PAGES), seconds, chat=chat)


def ask(turns: Sequence[Turn], *replies: str, **fields: Any) -> ScriptedChat:
    """Run the stage by itself with a model that replies in order."""
    chat = ScriptedChat(follow(*replies))
    run(SearchAgent, turns, make(chat, **fields))
    return chat


@pytest.mark.parametrize(
    ("reply", "step"),
    [
        (WHOLE, AgentStep("image_search")),
        (PART, AgentStep("image_search", (0.0, 0.0, 0.5, 0.5))),
        ('{"tool": "image_search", "box": [100, 0, 1200, 500]}', AgentStep("image_search", (0.1, 0.0, 1.0, 0.5))),
        ('{"tool": "image_search", "box": [0.5, 0.5, 0.4, 0.9]}', AgentStep("image_search")),
        ('{"tool": "image_search", "box": [0.5, "a", true]}', AgentStep("image_search")),
        ('I will search. {"tool": "web_search", "query": "Big Ben"}', AgentStep("web_search", query="Big Ben")),
        ('{"tool": "web_search", "query": "Big Ben"', AgentStep("web_search", query="Big Ben")),
        ('{"tool": "web_search"}', AgentStep()),
        ('{"tool": "python", "query": "1 + 1"}', AgentStep()),
        ("{", AgentStep()),
    ],
)
def test_a_step_is_read_as_far_as_it_can_be(reply: str, step: AgentStep) -> None:
    assert read(AGENT_STEP, ChatReply(reply, "stop")).value == step


@pytest.mark.parametrize(
    ("reply", "text"),
    [(say("It is 96 m high."), "It is 96 m high."), ('{"answer": "96 m"}', "96 m"), ("It is 96 m high.", "It is 96 m high.")],
)  # fmt: skip
def test_an_answer_needs_no_object(reply: str, text: str) -> None:
    step = read(AGENT_STEP, ChatReply(reply, "stop")).value
    assert step.tool is None and step.candidate is not None and step.candidate.text == text


def test_turns_that_still_search_are_asked_together() -> None:
    turns = [turn("What is this?"), turn("How high is Big Ben?", None), turn("Who?", None)]
    replies = {
        "What is this?": follow(WHOLE, PART, say("An old barn.")),
        "How high is Big Ben?": follow(WEB, say("It is 96 m high.")),
        "Who?": follow(say(IDK)),
    }
    chat = ScriptedChat(lambda request: next(
        reply for question, reply in replies.items() if f"Question: {question}" in request.messages[-1].content
    )(request))  # fmt: skip
    run(SearchAgent, turns, make(chat))
    assert chat.batches == [3, 2, 1]
    texts = [each.candidate.text for each in turns if each.candidate is not None]
    assert texts == ["An old barn.", "It is 96 m high.", IDK]


def test_a_part_of_the_photo_is_searched_and_all_that_was_found_is_shown() -> None:
    asked = turn("How high is the small one?")
    chat = ask([asked], WHOLE, PART, WEB, say("The old barn is 9 m high."))
    last = chat.requests[-1].messages[-1].content
    for name, height in (("Old Mill", "31 m"), ("Old Barn", "9 m")):
        assert f'- "{name}": "likeness 0.90 of 1; height: {height}"' in last
    assert '[1] "BigBen": "Big Ben height is 96 metres"' in last
    assert '"box": [0.0, 0.0, 0.5, 0.5]' in last and asked.queries == ("Big Ben height",)
    assert {chunk.title for chunk in asked.shown} >= {"Old Mill", "Old Barn", "BigBen"}
    assert "at most 2 more times" in chat.requests[-1].messages[0].content


def test_after_the_last_step_an_answer_is_asked_for() -> None:
    asked = turn("How high is this?")
    chat = ask([asked], WHOLE, PART, say("It is 31 m high."), steps=2)
    assert len(chat.requests) == 3 and "Now answer." in chat.requests[-1].messages[-1].content
    assert "image_search" not in chat.requests[-1].messages[0].content
    stubborn = turn("How high is this?")
    ask([stubborn], WHOLE, PART, WEB, steps=2)
    assert stubborn.candidate is not None and stubborn.candidate.text == IDK


@pytest.mark.parametrize(
    ("first", "size", "told"),
    [
        ('{"tool": "python", "query": "1"}', (64, 48), "error: call a tool that is listed"),
        ("{", (64, 48), "error: call a tool that is listed"),
        (WHOLE, None, "error: there is no photo"),
    ],
)
def test_a_call_that_cannot_be_made_is_told_to_the_model(first: str, size: Any, told: str) -> None:
    asked = turn("How high is this?", size)
    chat = ask([asked], first, say(IDK))
    assert told in chat.requests[1].messages[-1].content and len(chat.requests) == 2


def test_a_call_is_not_made_twice() -> None:
    pipeline = ScriptedPipeline(ENTITIES, PAGES)
    chat = ask([turn("How high is this?", None)], WEB, WEB, say(IDK), pipeline=pipeline)
    assert pipeline.queries == ["Big Ben height"] and "called this already" in chat.requests[2].messages[-1].content


def test_without_web_search_the_tool_is_not_offered() -> None:
    """As in task 1."""
    pipeline = ScriptedPipeline(ENTITIES, PAGES)
    pipeline.web_search = False  # type: ignore[attr-defined]
    chat = ask([turn("How high is this?")], WEB, say(IDK), pipeline=pipeline)
    assert "web_search" not in chat.requests[0].messages[0].content and pipeline.queries == []
    assert "error: there is no web search" in chat.requests[1].messages[-1].content


class Clock:
    """Clock that a model moves on."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("seconds", "calls"), [(4.0, 1), (9.0, 4), (100.0, 6)])
def test_the_plan_ends_when_there_is_no_time_for_another_step(seconds: float, calls: int) -> None:
    """A step takes 2 s: of 9 s a fourth search would leave too little for the answer."""
    clock = Clock()

    def reply(request: ChatRequest) -> str:
        clock.now += 2.0
        if "Now answer." in request.messages[-1].content:
            return say("It is 31 m high.")
        return json.dumps({"tool": "web_search", "query": f"height {clock.now}"})

    chat, asked = ScriptedChat(reply), turn("How high is this?")
    run(SearchAgent, [asked], dataclasses.replace(make(chat), deadline=Deadline(seconds, clock)))
    assert len(chat.requests) == calls and clock.now <= seconds
    assert asked.candidate is not None and asked.candidate.text == "It is 31 m high."


@pytest.mark.parametrize(("size", "shown"), [((64, 48), "Old Mill"), (None, "Big Ben height")])
def test_with_less_time_code_makes_one_search(size: Any, shown: str) -> None:
    chat = ScriptedChat(follow(say(IDK)))
    run(SearchAgent, [turn("Big Ben height?", size)], dataclasses.replace(make(chat), short=True))
    assert len(chat.requests) == 1 and shown in chat.requests[0].messages[-1].content


def test_a_failed_model_or_search_costs_its_own_turn() -> None:
    class Broken(ScriptedPipeline):
        def __call__(self, query: Any, k: int = 5) -> list[dict[str, Any]]:
            raise RuntimeError("index lost")

    turns = [turn("How high is this?"), turn("Broken?")]
    chat = ScriptedChat(lambda request: ChatReply("", "error", error="busy")
        if "Broken?" in request.messages[-1].content else follow(WHOLE, say(IDK))(request))  # fmt: skip
    run(SearchAgent, turns, make(chat, pipeline=Broken(ENTITIES, PAGES)))
    assert turns[0].fault is not None and "index lost" in chat.requests[-1].messages[-1].content
    assert turns[1].error == "search_agent: busy" and turns[1].candidate is None


def test_the_preset_checks_the_answer_and_names_its_origin() -> None:
    settings = load_settings("search_agent", "server_embedded")
    replies = follow(WEB, say("Big Ben is 96 metres high."))

    def reply(request: ChatRequest) -> str:
        return "A" if request.messages[0].content.startswith("You check") else replies(request)

    chat, asked = ScriptedChat(reply), turn("How high is this?")
    run_stages([asked], context(settings, ScriptedPipeline(ENTITIES, PAGES), chat=chat))
    assert asked.answer == "Big Ben is 96 metres high." and len(chat.requests) == 3
    decision = asked.records[-1].decision
    assert decision is not None and decision.origin == "page"
    assert "Big Ben height is 96 metres" in chat.requests[-1].messages[-1].content  # the check reads the same evidence
    record = next(each for each in asked.records if each.stage == "search_agent")
    assert any(chunk.title == "BigBen" for chunk in record.evidence) and record.queries == ("Big Ben height",)
    assert record.searches == ("web",)
    assert [stage.name for stage in build_pipeline(context(settings)).stages] == [
        "search_agent", "cross_check", "finalise"
    ]  # fmt: skip


def test_answer_shown_is_known_of_what_the_model_read() -> None:
    asked = turn("How high is this?")
    settings = load_settings("search_agent", "server_embedded")
    chat = ScriptedChat(follow(WHOLE, say("It is 31 m high.")))
    run_stages([asked], context(settings, ScriptedPipeline(ENTITIES, PAGES), chat=chat))
    record = TurnRecord(stages=tuple(asked.records))
    seen, unseen = (find_shown_answer(record, (answer,)) for answer in ("31 m", "96 metres"))
    assert seen is not None and seen.is_shown and unseen is not None and unseen.loss is Loss.NOT_FOUND


def test_an_answer_that_the_check_rejects_is_withheld() -> None:
    settings = load_settings("search_agent", "server_embedded")
    chat = ScriptedChat(
        lambda request: "none" if request.messages[0].content.startswith("You check") else say("It is 5 m high.")
    )
    asked = turn("How high is this?")
    run_stages([asked], context(settings, ScriptedPipeline(ENTITIES, PAGES), chat=chat))
    assert asked.answer == IDK


LONG = "The tower of the mill was built by Anna Lind in the spring of 1874, as the stone above its door says."


def test_a_page_shows_its_found_part_and_the_paragraphs_with_words_of_the_query() -> None:
    text = "\n".join(["# Mill", "A café opens here every day of the summer, from ten until late at night.", LONG])
    page = WebHit("u_chunk_0", 0.8, "Mill", "Opening hours of the mill.", "u", None)
    [chunk] = list_pages("Who built the tower?", [page], {"u": PageText(text)})
    assert chunk.text.startswith(f"Opening hours of the mill. … {LONG}") and chunk.source == "web"
    assert [*list_pages("Who?", [dataclasses.replace(page, page_snippet="")], {})] == []


def test_a_picture_shows_the_names_and_facts_of_its_things() -> None:
    named, bare = hit("Old Mill", 0.91, height="31 m", built="[[1874]]"), hit("Old Barn", 0.6)
    chunks = [*list_pictured([named, bare])]
    assert [(each.title, each.retrieval) for each in chunks] == [("Old Mill", 0.91), ("Old Barn", 0.6)]
    assert chunks[0].text == "likeness 0.91 of 1; height: 31 m; built: 1874" and "no facts" in chunks[1].text


def test_the_newest_results_keep_their_place_in_the_budget() -> None:
    old, both, new = (Evidence(text * 40, "web", "", "u") for text in ("old ", "both ", "new "))
    assert select_newest([[old, both], [both, new]], None) == [(old,), (both, new)]
    assert select_newest([[old, both], [both, new]], 90) == [(), (both, new)]
