"""The answer of a model that sees: from photo and evidence, what is missing searched for once more, calculations computed by code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image

from agents.asking.ask import read
from agents.asking.readers.grounded import CHOICE, GROUNDED
from agents.evidence.shown import CHARACTERS_PER_TOKEN
from agents.models.base import Box, ChatReply, ChatRequest, Detection
from agents.search.gateway import SearchGateway
from agents.search.hits import Entity, ImageHit, WebHit
from agents.settings.presets import settings_from
from agents.stages.grounded_answer import GroundedAnswer
from agents.stages.select_entity import list_alike
from agents.turn import Candidate, Evidence, Look, Thing, Turn, View
from tests.agent.scripted import (
    ScriptedChat,
    ScriptedDetector,
    ScriptedPipeline,
    WordOverlapReranker,
    context,
    run,
    turn,
)

HEIGHT = Evidence("It is 330 m high.", "web", "Eiffel Tower", score=0.5)
ATTRIBUTE = Evidence("The height of Big Ben is 96 m.", "kg", "Big Ben", score=0.4)


def say(text: str, finish: str = "stop") -> Any:
    return read(GROUNDED, ChatReply(text, finish)).value  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reply", "text", "chunks", "from_photo"),
    [
        ("The tower is 330 m high. [2]", "The tower is 330 m high.", (2,), False),
        ("The sign says STOP [photo].", "The sign says STOP.", (), True),
        ("It is 330 m high [1][3, 4] and red. [photo]", "It is 330 m high and red.", (1, 3, 4), True),
        ("It is 330 m high and red. [photo, 3]", "It is 330 m high and red.", (3,), True),
        ("It is 330 m high.", "It is 330 m high.", (), False),
    ],
)
def test_marks_of_sources_are_read_and_no_part_of_the_answer(
    reply: str, text: str, chunks: tuple[int, ...], from_photo: bool
) -> None:
    said = say(reply)
    assert (said.candidate.text, said.chunks, said.from_photo) == (text, chunks, from_photo)


def test_calculations_are_computed_by_code() -> None:
    said = say("The tower is [[330 - 96.5]] m higher. [1][2]")
    assert (said.candidate.text, said.candidate.origin) == ("The tower is 233.5 m higher.", "computed")
    assert say("It was opened in [[1889 + 20]]. [1]").candidate.text == "It was opened in 1909."
    assert say("Both cost [[1.20 + 2.30]] euros.").candidate.text == "Both cost 3.5 euros."
    assert say("There are [[12]] of them.").candidate.text == "There are 12 of them."
    broken = say("It takes [[a week - 2]] days.")
    assert broken.candidate is None and "a week" in broken.fault


@pytest.mark.parametrize(
    ("reply", "queries"),
    [
        ("search: Big Ben height", ("Big Ben height",)),
        ('Search: "Big Ben height"; Eiffel height; Louvre; a fourth', ("Big Ben height", "Eiffel height", "Louvre")),
        ("search:", ()),
        ("They search: for gold, and found it.", ()),
    ],
)
def test_what_is_missing_is_read_as_queries(reply: str, queries: tuple[str, ...]) -> None:
    assert say(reply).queries == queries


@pytest.mark.parametrize(
    ("reply", "choice"),
    [("A", "A"), (" b.", "B"), ("Answer B", "B"), ("none", "none"), ("Neither", "none"), ("No", "none"), ("Both", None), ("", None)],
)  # fmt: skip
def test_a_choice_is_one_letter_or_none(reply: str, choice: str | None) -> None:
    assert read(CHOICE, ChatReply(reply, "stop")).value.choice == choice


def test_the_probability_of_a_choice_is_against_the_other_choices() -> None:
    probabilities = {"A": 0.6, " A": 0.1, "none": 0.2, "B": 0.1, "The": 0.3}
    chosen = read(CHOICE, ChatReply("A", "stop", first_token_probs=probabilities)).value
    assert chosen.probability == pytest.approx(0.7)
    assert read(CHOICE, ChatReply("A", "stop")).value.probability is None


@pytest.mark.parametrize(
    ("reply", "pages", "part"),
    [
        ("open: [3]", (3,), ""),
        ("Open: 2, 5", (2, 5), ""),
        ("look: the small label.", (), "the small label"),
        ("search: Big Ben\nopen: [1]", (1,), ""),
        ("They open: at nine.", (), ""),
    ],
)
def test_a_request_for_a_page_or_for_a_part_of_the_photo_is_read(reply: str, pages: tuple[int, ...], part: str) -> None:
    said = say(reply)
    assert (said.pages, said.part) == (pages, part)
    assert said.asks_for_more == bool(pages or part) == (said.candidate is None)


PAGES = {"BigBen": "Big Ben height is 96 metres", "Louvre": "The Louvre is a museum in Paris"}


def answer(turns: list[Turn], reply: Callable[[ChatRequest], str | ChatReply], **fields: Any) -> ScriptedChat:
    chat = ScriptedChat(reply)
    table: dict[str, Any] = {
        "stages": ["web_search", "evidence", "two_stage_rerank", "grounded_answer", "finalise"],
        "two_stage_rerank": {"coarse": False},
        "grounded_answer": fields.pop("options", {}),
    }
    pipeline = ScriptedPipeline(fields.pop("entities", {}), fields.pop("pages", PAGES))
    models = {"detector": fields.pop("detector", ScriptedDetector([]))}
    parts = context(settings_from(table), pipeline, chat=chat, fine_reranker=WordOverlapReranker(), **models)
    run(GroundedAnswer, turns, replace(parts, **fields))
    return chat


def ask_for_ben(request: ChatRequest) -> str:
    text = request.messages[-1].content
    if "How high" not in text:
        return "A red car. [photo]"
    return "It is [[330 - 96]] m higher. [1]" if "96 metres" in text else "search: Big Ben height"


def test_what_is_missing_is_searched_for_and_only_those_turns_are_asked_again() -> None:
    high, car = turn("How high is it beside Big Ben?", evidence=(HEIGHT,)), turn("What is this?")
    chat = answer([high, car], ask_for_ben)
    assert chat.batches == [2, 1]
    assert high.candidate is not None and high.candidate.text == "It is 234 m higher."
    assert high.shown[0].title == "BigBen" and HEIGHT in high.shown
    assert car.candidate is not None and (car.candidate.text, car.candidate.origin) == ("A red car.", "photo")
    assert (high.signals["grounded_answer.rounds"].value, car.signals["grounded_answer.rounds"].value) == (1, 0)
    assert (high.searches, car.searches) == (("web",), ())


def test_the_last_round_offers_no_search_and_a_search_in_it_is_a_refusal() -> None:
    lost = turn("How high is it beside Big Ben?", evidence=(HEIGHT,))
    chat = answer([lost], lambda _: "search: the same again")
    assert chat.batches == [1, 1]
    assert lost.candidate == Candidate("I don't know", None)
    first, last = (request.messages[0].content for request in chat.requests)
    assert "search:" in first and "search:" not in last


def test_a_search_finds_nothing_that_the_prompt_showed_and_the_prompt_names_the_queries() -> None:
    """The second search finds the same page first; the page that was not shown takes its place."""
    pages = {"Clock": "Big Ben height is unknown", "BigBen": "Big Ben height was measured at 96 metres"}
    known = Evidence("Big Ben height is unknown", "web", "Clock", "https://p.example/Clock", score=0.9)
    asked = turn("How high is it?", evidence=(known,), queries=("How high is it?",))
    replies = iter(["search: Big Ben height", "It is 96 m high. [1]"])
    chat = answer([asked], lambda _: next(replies), pages=pages)
    assert [chunk.title for chunk in asked.shown] == ["BigBen", "Clock"]
    assert asked.queries == ("How high is it?", "Big Ben height")
    assert 'Searched for already: "How high is it?"' in chat.requests[0].messages[-1].content


def test_what_was_found_first_keeps_its_share_of_the_prompt() -> None:
    """Both of two hops are needed for an answer; three results of the second search left no room for the first."""
    pages = {f"Page{number}": f"Big Ben height note {number} of the survey" for number in range(3)}
    asked = turn("How high is it?", evidence=(HEIGHT, ATTRIBUTE))
    replies = iter(["search: Big Ben height", "I don't know"])
    limits = settings_from({"stages": ["finalise"]}).limits.model_copy(update={"evidence_tokens": 40})
    answer([asked], lambda _: next(replies), pages=pages, limits=limits)
    assert asked.shown[0].title.startswith("Page") and asked.shown[1] == HEIGHT


def test_a_second_round_may_search_for_what_the_first_one_found_out() -> None:
    pages = {"Tower": "Tower architect Lee Wong", "Wong": "Lee Wong born in Macau"}
    hops = turn("Where was its architect born?", evidence=(HEIGHT,))
    replies = iter(["search: Tower architect", "search: Lee Wong born", "In Macau. [1]"])
    chat = answer([hops], lambda _: next(replies), pages=pages, options={"rounds": 2})
    assert chat.batches == [1, 1, 1]
    assert hops.candidate is not None and hops.candidate.text == "In Macau."


def test_a_page_is_opened_around_its_chunk_within_a_share_of_the_budget() -> None:
    before, after = "Old words. " * 400, "New words. " * 400
    page = f"{before}The tower opened in 1889. It cost 12 francs. {after}"
    part = Evidence("The tower opened in 1889.", "web", "Tower", "https://p.example/tower", score=0.5)
    found = WebHit(f"{part.url}_chunk_0", 0.9, "Tower", part.text, part.url, page_text=page)
    asked = turn("What did it cost?", evidence=(part, HEIGHT), web_hits=(found,))
    limits = settings_from({"stages": ["finalise"]}).limits.model_copy(update={"evidence_tokens": 200})

    def ask(request: ChatRequest) -> str:
        return "12 francs. [1]" if "12 francs" in request.messages[-1].content else "open: [1]"

    answer([asked], ask, limits=limits)
    assert asked.candidate is not None and asked.candidate.text == "12 francs."
    assert len(asked.shown[0].text) <= 0.7 * 200 * CHARACTERS_PER_TOKEN
    assert HEIGHT in asked.shown, "an opened page leaves room for the rest"


def test_a_number_that_names_no_page_opens_nothing() -> None:
    lost = turn("q", evidence=(ATTRIBUTE, HEIGHT))
    replies = iter(["open: [1, 2, 9]", "I don't know"])
    chat = answer([lost], lambda _: next(replies))
    assert lost.shown == (ATTRIBUTE, HEIGHT) and chat.batches == [1, 1]


def test_another_part_of_the_photo_is_enlarged_and_searched_for() -> None:
    label = Detection(Box(0, 0, 30, 20), "label", 0.9)
    entities = {(30, 20): ("Red Comet", {"Maker": "Ann Lee"})}
    photo = turn("Who made the thing behind?", (64, 48), evidence=(HEIGHT,))

    def ask(request: ChatRequest) -> str:
        return "Ann Lee. [1]" if "Ann Lee" in request.messages[-1].content else "look: thing behind"

    chat = answer([photo], ask, entities=entities, detector=ScriptedDetector([label]))
    assert photo.candidate is not None and photo.candidate.text == "Ann Lee."
    assert photo.searches == ("image", "web"), "the part, and the facts of what it is most like"
    assert photo.alike[0].name == "Red Comet" and photo.close_ups[0][0] == "thing behind"
    assert 'then parts of it, enlarged: "thing behind"' in chat.requests[1].messages[-1].content


def test_own_knowledge_is_marked_and_offered_only_if_the_option_allows_it() -> None:
    for allowed in (True, False):
        known = turn("q", evidence=(HEIGHT,))
        chat = answer([known], lambda _: "Paris. [own]", options={"own_knowledge": allowed})
        assert ("[own]" in chat.requests[0].messages[0].content) == allowed
        assert known.candidate is not None and (known.candidate.text, known.candidate.origin) == ("Paris.", "own")


@pytest.mark.parametrize("fields", [{"short": True}, {"options": {"rounds": 0}}])
def test_without_time_or_rounds_the_model_is_asked_once(fields: dict[str, Any]) -> None:
    once = turn("How high is it?", evidence=(HEIGHT,))
    chat = answer([once], lambda request: "I don't know", **fields)
    assert chat.batches == [1] and "search:" not in chat.requests[0].messages[0].content


def test_the_origin_is_the_source_that_the_model_names() -> None:
    graph, page, none = (turn(f"q{number}", evidence=(HEIGHT, ATTRIBUTE)) for number in range(3))
    replies = {"q0": "96 m. [2][photo]", "q1": "330 m. [1]", "q2": "330 m. [9]"}
    answer([graph, page, none], lambda request: replies[request.messages[-1].content[-2:]])
    origins = [each.candidate.origin for each in (graph, page, none) if each.candidate is not None]
    assert origins == ["graph", "page", None]


def test_a_failed_call_leaves_no_candidate_and_says_so() -> None:
    failed = turn("q", evidence=(HEIGHT,))
    answer([failed], lambda _: ChatReply("", "error", error="gone"))
    assert (failed.candidate, failed.error) == (None, "grounded_answer: gone")


@pytest.mark.parametrize(("pictures", "images"), [(None, 2), (4, 2), (1, 1)])
def test_a_small_thing_is_shown_enlarged_beside_the_photo_or_on_one_sheet(pictures: int | None, images: int) -> None:
    """``limits.pictures`` decides whether the crop is a picture of its own; a thing that fills the photo needs none."""
    small, large = Detection(Box(0, 0, 100, 100), "object", 0.9), Detection(Box(0, 0, 900, 900), "object", 0.9)
    look = Look("both", (Thing("red car"),), by_model=True)
    near, far = (turn("q", (1000, 1000), look=look, regions=(region,), evidence=(HEIGHT,)) for region in (large, small))
    parts = settings_from({"stages": ["finalise"]}).limits.model_copy(update={"pictures": pictures})
    chat = answer([near, far], lambda _: "Yes. [photo]", limits=parts)
    shown = [request.messages[-1].images for request in chat.requests]
    assert [len(each) for each in shown] == [1, images]
    text = chat.requests[1].messages[-1].content
    assert ("sheet" in text, "red car" in text) == (images == 1, images == 2)
    if images == 2:
        assert shown[1][1].size == (100, 100)


def test_the_graphs_picture_of_the_entity_is_shown_where_the_preset_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Image.new("RGB", (30, 20))
    monkeypatch.setattr(
        SearchGateway, "pictures", lambda self, urls, fetch=False, deadline=None: dict.fromkeys(urls, picture)
    )
    tower = Entity("Eiffel Tower", {})
    views = (View(None, (ImageHit(0, 0.9, "https://i.example/tower", (tower,)),)),)
    shown = turn("q", entity=tower, entity_score=0.9, views=views, evidence=(HEIGHT,))
    chat = answer([shown], lambda _: "Yes. [1]", options={"entity_picture": True})
    assert [each.size for each in chat.requests[0].messages[-1].images] == [(64, 48), (30, 20)]


def test_a_model_that_sees_is_told_what_else_was_found_and_may_search_for_its_facts_by_name() -> None:
    """The photo's nickel looked more like the Moon to picture search: the model names it, and its facts are evidence."""
    nickel = Entity("Nickel (United States coin)", {"Weight": "5.000 g"})
    hits = (ImageHit(0, 0.81, "m", (Entity("Moon", {"Weight": "none"}),)), ImageHit(1, 0.79, "n", (nickel,)))
    views = (View(None, hits),)
    coin = turn("How heavy is it?", entity=hits[0].entities[0], entity_score=0.81, views=views)
    coin.alike = list_alike(coin)

    def ask(request: ChatRequest) -> str:
        text = request.messages[-1].content
        assert 'Less alike, picture search found "Nickel (United States coin)" (0.79)' in text
        return "It weighs 5.000 g. [1]" if "5.000 g" in text else "search: US nickel weight; honeymoon"

    answer([coin], ask)
    assert coin.candidate is not None and coin.candidate.text == "It weighs 5.000 g."
    assert {chunk.title for chunk in coin.shown if chunk.source == "kg"} == {nickel.name}, "a part of a word is no name"
