"""What each stage fills, what it skips, and how often it calls a model for a batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agents.asking.readers.answers import read_candidate
from agents.asking.readers.drafts import parse_draft
from agents.decision.signals import read_signals
from agents.methods.ranking import multiply_scores
from agents.models.base import Box, ChatReply, ChatRequest, Detection, FloatArray, Mask
from agents.models.vision.boxes import crop
from agents.papers.cruise import DualAnswer
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile
from agents.search.hits import Entity, ImageHit, WebHit
from agents.search.retrieved import safe_page
from agents.stage import Stage
from agents.stages.answer import Answer
from agents.stages.evidence import EvidenceStage
from agents.stages.finalise import Finalise
from agents.stages.ground import Ground
from agents.stages.image_search import ImageSearch
from agents.stages.objects import Objects
from agents.stages.queries import Queries
from agents.stages.rerank import Rerank
from agents.stages.select_entity import SelectEntity
from agents.stages.tools import ToolRouter
from agents.stages.two_stage_rerank import TwoStageRerank
from agents.stages.understand import Understand
from agents.stages.verify import Verify
from agents.stages.web_search import WebSearch
from agents.turn import IDK, Candidate, Draft, Evidence, Look, Target, Thing, Tools, Turn, Verification, View
from tests.agent.scripted import (
    ScriptedChat,
    ScriptedDetector,
    ScriptedPipeline,
    ScriptedReranker,
    WordOverlapReranker,
    context,
    hit,
    run,
    run_stages,
    settings,
    turn,
)

TOWER = ("Eiffel Tower", {"height": "{{convert|330|m|ft}}", "architect": "[[Stephen Sauvestre]]", "lifts": None})
PIPELINE = {(64, 48): TOWER, (32, 32): ("Big Ben", {"height": "96 m"})}
PAGES = {"Eiffel": "the tower is repainted every seven years", "Soup": "soup is hot"}


def evidence(text: str, score: float | None = None, **fields: object) -> Evidence:
    return Evidence(text, "kg", "title", score=score, **fields)  # type: ignore[arg-type]


def test_understand_asks_a_model_only_where_the_rules_are_unsure() -> None:
    chat = ScriptedChat(lambda _: "Where was Gustave Eiffel born?\nrest")
    lost = turn(
        "Where was he born?",
        history=({"role": "user", "content": "who?"}, {"role": "assistant", "content": "i do not know"}),
    )
    plain = turn("How tall is this?")
    run(Understand, [lost, plain], context(settings(understand={"rewrite": "model"}), chat=chat))
    assert chat.batches == [1]
    assert lost.question == "Where was Gustave Eiffel born?"
    assert plain.question == "How tall is this?"


@pytest.mark.parametrize(
    ("rewritten", "size", "needs_image"),
    [
        ("How tall is this structure?", (64, 48), True),
        ("How tall is this structure?", None, False),
        ("How tall is the Eiffel Tower?", (64, 48), False),
    ],
)
def test_a_rewritten_question_that_points_needs_the_picture_again(
    rewritten: str, size: tuple[int, int] | None, needs_image: bool
) -> None:
    contents = ("Who designed this?", "Gustave Eiffel.", "When was he born?", "In 1832.")
    history = tuple(
        {"role": ("user", "assistant")[index % 2], "content": content} for index, content in enumerate(contents)
    )
    dialog_turn = turn("How tall is the structure?", size, history=history)
    run(
        Understand,
        [dialog_turn],
        context(settings(understand={"rewrite": "model"}), chat=ScriptedChat(lambda _: rewritten)),
    )
    assert (dialog_turn.question, dialog_turn.needs_image) == (rewritten, needs_image)


def test_a_question_without_a_picture_stands_alone_unless_it_points_at_something() -> None:
    chat = ScriptedChat(lambda _: "How much is a ticket for children?")
    history = ({"role": "user", "content": "How much is a ticket?"}, {"role": "assistant", "content": "11.50 euros"})
    ticket, pointing, later = (
        turn("How much is a ticket?", None),
        turn("How tall is this?", None),
        turn("And for children?", None, history=history),
    )
    unreadable = turn("How much is a ticket?", None)
    unreadable.error = "image: ValueError: broken"
    run(
        Understand, [ticket, pointing, later, unreadable], context(settings(understand={"rewrite": "model"}), chat=chat)
    )
    assert [each.needs_image for each in (ticket, pointing, later, unreadable)] == [False, True, False, True]
    assert (ticket.question, later.question) == ("How much is a ticket?", "How much is a ticket for children?")
    assert chat.batches == [1]
    assert "no_entity" in read_signals(ticket) and read_signals(ticket)["no_entity"] == 0.0
    ticket.queries = ("How much is a ticket?",)
    assert "entity_named" not in read_signals(ticket), "an unnamed entity says nothing of a question without a picture"


@pytest.mark.parametrize(
    "reply_text",
    [
        "I don't know.",
        "I don't know",
        "I'm sorry, but I can't tell which man is meant.",
        "",
        "...",
        "Where he was born is not mentioned in the conversation.",
    ],
)
def test_a_reply_that_is_no_question_leaves_the_question_as_it_was(reply_text: str) -> None:
    question = "Where was he born?"
    lost = turn(
        question, history=({"role": "user", "content": "who?"}, {"role": "assistant", "content": "i do not know"})
    )
    run(Understand, [lost], context(settings(understand={"rewrite": "model"}), chat=ScriptedChat(lambda _: reply_text)))
    assert lost.question == question


def test_image_search_names_the_entity_of_the_best_hit_above_the_threshold() -> None:
    tower, unknown, text_only = turn("a"), turn("b", (10, 10)), turn("c", None)
    run(ImageSearch, [tower, unknown, text_only], context(settings(), ScriptedPipeline(PIPELINE, PAGES)))
    assert tower.entity is not None
    assert (tower.entity.name, tower.entity_score) == ("Eiffel Tower", 0.9)
    assert unknown.entity is None
    assert text_only.views == ()
    strict = turn("a")
    run(ImageSearch, [strict], context(settings(image_search={"min_score": 0.95}), ScriptedPipeline(PIPELINE, PAGES)))
    assert strict.entity is None
    assert strict.image_hits


def test_image_search_searches_the_image_and_every_crop_and_keeps_each_picture_once() -> None:
    pipeline = ScriptedPipeline(PIPELINE, PAGES)
    dialog_turn = turn(
        "a", regions=(Detection(Box(0, 0, 32, 32), "clock", 0.9), Detection(Box(10, 10, 42, 42), "clock", 0.8))
    )
    run(ImageSearch, [dialog_turn], context(settings(), pipeline))
    assert [query.size for query in pipeline.queries] == [
        (64, 48),
        (32, 32),
    ]  # the two crops hold the same pixels: asked once
    assert dialog_turn.searches == ("image",), "one search, however many crops"
    assert [view.hits[0].entities[0].name for view in dialog_turn.views] == ["Eiffel Tower", "Big Ben", "Big Ben"]
    assert sorted(hit.entities[0].name for hit in dialog_turn.image_hits) == ["Big Ben", "Eiffel Tower"]


def test_ground_keeps_several_boxes_of_one_name_and_drops_useless_ones() -> None:
    detector = ScriptedDetector(
        [
            Detection(Box(0, 0, 200, 200), "car", 0.9),
            Detection(Box(300, 0, 500, 200), "car", 0.8),
            Detection(Box(0, 0, 10, 10), "car", 0.7),
            Detection(Box(0, 0, 640, 480), "car", 0.99),
        ]
    )
    image_turn, plain_turn = turn("Which car?", (640, 480)), turn("x", (640, 480), tools=Tools(image=False))
    run(Ground, [image_turn, plain_turn], context(settings(), detector=detector))
    assert [region.score for region in image_turn.regions] == [0.9, 0.8]
    assert plain_turn.regions == ()
    assert detector.calls == 1


def ground_drawn(*things: Thing, detector: ScriptedDetector, size: tuple[int, int] = (640, 480)) -> list[Detection]:
    looked = turn("Which car?", size, look=Look("both", things, by_model=True))
    run(Ground, [looked], context(settings(), detector=detector))
    return list(looked.regions)


def test_things_that_the_look_drew_are_boxed_by_it_and_the_detector_is_asked_for_the_others() -> None:
    car, van = Thing("red car", box=Box(100, 100, 300, 300)), Thing("van")
    found = [Detection(Box(110, 100, 310, 300), "van", 0.9), Detection(Box(400, 0, 600, 200), "van", 0.8)]
    detector = ScriptedDetector(found)
    (region,) = ground_drawn(car, detector=detector)
    assert detector.calls == 0 and region.box == Box(90, 90, 310, 310), "padded"
    both = ground_drawn(car, van, detector=detector)
    assert [each.phrase for each in both] == ["red car", "van"] and detector.phrases == [("van",)]
    assert both[1].box.left == 390, "the other box is the car's"
    assert [each.phrase for each in ground_drawn(van, detector=detector)] == ["van", "van"]


def test_a_thing_that_fills_the_photo_is_searched_with_it_alone() -> None:
    detector = ScriptedDetector([Detection(Box(0, 0, 200, 200), "wall", 0.9)])
    assert ground_drawn(Thing("fort", box=Box(0, 10, 640, 470)), detector=detector) == [] and detector.calls == 0


def test_a_photo_is_looked_at_once_for_all_turns_of_a_dialog() -> None:
    detector, segmenter = ScriptedDetector([Detection(Box(0, 0, 200, 200), "car", 0.9)]), HalfSegmenter()
    parts = context(settings(ground={"masks": True}), detector=detector, segmenter=segmenter)
    stage = Ground(parts.settings.options(Ground))
    turns = [turn(question, (640, 480)) for question in ("Which car?", "How fast is it?", "Who built it?")]
    for each in turns:
        stage.run([each], parts)
    assert detector.calls == segmenter.calls == 1
    assert turns[0].regions == turns[2].regions and turns[2].regions[0].mask is not None
    stage.run([turn("Which car?", (320, 240))], parts)
    assert detector.calls == segmenter.calls == 2


class HalfSegmenter:
    """Of every box the left half of the image is the object."""

    name = "half"
    calls = 0

    def segment(self, images: Sequence[Image.Image], boxes: Sequence[Sequence[Box]]) -> list[list[Mask]]:
        self.calls += 1
        return [
            [np.tile(np.arange(image.width) < image.width / 2, (image.height, 1))] * len(own)
            for image, own in zip(images, boxes, strict=True)
        ]


def test_only_what_a_mask_holds_is_searched() -> None:
    """The box spans the middle: what is right of it is grey in the crop that is searched."""
    detector, segmenter = ScriptedDetector([Detection(Box(200, 100, 440, 300), "car", 0.9)]), HalfSegmenter()
    for masks, right in ((False, (255, 255, 255)), (True, (128, 128, 128))):
        turns = [Turn(f"Which car is {number}?", Image.new("RGB", (640, 480), "white")) for number in range(2)]
        run_settings = settings(ground={"masks": masks})
        pipeline = ScriptedPipeline(PIPELINE, PAGES)
        run(Ground, turns, context(run_settings, detector=detector, segmenter=segmenter))
        run(ImageSearch, turns, context(run_settings, pipeline))
        (region,) = turns[0].regions
        assert (region.mask is not None) is masks
        cut = pipeline.queries[-1]
        assert cut.getpixel((20, 50)) == (255, 255, 255) and cut.getpixel((cut.width - 20, 50)) == right
    assert segmenter.calls == 1  # for both turns


@pytest.mark.parametrize(
    ("size", "segmented"), [((960, 1280), (960, 1280)), ((1600, 1200), (1600, 1200)), ((4000, 3000), (1600, 1200))]
)
def test_a_large_photo_is_segmented_on_a_copy_and_searched_at_full_size(
    size: tuple[int, int], segmented: tuple[int, int]
) -> None:
    """The box spans the middle, and the left half of the image is the object."""
    width, height = size
    box = Box(width * 0.3, height * 0.2, width * 0.7, height * 0.6)
    detector = ScriptedDetector([Detection(box, "car", 0.9)])
    photo = Image.new("RGB", size, "white")
    dialog_turn = Turn("Which car?", photo)
    pipeline = ScriptedPipeline(PIPELINE, PAGES)
    about = context(settings(ground={"masks": True}), pipeline, detector=detector, segmenter=HalfSegmenter())
    run(Ground, [dialog_turn], about)
    run(ImageSearch, [dialog_turn], about)
    (region,) = dialog_turn.regions
    assert region.mask is not None and region.mask.shape == segmented[::-1]
    plain, alone = pipeline.queries[-2:]
    assert alone.size == plain.size == crop(photo, region.box).size
    middle = width // 2 - int(region.box.left)
    assert [alone.getpixel((middle + beside, 9)) for beside in (-4, 4)] == [(255, 255, 255), (128, 128, 128)]


class GreyOrNot:
    """A search that finds other pictures where the upper right corner is grey, as in a crop that shows an object alone."""

    def __init__(self, plain: dict[str, float], alone: dict[str, float]) -> None:
        self.plain, self.alone = plain, alone

    def __call__(self, query: Image.Image, k: int = 5) -> list[dict[str, object]]:
        scores = self.alone if query.getpixel((query.width - 1, 0)) == (128, 128, 128) else self.plain
        return [
            {"index": ord(name), "score": score, "url": name, "entities": [{"entity_name": name}]}
            for name, score in scores.items()
        ]


def test_a_picture_counts_by_the_mean_of_crop_and_object() -> None:
    region = Detection(Box(0, 0, 64, 48), "x", 0.9, np.tile(np.arange(64) < 32, (48, 1)))
    dialog_turn = turn("a", regions=(region,))
    search = GreyOrNot({"a": 0.9, "b": 0.8, "c": 0.5}, {"b": 0.9, "d": 0.8, "a": 0.6})
    run(ImageSearch, [dialog_turn], context(settings(image_search={"k": 3}), search))
    whole, crop = dialog_turn.views
    assert [(hit.url, hit.score) for hit in whole.hits] == [("a", 0.9), ("b", 0.8), ("c", 0.5)]
    assert [(hit.url, round(hit.score, 3)) for hit in crop.hits] == [("b", 0.85), ("a", 0.75), ("d", 0.65)]
    assert crop.region is region


def views() -> tuple[View, ...]:
    left, right = Detection(Box(0, 0, 20, 20), "x", 0.9), Detection(Box(40, 0, 60, 20), "x", 0.8)
    return (
        View(None, (hit("scene", 0.5, kind="scene"),)),
        View(left, (hit("lion", 0.8, 1, kind="lion"),)),
        View(right, (hit("violin", 0.7, 2, kind="violin"),)),
    )


def test_a_small_crop_has_to_be_more_alike_than_a_large_one() -> None:
    """The crop of a twelfth of the picture leads by a cosine of 0.02."""
    large, small = Detection(Box(0, 0, 64, 24), "x", 0.9), Detection(Box(0, 32, 16, 48), "x", 0.8)
    for weight, entity_name in ((0.0, "violin"), (0.015, "lion")):
        dialog_turn = turn("Who made this?")
        dialog_turn.views = (View(large, (hit("lion", 0.80, 1),)), View(small, (hit("violin", 0.82, 2),)))
        run_settings = settings(select_entity={"word_weight": 0.0, "size_weight": weight})
        run(SelectEntity, [dialog_turn], context(run_settings, text_encoder=LetterEncoder()))
        assert dialog_turn.entity is not None and dialog_turn.entity.name == entity_name
    assert dialog_turn.entity_score == 0.80


class LetterEncoder:
    """Embeds a text as the counts of its letters: alike texts have alike letters."""

    name = "letters"

    def encode(self, texts):  # type: ignore[no-untyped-def]
        import numpy as np

        rows = np.array(
            [[text.lower().count(chr(97 + i)) + 1e-6 for i in range(26)] for text in texts], dtype=np.float32
        )
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (Target(("violin",), "violin"), "violin"),
        (Target(("lion",), "lion"), "lion"),
        (Target(position="right"), "violin"),
    ],
)
def test_rules_choose_the_entity_by_words_and_place(target: Target, name: str) -> None:
    dialog_turn = turn("What is this?", (64, 48), views=views(), target=target)
    run(
        SelectEntity, [dialog_turn], context(settings(select_entity={"word_weight": 2.0}), text_encoder=LetterEncoder())
    )
    assert dialog_turn.entity is not None
    assert dialog_turn.entity.name == name


def test_the_crop_at_the_position_wins_over_a_more_similar_crop() -> None:
    """Two instruments alike: the left crop is nearer to both pictures than the right one is to either."""
    _, (left, _), (right, _) = ((view.region, view.hits) for view in views())
    object_views = (
        View(None, (hit("lute", 0.3),)),
        View(left, (hit("lute", 0.8), hit("violin", 0.7))),
        View(right, (hit("violin", 0.5), hit("lute", 0.4), hit("cat", 0.1))),
    )
    dialog_turn = turn(
        "How old is the one on the right?",
        (64, 48),
        views=object_views,
        regions=(left, right),
        target=Target(position="right"),
    )
    run(
        SelectEntity, [dialog_turn], context(settings(select_entity={"word_weight": 0.0}), text_encoder=LetterEncoder())
    )
    assert (dialog_turn.entity_name, dialog_turn.entity_score) == ("violin", 0.5)


@pytest.mark.parametrize(("minimum", "name"), [(0.725, "lion"), (0.9, None)])
def test_none_is_an_answer_of_the_rules_too(minimum: float, name: str | None) -> None:
    """However well words and place speak for a candidate, a picture that is too unlike shows something else."""
    dialog_turn = turn("Which lion is on the left?", views=views(), target=Target(("lion",), "lion", "left"))
    dialog_turn.entity, dialog_turn.entity_score, dialog_turn.image_hits = Entity("scene"), 0.5, views()[0].hits
    run(
        SelectEntity,
        [dialog_turn],
        context(settings(select_entity={"min_score": minimum}), text_encoder=LetterEncoder()),
    )
    assert dialog_turn.entity_name == name
    assert dialog_turn.entity_score == (0.8 if name else 0.0)
    run(EvidenceStage, [dialog_turn], context(settings()))
    assert bool(dialog_turn.evidence) is (name is not None)  # and nothing of it becomes evidence


@pytest.mark.parametrize(
    ("reply", "name"), [('{"entity": 2}', "violin"), ('{"entity": 0}', None), ('{"entity": 9}', None), ("eh", None)]
)
def test_a_model_confirms_one_entity_or_none(reply: str, name: str | None) -> None:
    dialog_turn = turn("What is this?", views=views(), entity=Entity("scene"))
    chat = ScriptedChat(lambda _: reply)
    run(SelectEntity, [dialog_turn], context(settings(select_entity={"by": "model"}), chat=chat))
    assert (dialog_turn.entity.name if dialog_turn.entity else None) == name


def test_objects_are_listed_and_chosen_in_two_calls_for_a_batch() -> None:
    def say(request: ChatRequest) -> str:
        listing = "object_list" in request.messages[-1].content
        return '{"object_list": ["Car", "a very long object name", "tree"]}' if listing else '{"object": "red car"}'

    chat = ScriptedChat(say)
    batch = [turn("How fast is this car?") for _ in range(16)]
    run(Objects, batch, context(settings(objects={"by": "model"}), chat=chat))
    assert chat.batches == [16, 16]
    assert batch[0].target == Target(("car", "tree"), "red car", None, "vehicle")


def test_tools_follow_the_draft_the_domain_and_the_kind_of_question() -> None:
    named = turn("How old is it?", draft=Draft(("1.",), "BMW M4", "I don't know"))
    plant = turn("What is this?", domain="plants and gardening")
    translation = turn("Translate this sign into English")
    unknown = turn("What is this?", domain="vehicle")
    direct = turn("What does it say?", route="direct")
    verified = turn("When was it built?", route="verify", draft=Draft(("It is the Eiffel Tower.",), None, "1889"))
    turns = [named, plant, translation, unknown, direct, verified]
    run(ToolRouter, turns, context(settings()))
    assert [item.tools for item in turns] == [
        Tools(False, True),
        Tools(False, True),
        Tools(False, False),
        Tools(True, True),
        Tools(False, False),
        Tools(False, True),
    ]


def test_the_model_decides_on_tools_where_it_keeps_to_the_schema() -> None:
    replies = iter(['{"need_image_search": false, "need_text_search": true}', '{"need_image_search": "maybe"}'])
    chat = ScriptedChat(lambda _: next(replies))
    first, second = turn("a", domain="vehicle"), turn("b", domain="vehicle")
    run(ToolRouter, [first, second], context(settings(tools={"by": "model"}), chat=chat))
    assert (first.tools, second.tools) == (Tools(False, True), Tools(True, True))


def test_a_draft_is_read_from_steps_and_from_json() -> None:
    text = "1. The exact name of the object that the question is about is Eiffel Tower.\n2. It is tall.\nAnswer: 330 m."
    draft = parse_draft(ChatReply(text, "stop"), 5)
    assert (draft.object_name, draft.answer, len(draft.steps)) == ("Eiffel Tower", "330 m.", 2)
    assert parse_draft(ChatReply('1. I see a cat.\n{"answer": "a cat"}', "stop"), 5).answer == "a cat"
    unknown = parse_draft(ChatReply("1. I cannot determine the model that the question is about.", "stop"), 5)
    assert (unknown.object_name, unknown.answer) == (None, IDK)
    assert parse_draft(ChatReply("", "stop"), 5).answer == IDK


def test_queries_are_fused_split_and_unique() -> None:
    entity = Entity("Eiffel Tower", {"architect": "Stephen Sauvestre"})
    by_rules = turn("When did the architect of this die?", entity=entity)
    run(Queries, [by_rules], context(settings(queries={"split": "rules"})))
    assert by_rules.queries == ("When did the architect of this die? (Eiffel Tower)", "When did Stephen Sauvestre die?")
    chat = ScriptedChat(
        lambda _: (
            '{"queries": ["architect of Eiffel Tower", "Architect of eiffel tower?", "death of Stephen Sauvestre"]}'
        )
    )
    batch = [turn("When did the architect of this die?", entity=entity) for _ in range(3)]
    run(Queries, batch, context(settings(queries={"split": "model", "k": 3}), chat=chat))
    assert chat.batches == [3]
    assert batch[0].queries[1:] == ("architect of Eiffel Tower", "death of Stephen Sauvestre")


@pytest.mark.parametrize(("cosine", "sure"), [(0.81, True), (0.8, True), (0.79, False)])
def test_an_entity_is_taken_for_sure_in_queries_from_a_cosine_on(cosine: float, sure: bool) -> None:
    """Below it no hop goes through it and the model that splits is not told of it; the question is searched with its name all the same."""
    tower = Entity("Eiffel Tower", {"architect": "Stephen Sauvestre"})
    dialog_turn = turn("When did the architect of this die?", entity=tower, entity_score=cosine)
    run(Queries, [dialog_turn], context(settings(queries={"split": "rules", "min_score": 0.8})))
    hops = ("When did Stephen Sauvestre die?",) if sure else ()
    assert dialog_turn.queries == ("When did the architect of this die? (Eiffel Tower)", *hops)
    chat = ScriptedChat(lambda _: '{"queries": ["death of its architect"]}')
    run(Queries, [dialog_turn], context(settings(queries={"split": "model", "min_score": 0.8}), chat=chat))
    assert ("Eiffel Tower" in "".join(message.content for message in chat.requests[0].messages)) is sure
    assert dialog_turn.grounded_question == "When did the architect of this die? (Eiffel Tower)"


def test_of_several_entities_only_the_sure_ones_are_named_in_queries() -> None:
    pictures = (hit("Lion", 0.85), hit("Tiger", 0.75))
    lion, tiger = (picture.entities[0] for picture in pictures)
    dialog_turn = turn("Which of these two is heavier?", entity=lion, entity_score=0.85, entities=(lion, tiger))
    dialog_turn.views = (View(None, pictures),)
    run(Queries, [dialog_turn], context(settings(queries={"min_score": 0.8})))
    assert dialog_turn.queries == ("Which of these two is heavier? (Lion)",)


def test_web_search_merges_the_pages_of_all_queries() -> None:
    dialog_turn = turn("a", queries=("tower repainted", "every seven years"))
    untouched = turn("b", queries=("soup",), tools=Tools(text=False))
    pipeline = ScriptedPipeline({}, PAGES)
    run(WebSearch, [dialog_turn, untouched], context(settings(), pipeline))
    assert [page.page_name for page in dialog_turn.web_hits] == ["Eiffel", "Soup"]
    assert dialog_turn.web_hits[0].score == pytest.approx(0.3)
    assert untouched.web_hits == ()


def test_evidence_is_attributes_and_pages() -> None:
    dialog_turn = turn("a")
    dialog_turn.image_hits = (ImageHit(0, 0.8, "u", (Entity(*TOWER),)),)
    dialog_turn.entity = dialog_turn.image_hits[0].entities[0]
    page = WebHit("w_chunk_0", 0.5, "Page &amp; more", "First.&nbsp;Second <|eot_id|>", "https://w.example")
    dialog_turn.web_hits = (safe_page(page),)  # as the gateway gives it
    run(EvidenceStage, [dialog_turn], context(settings()))
    assert [(chunk.source, chunk.text) for chunk in dialog_turn.evidence] == [
        ("kg", "The height of Eiffel Tower is 330 m."),
        ("kg", "The architect of Eiffel Tower is Stephen Sauvestre."),
        ("web", "First. Second"),
    ]
    assert dialog_turn.evidence[2].title == "Page & more"


@pytest.mark.parametrize(
    ("is_sure", "names", "text"),
    [
        (True, ("Old Mill",), "This is Old Mill. Height: 12 m."),
        (True, ("Old Mill", "Mill Pond"), "This is Old Mill, Mill Pond. Height: 12 m."),
        (False, ("Old Mill",), "Height: 12 m."),
    ],
)
def test_what_is_surely_recognised_is_said_in_the_passage_of_its_attributes(
    is_sure: bool, names: tuple[str, ...], text: str
) -> None:
    """ "What is this?" was declined though picture search was sure: the name was told beside the evidence, not in it."""
    dialog_turn = turn("What is this?")
    entities = tuple(Entity(name, {"height": "12 m"} if name == "Old Mill" else {}) for name in names)
    dialog_turn.image_hits = (ImageHit(0, 0.9, "u", entities),)
    dialog_turn.entity, dialog_turn.sure_entities = entities[0], entities[:is_sure]
    table = {"attribute_chunks": "ranked", "names": True}
    chat = ScriptedChat(lambda _: "Old Mill")
    run_stages([dialog_turn], context(settings(evidence=table), chat=chat), EvidenceStage, Answer)
    assert [(chunk.title, chunk.text) for chunk in dialog_turn.shown] == [("Old Mill", text)]


@pytest.mark.parametrize(("is_sure", "text"), [(True, "This is Old Mill."), (False, "Old Mill.")])
def test_all_attributes_of_a_thing_are_one_passage_shown_once(is_sure: bool, text: str) -> None:
    """Eight of sixteen chunks of a prompt were "The opened of X is 3 May 1970."; its text may be found among the pages too."""
    entity = Entity("Old Mill", {"height": "12 m", "built": "1874"})
    dialog_turn = turn("How high?", image_hits=(ImageHit(0, 0.9, "u", (entity,)),))
    dialog_turn.entity, dialog_turn.sure_entities = entity, (entity,)[:is_sure]
    dialog_turn.web_hits = (WebHit("u_chunk_0", 0.5, "Old Mill", "Old Mill. Height: 12 m. Built: 1874.", "u"),)
    table = {"attribute_chunks": "passage", "names": True, "chunking": "structure"}
    run(EvidenceStage, [dialog_turn], context(settings(evidence=table)))
    assert [(chunk.source, chunk.text) for chunk in dialog_turn.evidence] == [
        ("kg", f"{text} Height: 12 m. Built: 1874.")
    ]


def test_of_a_long_page_the_section_is_kept_whose_name_the_question_has() -> None:
    """A guide book has a heading for each person; an encoder finds its first page, and k chunks of it were the first ones."""
    sections = [f"## Person{number:03}x\n\nGrew up by the sea and came to the park in spring." for number in range(300)]
    page = "\n\n".join([*sections[:250], "## Quibblewing\n\nWas a baker before.", *sections[250:]])
    asked = turn("What was Quibblewing before?")
    asked.web_hits = (WebHit("u_chunk_0", 0.5, "Guide", sections[0], "u", page_text=page),)
    run(EvidenceStage, [asked], context(settings(evidence={"chunking": "structure", "chunk_characters": 100, "k": 5})))
    first, best, *_ = asked.evidence
    assert not first.beside and best.title == "Guide: Quibblewing"
    assert len(asked.evidence) == 5


@pytest.mark.parametrize(
    ("is_sure", "read", "has_photo"),
    [(True, (), False), (False, (), True), (True, ("What is this? (Mill Ale)",), True)],
)
def test_a_sure_name_replaces_the_photo_whose_recogniser_says_otherwise(
    is_sure: bool, read: tuple[str, ...], has_photo: bool
) -> None:
    """A museum's toy, surely recognised, was "a koala": the words that stand in for the photo said so. Text read in it stays."""
    entity = Entity("Snug", {"stuffed with": "straw"})
    dialog_turn = turn("What is this?", size=(64, 48), image_hits=(ImageHit(0, 0.9, "u", (entity,)),))
    dialog_turn.entity, dialog_turn.sure_entities = entity, (entity,)[:is_sure]
    dialog_turn.look = Look(needs=None, queries=read)
    table = {"attribute_chunks": "ranked", "names": True, "name_replaces_photo": True}
    run(EvidenceStage, [dialog_turn], context(settings(evidence=table)))
    assert (dialog_turn.values["image"] is not None) == has_photo


