"""The way of task 2's winner: crops, many short queries and one of names, contexts judged one by one."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image

from agents.base_agent import Message
from agents.evidence.chunks import format_breadcrumb
from agents.models.base import Box, ChatReply, ChatRequest, Detection
from agents.models.vision.boxes import overlap, windows
from agents.papers.nvidia import Relevance
from agents.search.hits import Entity, ImageHit, WebHit
from agents.settings.run_config import RunConfig
from agents.stages import image_search
from agents.stages.answer import Answer
from agents.stages.evidence import EvidenceStage
from agents.stages.image_search import ImageSearch
from agents.stages.queries import Queries
from agents.texts.replies import parse_list
from agents.turn import IDK, Evidence, Turn
from tests.agent.scripted import (
    ScriptedChat,
    ScriptedPipeline,
    WordOverlapReranker,
    context,
    hit,
    run,
    run_stages,
    settings,
    turn,
)

# Crops


class Crops:
    """Notes the sizes of the pictures that are searched; every picture shows the same tower, and one of its own size."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    def __call__(self, query: Image.Image, k: int = 5) -> list[dict[str, Any]]:
        self.sizes.append(query.size)
        name = "x".join(map(str, query.size))
        return [
            {
                "index": 7,
                "score": query.width / 2000,
                "url": "u7",
                "entities": [{"entity_name": "Tower", "entity_attributes": {}}],
            },
            {
                "index": query.width,
                "score": 0.1,
                "url": name,
                "entities": [{"entity_name": name, "entity_attributes": {}}],
            },
        ]


def search_crops(regions: tuple[Detection, ...] = (), **options: Any) -> tuple[Crops, Turn]:
    pipeline = Crops()
    dialog_turn = turn("What is this?", regions=regions)
    # crops that look alike would be searched once
    dialog_turn.image = Image.effect_noise((960, 1280), 60).convert("RGB")
    run(ImageSearch, [dialog_turn], context(settings(image_search=options), pipeline))
    return pipeline, dialog_turn


def test_a_picture_that_all_crops_find_is_one_hit() -> None:
    pipeline, dialog_turn = search_crops(windows=True)
    assert pipeline.sizes == [(960, 1280), *[(960, 960)] * 3]
    assert [(hit.index, round(hit.score, 2)) for hit in dialog_turn.image_hits] == [(7, 0.48), (960, 0.1)]
    assert len(search_crops()[0].sizes) == 1  # off where the preset says nothing


def test_with_windows_duplicate_boxes_are_dropped_and_boxes_come_first() -> None:
    box, alike = Detection(Box(10, 0, 720, 730), "tower", 0.4), Detection(Box(0, 0, 720, 720), "tower", 0.3)
    pipeline, dialog_turn = search_crops((alike, box), windows=True)
    assert pipeline.sizes == [(960, 1280), (710, 730), *[(960, 960)] * 3]
    regions = [view.region for view in dialog_turn.views if view.region is not None]
    assert regions[0] == box and alike not in regions
    assert overlap(box.box, alike.box) > 0.5


@pytest.mark.parametrize(
    ("size", "places"),
    [
        ((960, 1280), [0, 160, 320]),
        ((1280, 960), [0, 160, 320]),
        ((1080, 1920), [0, 420, 840, 756, 648]),  # a stride of 0.9 or 0.8 leads out of it
        ((900, 900), []),
        ((100, 300), [0, 100, 200, 90, 180, 80, 160, 70, 140, 60, 120]),
    ],
)
def test_windows_are_those_of_the_released_code(size: tuple[int, int], places: list[int]) -> None:
    boxes = windows(*size)
    assert [round(max(box.left, box.top)) for box in boxes] == places
    assert all((box.right - box.left, box.bottom - box.top) == (min(size), min(size)) for box in boxes)
    assert all(box.right <= size[0] and box.bottom <= size[1] for box in boxes)


