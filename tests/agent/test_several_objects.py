"""Questions about several objects: all entities that were recognised become evidence, each with its share."""

from __future__ import annotations

from typing import Any

import pytest

from agents.evidence.chunks import interleave_by_entity
from agents.models.base import Box, Detection
from agents.search.hits import Entity, ImageHit
from agents.settings.presets import Settings, settings_from
from agents.stages.evidence import EvidenceStage
from agents.stages.queries import Queries
from agents.stages.rerank import Rerank
from agents.stages.select_entity import SelectEntity
from agents.turn import Evidence, Turn, View
from tests.agent.scripted import Alike, ScriptedChat, ScriptedReranker, context, run, turn

LION = Entity("Lion", {"mass": "190 kg", "diet": "carnivore", "lifespan": "14 years"})
TIGER = Entity("Tiger", {"mass": "220 kg", "diet": "carnivore"})
FERN = Entity("Fern", {"division": "Polypodiophyta"})


def settings(**tables: Any) -> Settings:
    return settings_from({"stages": ["finalise"], "select_entity": {"min_score": 0.3}, **tables})


def hit(entity: Entity, score: float) -> ImageHit:
    return ImageHit(0, score, f"https://i.example/{entity.name}", (entity,))


def make_turn(question: str) -> Turn:
    """A lion on the whole picture and in a crop, a tiger in another crop, a fern that the picture is hardly like."""
    left, right, low = (Detection(Box(x, 0, x + 20, 40), "x", 0.9) for x in (0, 30, 40))
    return turn(
        question,
        views=(
            View(None, (hit(LION, 0.5), hit(TIGER, 0.35))),
            View(left, (hit(LION, 0.6), hit(TIGER, 0.4))),
            View(right, (hit(TIGER, 0.55), hit(LION, 0.5))),
            View(low, (hit(FERN, 0.2),)),
        ),
    )


def list_names(item: Turn) -> list[str]:
    return [entity.name for entity in item.entities]


@pytest.mark.parametrize("by", ["rules", "model"])
def test_the_best_entity_of_each_view_is_kept_where_several_are_asked_about(by: str) -> None:
    batch = [make_turn("Which of these two is heavier?"), make_turn("How heavy is this?")]
    chat = ScriptedChat(lambda _: '{"reason": "x", "entity": 1}')
    stage_context = context(settings(select_entity={"by": by, "min_score": 0.3}), chat=chat, text_encoder=Alike())
    run(SelectEntity, batch, stage_context)
    assert list_names(batch[0]) == ["Lion", "Tiger"]
    assert batch[0].grounded_question == "Which of these two is heavier? (Lion, Tiger)"
    assert batch[1].entity == LION
    assert batch[1].entities == ()
    assert batch[1].grounded_question == "How heavy is this? (Lion)"


def test_the_chosen_entity_comes_first_and_none_chosen_keeps_the_others() -> None:
    second, none = make_turn("Which of these is heavier?"), make_turn("Which of these is heavier?")
    replies = iter(['{"reason": "x", "entity": 2}', '{"reason": "x", "entity": 0}'])
    run(
        SelectEntity,
        [second, none],
        context(settings(select_entity={"by": "model", "min_score": 0.3}), chat=ScriptedChat(lambda _: next(replies))),
    )
    assert list_names(second) == ["Tiger", "Lion"]
    assert none.entity is None
    assert list_names(none) == ["Lion", "Tiger"]


@pytest.mark.parametrize(("several", "names"), [(1, []), (2, ["Lion", "Tiger"]), (4, ["Lion", "Tiger", "Fern"])])
def test_how_many_are_kept_where_the_question_says_no_number(several: int, names: list[str]) -> None:
    dialog_turn = make_turn("Which of these is heavier?")
    run(SelectEntity, [dialog_turn], context(settings(select_entity={"k": several}), text_encoder=Alike()))
    assert list_names(dialog_turn) == names