@pytest.mark.parametrize(
    ("question", "first"),
    [("What is this?", "This is Old Mill."), ("How high?", "The height of Old Mill is 12 m.")],
)
def test_a_sure_name_is_a_chunk_of_its_own_only_where_it_ranks_first(question: str, first: str) -> None:
    """ "What is this?" was declined though picture search was sure; in every prompt the name took the place of a fact."""

    class Scores:
        name = "scores"

        def score(self, pairs: Sequence[tuple[str, str]]) -> Any:
            return np.array(
                [float(("This is" in text) == ("What" in asked)) for asked, text in pairs], dtype=np.float32
            )

    entity = Entity("Old Mill", {"height": "12 m"})
    dialog_turn = turn(question, image_hits=(ImageHit(0, 0.9, "u", (entity,)),))
    dialog_turn.entity, dialog_turn.sure_entities = entity, (entity,)
    rerank = context(settings(evidence={"names": True}), coarse_reranker=Scores(), fine_reranker=Scores())
    run_stages([dialog_turn], rerank, EvidenceStage, TwoStageRerank)
    assert dialog_turn.evidence[0].text == first
    assert [chunk.text for chunk in dialog_turn.evidence].count("This is Old Mill.") == (first == "This is Old Mill.")


def by_figure(_: str, passage: str) -> float:
    return float(passage)