def test_windows_are_searched_though_they_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    box = Detection(Box(10, 0, 720, 730), "tower", 0.4)
    assert search_crops((box,), windows=True)[0].sizes == [(960, 1280), (710, 730), *[(960, 960)] * 3]
    monkeypatch.setattr(image_search, "_MAX_CROPS", 2)
    assert search_crops((box,), windows=True)[0].sizes == [(960, 1280), (710, 730), (960, 960)]


# Queries


@pytest.mark.parametrize(
    ("reply", "items"),
    [
        ("Eiffel Tower height\nEiffel Tower opening year", ["Eiffel Tower height", "Eiffel Tower opening year"]),
        ("Here are the queries:\n1. tower height\n2) tower year\n- tower architect", ["tower height", "tower year", "tower architect"]),
        ('Query 1: "tower height"\nQuery 2: "tower year"', ["tower height", "tower year"]),
        ('**1.** *tower height*\n**Search query:** tower year', ["tower height", "tower year"]),
        ('["tower height", "tower year"]', ["tower height", "tower year"]),
        ('```json\n{"queries": ["tower height", "tower year"]}\n```', ["tower height", "tower year"]),
        ('{"query_1": "tower height", "query_2": "tower year"}', ["tower height", "tower year"]),
        ('[{"query": "tower height"}, {"query": "tower year"}]', ["tower height", "tower year"]),
        ('["tower height", "tower ye', ["tower height", "tower ye"]),
        ("1. tower height 2. tower year 3. tower architect", ["tower height", "tower year", "tower architect"]),
        ("tower height; tower year", ["tower height", "tower year"]),
        ('The queries are "tower height" and "tower year".', ["tower height", "tower year"]),
        ("Tower height\ntower  height\nTOWER HEIGHT", ["Tower height"]),
        ("[1] tower height\n[2] tower year", ["tower height", "tower year"]),
        ("747-8 first flight\n1984 (novel) author", ["747-8 first flight", "1984 (novel) author"]),
        (
            "tower height\nThese queries should help you to find all of the information that you need about the tower in this very photo.",
            ["tower height"],
        ),
        ("", []),
        ("---\n...", []),
        ("[" * 5000, []),
    ],
)  # fmt: skip
def test_lists_are_read_as_models_write_them(reply: str, items: list[str]) -> None:
    assert parse_list(reply, 8) == items


def test_no_more_than_asked_for_and_no_half_query() -> None:
    assert parse_list("a b\nc d\ne f", 2) == ["a b", "c d"]
    assert parse_list("tower height\ntower ye", 8, cut=True) == ["tower height"]
    assert parse_list("tower he", 8, cut=True) == ["tower he"]  # better than none


QUERIES = {
    "split": "model",
    "prompt": "short_queries",
    "keep_question": False,
    "fuse_entity": False,
    "k": 8,
    "names": 0.8,
}


def write_queries(reply: str | ChatReply, hits: tuple[ImageHit, ...], **options: Any) -> tuple[ScriptedChat, Turn]:
    chat = ScriptedChat(lambda _: reply)
    dialog_turn = turn("How tall is this?", image_hits=hits)
    run(Queries, [dialog_turn], context(settings(queries={**QUERIES, **options}), chat=chat))
    return chat, dialog_turn


def test_several_queries_of_one_reply_and_one_of_all_names_above_the_cut() -> None:
    hits = (hit("Eiffel Tower", 0.9), hit("Tokyo Tower", 0.8, 1), hit("Big Ben", 0.79, 2), hit("Eiffel Tower", 0.85, 3))
    chat, dialog_turn = write_queries("tower height\ntower builder", hits)
    assert dialog_turn.queries == ("tower height", "tower builder", "Eiffel Tower, Tokyo Tower : How tall is this?")
    (request,) = chat.requests
    assert "took the photo to show: Eiffel Tower, Tokyo Tower." in request.messages[-1].content
    assert "up to 8 different" in request.messages[-1].content and len(request.messages[-1].images) == 1