def test_attributes_of_all_of_them_become_evidence_and_the_cut_spares_each() -> None:
    dialog_turn = make_turn("Which of these two is heavier?")
    dialog_turn.entity, dialog_turn.entities = LION, (LION, TIGER)
    run(EvidenceStage, [dialog_turn], context(settings(evidence={"k": 2})))
    assert [chunk.text for chunk in dialog_turn.evidence] == [
        "The mass of Lion is 190 kg.",
        "The mass of Tiger is 220 kg.",
    ]
    assert [chunk.url for chunk in dialog_turn.evidence] == ["https://i.example/Lion", "https://i.example/Tiger"]
    assert [chunk.retrieval for chunk in dialog_turn.evidence] == [0.6, 0.55]
    dialog_turn.entities = ()
    run(EvidenceStage, [dialog_turn], context(settings(evidence={"k": 5})))
    assert {chunk.title for chunk in dialog_turn.evidence} == {"Lion"}


def test_reranked_chunks_hold_each_object() -> None:
    """Lion's chunks all score above Tiger's; one page names the tiger, another neither."""
    chunks = (
        Evidence("l1", "kg", "Lion"), Evidence("l2", "kg", "Lion"), Evidence("l3", "kg", "Lion"), Evidence("t1", "kg", "Tiger"),
        Evidence("t2", "web", "Siberian tiger - Zoo"), Evidence("o1", "web", "Stallions"),
    )  # fmt: skip
    scores = {"l1": 0.9, "l2": 0.8, "l3": 0.7, "t1": 0.3, "t2": 0.4, "o1": 0.6}
    dialog_turn = turn("Which of these two is heavier?", evidence=chunks, entity=LION, entities=(LION, TIGER))

    def rank_texts(**table: Any) -> list[str]:
        dialog_turn.evidence = chunks
        reranker = ScriptedReranker(lambda _, passage: next(scores[text] for text in scores if text in passage))
        run(Rerank, [dialog_turn], context(settings(rerank={"k": 4, **table}), reranker=reranker))
        return [chunk.text for chunk in dialog_turn.evidence]

    assert rank_texts() == ["l1", "o1", "t2", "l2"]
    assert rank_texts(threshold=0.35) == ["l1", "o1", "t2", "l2"]
    dialog_turn.entities = ()
    assert rank_texts() == ["l1", "l2", "l3", "o1"]


def test_a_chunk_belongs_to_the_longest_name_in_its_title() -> None:
    dialog_turn = turn("Which of these?", entities=(Entity("Panda"), Entity("Red panda")))
    chunks = [Evidence("a", "kg", "Red panda"), Evidence("b", "kg", "Red panda"), Evidence("c", "kg", "Panda")]
    assert [chunk.text for chunk in interleave_by_entity(dialog_turn, chunks)] == ["a", "c", "b"]


def test_hops_go_through_each_object() -> None:
    towers = (Entity("A", {"architect": "Ann Lee"}), Entity("B", {"architect": "Bob Ray"}))
    dialog_turn = turn("Which of these two has the architect who was born first? Where was the architect of them born?")
    dialog_turn.entity, dialog_turn.entities = towers[0], towers
    run(Queries, [dialog_turn], context(settings(queries={"split": "rules"})))
    assert any("Ann Lee" in hop for hop in dialog_turn.hops)
    assert any("Bob Ray" in hop for hop in dialog_turn.hops)


@pytest.mark.parametrize(("first_stage", "names"), [("look_by_words", ["Lion", "Tiger"]), ("look", [])])
def test_words_do_not_decide_where_the_look_of_a_model_failed(first_stage: str, names: list[str]) -> None:
    dialog_turn = make_turn("Which of these two is heavier?")
    run(SelectEntity, [dialog_turn], context(settings(stages=[first_stage, "finalise"]), text_encoder=Alike()))
    assert list_names(dialog_turn) == names