def test_chunks_far_below_the_best_are_not_worth_their_place() -> None:
    def kept(scores: Sequence[str], **table: float) -> list[str]:
        pages = tuple(Evidence(score, "web", "") for score in scores)
        dialog_turn = turn("a", evidence=pages)
        options = settings(two_stage_rerank={"coarse": False, "k": 9, "fine_threshold": -1.0, **table})
        run(TwoStageRerank, [dialog_turn], context(options, fine_reranker=ScriptedReranker(by_figure)))
        return [chunk.text for chunk in dialog_turn.evidence]

    assert kept(("0.1", "0.8", "0.5")) == ["0.8", "0.5", "0.1"]
    assert kept(("0.1", "0.8", "0.5"), min_share=0.5) == ["0.8", "0.5"]
    assert kept(("0.1", "0.8", "0.5"), min_share=1.0) == ["0.8"]
    assert kept((), min_share=0.5) == []


def test_rerank_scores_all_pairs_in_one_call_and_drops_nan_and_weak_chunks() -> None:
    model = ScriptedReranker(by_figure)
    first = turn("a", evidence=(evidence("0.2"), evidence("nan"), evidence("0.9")))
    second = turn("b", evidence=(evidence("0.5"),))
    run(Rerank, [first, second], context(settings(rerank={"threshold": 0.3}), reranker=model))
    assert model.calls == 1
    assert [[chunk.text for chunk in each.evidence or ()] for each in (first, second)] == [["0.9"], ["0.5"]]