def test_the_query_of_names_is_added_only_if_an_entity_is_recognised() -> None:
    eight = "\n".join(f"query number {word}" for word in "abcdefghij")
    assert len(write_queries(eight, (hit("Big Ben", 0.9),))[1].queries) == 9
    assert len(write_queries(eight, (hit("Big Ben", 0.5),))[1].queries) == 8
    again = write_queries("big ben : how tall is this", (hit("Big Ben", 0.9),))[1]
    assert again.queries == ("big ben : how tall is this",)  # not twice
    five = tuple(hit(name, 0.9 - index / 100) for index, name in enumerate("ABCDE"))
    assert write_queries("tower", five)[1].queries[-1] == "A, B, C, D : How tall is this?"


def test_without_a_reply_the_question_is_searched_for() -> None:
    failed = ChatReply("", "error", error="boom")
    assert write_queries(failed, ())[1].queries == ("How tall is this?",)
    assert write_queries(failed, (hit("Big Ben", 0.9),), names=None)[1].queries == ("How tall is this?",)


# Contexts


def chunk(text: str) -> Evidence:
    return Evidence(text, "web", "T", retrieval=0.5)


def judge_contexts(
    texts: dict[str, float | None], size: tuple[int, int] = (64, 48), **options: Any
) -> tuple[ScriptedChat, list[str]]:
    """Each text with the P(yes) that its reply has; None for a reply without probabilities that says neither."""

    def say(request: ChatRequest) -> ChatReply:
        text = request.messages[-1].content.split('"T": "')[1].split('"')[0]
        probability = texts[text]
        if probability is None:
            return ChatReply("maybe", "stop")
        return ChatReply("yes", "stop", first_token_probs={"Yes": probability, "No": 1 - probability})

    chat = ScriptedChat(say)
    dialog_turn = turn("How tall?", size, evidence=tuple(chunk(text) for text in texts))
    run(Relevance, [dialog_turn], context(settings(relevance=options), chat=chat))
    return chat, [each.text for each in dialog_turn.evidence or ()]


WINNER = {"threshold": 0.6, "k_least": 4}


def test_contexts_are_kept_by_the_models_yes_best_first_with_the_picture() -> None:
    chat, contexts = judge_contexts({"a": 0.2, "b": 0.9, "c": 0.6, "d": 0.59}, (960, 1280), **WINNER)
    assert contexts == ["b", "c"]
    assert chat.batches == [4] and all(len(request.messages[-1].images) == 1 for request in chat.requests)


def test_photos_of_other_cameras_keep_at_least_four_and_no_photo_more_than_eight() -> None:
    weak = {name: 0.1 + index / 100 for index, name in enumerate("abcdef")}
    assert judge_contexts(weak, **WINNER)[1] == ["f", "e", "d", "c"]
    assert judge_contexts(weak, (960, 1280), **WINNER)[1] == []
    strong = {name: 0.7 + index / 100 for index, name in enumerate("abcdefghij")}
    assert judge_contexts(strong, **WINNER)[1] == list("jihgfedc")


def test_without_probabilities_the_word_of_a_reply_counts_and_another_reply_is_ignored() -> None:
    assert judge_contexts({"a": None, "b": 0.7}, k_least=2)[1] == ["b"]
    assert judge_contexts({"a": None, "b": None})[1] == ["a", "b"]  # nothing was judged: the ranking stays


def test_only_pictures_above_the_cut_are_context() -> None:
    hits = tuple(
        hit(name, score, height="9 m")
        for name, score in (("Eiffel Tower", 0.9), ("Tokyo Tower", 0.8), ("Big Ben", 0.7))
    )
    dialog_turn = turn("How tall?", image_hits=hits, entity=hits[0].entities[0])
    run(EvidenceStage, [dialog_turn], context(settings(evidence={"k_entities": 30, "min_score": 0.725})))
    assert [each.title for each in dialog_turn.evidence] == ["Eiffel Tower", "Tokyo Tower"]
    run(EvidenceStage, [dialog_turn], context(settings(evidence={"k_entities": 30, "min_score": 0.95})))
    assert [each.title for each in dialog_turn.evidence] == ["Eiffel Tower"]  # the best one in any case