def test_two_stage_rerank_by_hand() -> None:
    """Coarse 0.9, 0.8, 0.1 with K1 = 2 and tau 0.2 drops the third; fine 0.1, 0.9: cumulative 0.09 and 0.72, product threshold 0.1."""
    dialog_turn = turn("q")

    def rerank(table: dict[str, Any], coarse: dict[str, float], fine: dict[str, float]) -> ScriptedReranker:
        dialog_turn.evidence = (evidence("a"), evidence("b"), evidence("c"))
        models = [ScriptedReranker(lambda _, text, scores=scores: scores[text]) for scores in (coarse, fine)]  # type: ignore[misc]
        parts = context(settings(two_stage_rerank=table), coarse_reranker=models[0], fine_reranker=models[1])
        run(TwoStageRerank, [dialog_turn], parts)
        return models[1]

    table = {"k_coarse": 2, "k": 5, "coarse_threshold": 0.2, "fine_threshold": 0.5}
    fine = rerank(table, {"a": 0.9, "b": 0.8, "c": 0.1}, {"a": 0.1, "b": 0.9})
    assert [passage for _, passage in fine.pairs] == ["a", "b"]
    assert [(chunk.text, pytest.approx(chunk.score)) for chunk in dialog_turn.evidence] == [("b", 0.72)]
    for rank_by, best in (
        ("cumulative", ["a", "b"]),
        ("fine", ["b", "a"]),
    ):  # cumulative 0.54 and 0.40, fine 0.6 and 0.8
        rerank({"k_coarse": 2, "rank_by": rank_by}, {"a": 0.9, "b": 0.5, "c": 0.1}, {"a": 0.6, "b": 0.8})
        assert [chunk.text for chunk in dialog_turn.evidence] == best


def test_the_cumulative_score_is_taken_within_one_query() -> None:
    """Eq. 4 has one query: a is near the first query in one stage alone and near the second in the other: 0.9 * 0.1.

    b has 0.6 * 0.85 = 0.51 for both.
    """
    scores = (
        {("q1", "a"): 0.9, ("q2", "a"): 0.1, ("q1", "b"): 0.6, ("q2", "b"): 0.6},
        {("q1", "a"): 0.1, ("q2", "a"): 0.9, ("q1", "b"): 0.85, ("q2", "b"): 0.85},
    )
    coarse, fine = (ScriptedReranker(lambda *pair, table=table: table[pair]) for table in scores)  # type: ignore[misc]
    dialog_turn = turn("q", evidence=(evidence("a"), evidence("b")), hops=("q1", "q2"))
    run(TwoStageRerank, [dialog_turn], context(settings(), coarse_reranker=coarse, fine_reranker=fine))
    assert [(chunk.text, pytest.approx(chunk.score)) for chunk in dialog_turn.evidence] == [("b", 0.51), ("a", 0.09)]


@given(st.lists(st.tuples(*[st.floats(0, 1)] * 2), min_size=1, max_size=5))
def test_the_cumulative_score_is_at_most_the_product_of_the_best(pairs: list[tuple[float, float]]) -> None:
    coarse, fine = zip(*pairs, strict=True)
    assert multiply_scores(coarse, fine) == max(one * other for one, other in pairs) <= max(coarse) * max(fine)
    assert multiply_scores((math.nan, coarse[0]), (0.5, fine[0])) == coarse[0] * fine[0]
    assert math.isnan(multiply_scores((math.nan,), (0.5,)))