def test_a_context_is_a_whole_snippet_with_its_place_or_a_whole_entity() -> None:
    tower = Entity("Eiffel Tower", {"height": "330 m", "opened": "1889"})
    snippet = "The tower is high.\n\n" + "It was built long ago. " * 60
    dialog_turn = turn("How tall?", image_hits=(ImageHit(1, 0.9, "u", (tower,)),), entity=tower)
    dialog_turn.web_hits = (
        WebHit("i", 0.5, "Eiffel Tower", snippet, "https://www.example.com/paris/towers/eiffel.html"),
    )
    preset_settings = RunConfig.read("context_gate", "gpu").settings
    run(EvidenceStage, [dialog_turn], context(preset_settings))
    entity, page = dialog_turn.evidence
    assert entity.text == "The height of Eiffel Tower is 330 m. The opened of Eiffel Tower is 1889."
    assert page.title == "example > paris > towers > eiffel: Eiffel Tower" and page.text == snippet


@pytest.mark.parametrize(
    ("url", "crumbs"),
    [
        ("https://en.wikipedia.org/wiki/Eiffel_Tower?x=1#top", "en.wikipedia.org > wiki > Eiffel_Tower"),
        ("https://www.example.com", "example"),
        ("https://example.net/a//b.c.html", "example.net > a > b.c"),
        ("given:3", ""),
        ("https://[broken", ""),
        ("https://e.org/<|eot_id|>", "e.org > "),
        ("", ""),
    ],
)
def test_breadcrumbs(url: str, crumbs: str) -> None:
    assert format_breadcrumb(url).strip() == crumbs.strip()


@pytest.mark.parametrize(("doubt", "answer"), [(0.16, "It is 31 metres tall."), (0.17, IDK)])
def test_the_preset_from_end_to_end(doubt: float, answer: str) -> None:
    """Queries of the model find the page, the model's yes keeps it, and the first token of the answer decides."""

    def say(request: ChatRequest) -> ChatReply:
        system = request.messages[0].content
        if "search queries" in system:
            return ChatReply("1. lighthouse height\n2. lighthouse builder", "stop")
        if "helps to answer" in system:
            yes = 0.9 if "31 metres" in request.messages[-1].content else 0.1
            return ChatReply("yes", "stop", first_token_probs={"yes": yes, "no": 1 - yes})
        return ChatReply("It is 31 metres tall.", "stop", (-0.1,), first_token_probs={"It": 1 - doubt, "I": doubt})

    pages = {"Lighthouse": "The lighthouse height is 31 metres.", "Soup": "Soup is hot. The builder likes it."}
    pipeline = ScriptedPipeline({(96, 64): ("Lighthouse of Cape", {"height": "31 metres"})}, pages)
    dialog_turn = turn("How tall is this?", (96, 64))
    preset_settings = RunConfig.read("context_gate", "gpu_tuned").settings
    run_stages(
        [dialog_turn], context(preset_settings, pipeline, chat=ScriptedChat(say), reranker=WordOverlapReranker())
    )
    assert dialog_turn.error is None and dialog_turn.answer == answer
    queries = [query for query in pipeline.queries if isinstance(query, str)]
    assert queries == ["lighthouse height", "lighthouse builder", "Lighthouse of Cape : How tall is this?"]
    assert dialog_turn.shown[0].score == pytest.approx(0.9)


def test_the_judge_reads_the_dialog_and_the_answering_model_the_users_questions_alone() -> None:
    prompts: dict[str, str] = {}

    def say(request: ChatRequest) -> str:
        system = request.messages[0].content
        prompts["judge" if "helps to answer" in system else "answer"] = request.messages[-1].content
        return "yes"

    history: tuple[Message, ...] = (
        {"role": "user", "content": "What is it?"},
        {"role": "assistant", "content": "A tower."},
    )
    dialog_turn = turn("How tall is it?", history=history, evidence=(chunk("It is 31 metres tall."),))
    preset_settings = RunConfig.read("context_gate", "gpu").settings
    run_stages([dialog_turn], context(preset_settings, chat=ScriptedChat(say)), Relevance, Answer)
    assert "user: What is it?" in prompts["judge"] and "assistant: A tower." in prompts["judge"]
    assert "1. What is it?" in prompts["answer"] and "A tower." not in prompts["answer"]