def test_answers_come_in_one_call_and_direct_ones_from_the_draft() -> None:
    chat = ScriptedChat(lambda request: "with" if "[Info 1]" in request.messages[-1].content else "without")
    batch = [
        turn("a", evidence=(evidence("fact"),)),
        turn("b"),
        turn("c", route="direct", draft=Draft((), None, "seen", (math.log(0.5),))),
    ]
    run(Answer, batch, context(settings(), chat=chat))
    assert chat.batches == [2]
    assert [item.candidate.text for item in batch if item.candidate] == ["with", "without", "seen"]
    assert batch[2].candidate is not None
    assert batch[2].candidate.confidence == pytest.approx(0.5)


def test_an_answer_that_steps_led_to_keeps_the_evidence_that_it_was_made_from() -> None:
    step = Evidence("It was designed by Bartholdi.", "step", "step 1")
    dialog_turn = turn("Where was he born?", evidence=(evidence("opened in 1889"),), shown=(step,))
    dialog_turn.candidate = Candidate("Colmar", None, stepwise=True)
    chat = ScriptedChat(lambda _: "another")
    run(Answer, [dialog_turn], context(settings(), chat=chat))
    assert (dialog_turn.candidate.text, dialog_turn.shown, chat.requests) == ("Colmar", (step,), [])


@pytest.mark.parametrize("stage", [Answer, DualAnswer])
def test_each_prompt_is_read_by_the_model_of_its_own_role(stage: type[Stage]) -> None:
    """The one that is asked without evidence was sent to the model of the other one."""
    large, small = ScriptedChat(lambda _: "from the large"), ScriptedChat(lambda _: "from the small")
    parts = context(settings(), chat=large, small_chat=small)
    plain = parts.prompts["answer_without_evidence"]
    plain.settings = plain.settings.model_copy(update={"model": "small_chat"})
    evidence_turn, unknown = turn("How tall?", evidence=(Evidence("It is 330 m tall.", "web", "t"),)), turn("Who?")
    run(stage, [evidence_turn, unknown], parts)
    assert [each.candidate.text for each in (evidence_turn, unknown) if each.candidate] == [
        "from the large",
        "from the small",
    ]
    assert (len(large.batches), len(small.batches)) == (1, 1)  # one call for each role


def test_a_draft_that_search_verifies_is_the_answer_and_the_verifier_reads_its_reasoning() -> None:
    chat = ScriptedChat(lambda _: "Reason: so it is.\nResponse: Correct Answer")
    draft = Draft(("This is the Eiffel Tower.", "It opened in 1889."), "Eiffel Tower", "It opened in 1889.")
    dialog_turn = turn("When did it open?", route="verify", draft=draft, evidence=(evidence("opened in 1889"),))
    lost = turn("When did it open?", route="verify")  # an ablation without drafts
    run(Answer, [dialog_turn, lost], context(settings(), chat=chat))
    assert chat.batches == [1]
    assert dialog_turn.candidate is not None
    assert dialog_turn.candidate.text == "It opened in 1889."
    assert [chunk.text for chunk in dialog_turn.shown] == ["opened in 1889"]
    run(Verify, [dialog_turn], context(settings(), chat=chat))
    prompt = chat.requests[-1].messages[-1].content
    assert "Reasoning: This is the Eiffel Tower. It opened in 1889." in prompt
    assert "opened in 1889" in prompt.split("Reasoning:")[0]
    assert dialog_turn.verification.model is True


def test_a_reasoned_reply_gives_its_answer_and_one_cut_off_before_it_gives_none() -> None:
    reply = ChatReply("Reason: it says so.\nAnswer: 330 m", "stop", (math.log(0.5), math.log(1.0)))
    candidate = read_candidate(reply)
    assert candidate is not None
    assert (candidate.text, candidate.confidence) == ("330 m", pytest.approx(0.75))
    assert candidate.reasoning == "it says so."
    assert read_candidate(ChatReply("Reason: it says", "length")) is None
    assert read_candidate(ChatReply("  ", "stop")) is None


@pytest.mark.parametrize(
    ("reply", "logprobs", "approved"),
    [
        ("Reason: fine.\nResponse: Correct Answer", (math.log(0.9), math.log(0.9)), (True, True)),
        ("Reason: no doubt.\n**Response:** Incorrect Answer", (math.log(0.1), math.log(0.5)), (False, False)),
        (
            "Reason: fine.\nResponse: Correct Answer",
            (math.log(0.09), *[0.0] * 60),
            (False, True),
        ),  # one token below 0.1
        ("Reason: fine.\nResponse: Correct Answer", (math.log(0.11), *[0.0] * 60), (True, True)),
        (
            "Reason: fine.\nResponse: Correct Answer",
            (math.log(0.4), 0.0),
            (False, True),
        ),  # 0.7 by the sum, 0.63 by the product
        ("gibberish", None, (None, None)),
    ],
)
def test_both_verifiers_speak(
    reply: str, logprobs: tuple[float, ...] | None, approved: tuple[bool | None, bool | None]
) -> None:
    dialog_turn = turn("a", candidate=Candidate("330 m", None, logprobs))
    abstained = turn("b", candidate=Candidate(IDK, None))
    chat = ScriptedChat(lambda _: reply)
    run(Verify, [dialog_turn, abstained], context(settings(), chat=chat))
    assert chat.batches == [1]
    assert (dialog_turn.verification.white_box, dialog_turn.verification.model) == approved


BOTH = {"verified_by": ["white_box", "model"]}


@pytest.mark.parametrize(
    ("fields", "table", "answer"),
    [
        ({"candidate": Candidate("330 m", 0.9)}, {}, "330 m"),
        ({}, {}, IDK),
        ({"candidate": Candidate("I don't know.", 0.9)}, {}, IDK),
        ({"candidate": Candidate("330 m", 0.9, idk=0.2)}, {"max_idk": 0.1658}, IDK),
        ({"candidate": Candidate("330 m", 0.9, idk=0.1658)}, {"max_idk": 0.1658}, "330 m"),
        ({"candidate": Candidate("330 m", 0.9)}, {"max_idk": 0.1658}, "330 m"),  # the server gives no alternatives
        ({"candidate": Candidate("x", 0.9), "verification": Verification(True, True)}, BOTH, "x"),
        ({"candidate": Candidate("x", 0.9), "verification": Verification(True, None)}, BOTH, IDK),
        ({"candidate": Candidate("x", 0.9), "verification": Verification(False, True)}, BOTH, IDK),
        ({"candidate": Candidate("x", 0.9), "verification": Verification(None, True)}, BOTH, "x"),  # no probabilities
        ({"candidate": Candidate("x", 0.9), "verification": Verification(None, None)}, BOTH, IDK),
        ({"candidate": Candidate("x", 0.9), "route": "direct"}, BOTH, IDK),  # asked for and not verified
        ({"candidate": Candidate("x", 0.9, drafted=True), "route": "direct"}, BOTH, "x"),
        ({"candidate": Candidate("x", 0.9), "real_time": True}, {"abstain_real_time": True}, IDK),
    ],
)  # fmt: skip
def test_the_decision_rule(fields: dict[str, object], table: dict[str, object], answer: str) -> None:
    dialog_turn = turn("a", **fields)
    run(Finalise, [dialog_turn], context(settings(finalise=table)))
    assert dialog_turn.answer == answer


def test_a_gate_takes_the_place_of_the_verifiers_rule() -> None:
    doubted = turn("a", candidate=Candidate("x", 0.9), verification=Verification(False, False))
    run(Finalise, [doubted], context(settings(finalise={**BOTH, "gate": "presets/gates/best_embedded.json"})))
    doubted.close_stage("finalise", 0.0)
    decision = doubted.records[0].decision
    assert decision is not None and decision.ruled_out is None and decision.probability is not None


def test_a_long_answer_is_cut_at_a_word() -> None:
    dialog_turn = turn("a", candidate=Candidate("word " * 200, 0.9))
    run(Finalise, [dialog_turn], context(settings()))
    assert dialog_turn.answer == " ".join(["word"] * 74)


def test_a_sentence_that_fits_into_the_evaluators_limit_is_given_whole() -> None:
    """It has 234 characters and 51 tokens, and its answer at the end."""
    sentence = (
        "The six countries that border the Black Sea, which the ship in the photo crosses, are Bulgaria, Romania, Ukraine, Russia, Georgia "
        "and Turkey, and of these the one with by far the longest coastline along that sea is, of course, Turkey."
    )
    dialog_turn = turn("a", candidate=Candidate(sentence, 0.9))
    run(Finalise, [dialog_turn], context(settings()))
    assert dialog_turn.answer == sentence


class Matcher:
    """Small crops belong to no question."""

    name = "matcher"

    def match(self, images: Sequence[Image.Image], texts: Sequence[str]) -> FloatArray:
        assert list(texts) == ["What is this?"] * len(images)
        return np.asarray([image.width / 100 for image in images], dtype=np.float32)


def test_crops_that_do_not_belong_to_the_question_are_not_searched() -> None:
    boxes = tuple(Detection(Box(0, 0, side, side), "tower", 0.9) for side in (10, 40, 30))

    def sizes(minimum: float) -> list[tuple[int, int]]:
        pipeline = ScriptedPipeline({}, {})
        dialog_turn = turn("What is this?", (100, 50), regions=boxes)
        run(
            ImageSearch,
            [dialog_turn],
            context(settings(image_search={"min_match": minimum}), pipeline, matcher=Matcher()),
        )
        assert len(dialog_turn.views) == len(pipeline.queries)
        return [query.size for query in pipeline.queries]

    assert sizes(0.2) == [(100, 50), (40, 40), (30, 30)]
    assert len(sizes(0.0)) == 4


def test_a_stage_that_fails_is_noted_and_one_without_time_is_skipped() -> None:
    broken = turn("a", evidence=(evidence("x"),))
    run_stages([broken], context(settings()), Rerank)  # the profile names no reranker
    assert broken.error is not None
    assert "reranker" in broken.error
    [record] = broken.records
    assert (record.status, record.cause) == ("failed", "error") and record.reason is not None
    assert "reranker" in record.reason
    late = turn("a")
    run_stages([late], context(settings(), seconds=0.0, chat=ScriptedChat(lambda _: "x")), Answer)
    assert late.candidate is None
    [record] = late.records
    assert (record.status, record.cause) == ("skipped", "time") and record.reason is not None
    assert "0.00 s left" in record.reason


def test_the_reranker_sees_the_entity_that_the_picture_shows() -> None:
    model = WordOverlapReranker()
    dialog_turn = turn(
        "How tall is this?",
        entity=Entity("Eiffel Tower"),
        evidence=(evidence("the Eiffel stands"), evidence("How tall")),
    )
    run(Rerank, [dialog_turn], context(settings(), reranker=model))
    assert dialog_turn.grounded_question == "How tall is this? (Eiffel Tower)"
    away = turn("How tall is Big Ben?", entity=Entity("Eiffel Tower"), needs_image=False)
    assert away.grounded_question == "How tall is Big Ben?"


@pytest.mark.parametrize(
    "line",
    [
        'A picture search took the photo to show "Berlin Cathedral". It may be another thing.',
        "The photo probably shows: dust jacket (8%), television (8%).",  # what stands in for the photo
    ],
)
def test_a_line_of_the_prompt_is_no_answer(line: str) -> None:
    """The model of two cores gave its prompt's remark on the entity for what a photo shows, and dialogs went on from it."""
    models = ModelSet(
        Profile(name="scripted", models={}, sees=False), Path("unused"), ready={"chat": ScriptedChat(lambda _: line)}
    )
    parts = replace(context(settings()), models=models)
    dialog_turn = turn("What is this?", evidence=(evidence("Berlin Cathedral was finished in 1905."),))
    run_stages([dialog_turn], parts, Answer, Finalise)
    decision = dialog_turn.records[-1].decision
    assert dialog_turn.answer == IDK and decision is not None
    assert (decision.candidate, decision.reason) == (None, "the model repeated its prompt")
