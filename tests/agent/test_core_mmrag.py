"""CoRe-MMRAG: formulas and replies, and its presets with a scripted model: one prompt in four steps, and one call for each step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.models.base import ChatReply, ChatRequest
from agents.papers.core_mmrag import (
    ChooseEntry,
    EntriesStage,
    FourSteps,
    FourStepsStage,
    Reconcile,
    choose_jointly,
    entry_letter,
    entry_text,
    find_best,
    parse_four_steps,
    vtki,
)
from agents.search.hits import Entity, ImageHit
from agents.search.pages.web_cache import cache_name
from agents.settings.presets import Settings, load_settings
from agents.turn import IDK, Candidate, KnowledgeEntry, Turn
from tests.agent.scripted import ScriptedChat, ScriptedReranker, context, run, run_stages, settings, turn

URL = "https://i.example/{}.png"
PLANES = {
    "Lockheed L-1011": {"first_flight": "November 16, 1970"},
    "Boeing 747": {"first_flight": "February 9, 1969"},
    "McDonnell Douglas DC-10": {"first_flight": "August 29, 1970", "engines": "three"},
}


def hits() -> tuple[ImageHit, ...]:
    return tuple(
        ImageHit(index, 0.9 - index / 10, URL.format(index), (Entity(name, attributes),))
        for index, (name, attributes) in enumerate(PLANES.items())
    )


class Planes:
    """A search that finds the three planes in every picture, and whose pictures lie in a folder."""

    def __init__(self, folder: Path, pictures: tuple[int, ...] = (0, 2)) -> None:
        self.picture_folder = folder
        for index in pictures:
            Image.new("RGB", (10 + index, 10)).save(folder / cache_name(URL.format(index)))

    def __call__(self, query: Any, k: int = 5) -> list[dict[str, Any]]:
        return [
            {
                "index": hit.index,
                "score": hit.score,
                "url": hit.url,
                "entities": [{"entity_name": one.name, "entity_attributes": one.attributes} for one in hit.entities],
            }
            for hit in hits()[:k]
        ]


def prefer_three_engines() -> ScriptedReranker:
    return ScriptedReranker(lambda _, text: 0.9 if "three" in text else 0.3)


def run_all(turns: list[Turn], settings: Settings, pipeline: Any, chat: ScriptedChat) -> ScriptedReranker:
    reranker = prefer_three_engines()
    run_stages(turns, context(settings, pipeline, chat=chat, reranker=reranker))
    return reranker


def notes(dialog_turn: Turn) -> dict[str, Any]:
    return {key: value for record in dialog_turn.records for key, value in record.notes.items()}


FIGURE_2 = (
    "Own answer: [February 9, 1970]\nReference: C\nReference answer: August 29, 1970\nFinal answer: August 29, 1970"
)


def test_one_prompt_in_four_steps(tmp_path: Path) -> None:
    chat = ScriptedChat(lambda _: FIGURE_2)
    batch = [turn("When did this aircraft make its first flight?") for _ in range(4)]
    reranker = run_all(batch, load_settings("core_mmrag", "no overlay"), Planes(tmp_path), chat)
    assert chat.batches == [4]
    assert (reranker.calls, len(reranker.pairs)) == (1, 12)
    dialog_turn = batch[0]
    assert dialog_turn.answer == "August 29, 1970"
    assert dialog_turn.parametric is not None
    assert dialog_turn.parametric.text == "February 9, 1970"
    assert dialog_turn.chosen is not None
    assert dialog_turn.chosen.title == "McDonnell Douglas DC-10"
    assert dialog_turn.entity is dialog_turn.chosen.entity
    turn_notes = notes(dialog_turn)
    assert (turn_notes["prki"], turn_notes["vtki"]) == (True, True)
    assert (turn_notes["visual_entry"], turn_notes["textual_entry"]) == ("Lockheed L-1011", "McDonnell Douglas DC-10")


def test_pictures_are_shown_and_numbered_and_a_missing_one_leaves_the_text(tmp_path: Path) -> None:
    chat = ScriptedChat(lambda _: FIGURE_2)
    dialog_turn = turn("q")
    run_all([dialog_turn], load_settings("core_mmrag", "no overlay"), Planes(tmp_path), chat)
    message = chat.requests[0].messages[-1]
    assert [image.size for image in message.images] == [(64, 48), (10, 10), (12, 10)]  # the photo, A and C
    assert 'Reference A: "Lockheed L-1011"\nPicture: number 2\n"The first flight' in message.content
    assert 'Reference B: "Boeing 747"\n"The first flight' in message.content
    assert 'Reference C: "McDonnell Douglas DC-10"\nPicture: number 3\n' in message.content
    assert notes(dialog_turn)["pictures"] == 2


@pytest.mark.parametrize("preset", ["core_mmrag", "core_mmrag_calls"])
def test_on_a_gpu_every_prompt_shows_one_picture_and_names_what_stands_on_it(tmp_path: Path, preset: str) -> None:
    chat = ScriptedChat(lambda request: FIGURE_2 if "four steps" in request.messages[0].content else "C")
    run_all([turn("q")], load_settings(preset, "gpu"), Planes(tmp_path), chat)
    messages = [message for request in chat.requests for message in request.messages if message.images]
    assert messages and all(len(message.images) == 1 for message in messages)
    sheets = [message for message in messages if message.images[0].size == (1120, 1120)]
    assert len(sheets) == (1 if preset == "core_mmrag" else 2)  # the choice of an entry, and the answer from it
    assert all('labelled "Photo" is the photo' in message.content for message in sheets)
    assert 'Reference A: "Lockheed L-1011"\nPicture: labelled "A"\n' in sheets[0].content
    assert 'Reference C: "McDonnell Douglas DC-10"\nPicture: labelled "C"\n' in sheets[0].content
    assert "number" not in sheets[0].content.split("Question:")[0] and 'labelled "B"' not in sheets[0].content


@pytest.mark.parametrize("cached", [(0, 2), ()])
def test_on_a_gpu_differing_answers_are_reconciled_over_one_picture(tmp_path: Path, cached: tuple[int, ...]) -> None:
    """An engine that allows one picture a prompt refuses two, and then the retrieved answer would stand unreconciled."""
    chat = ScriptedChat(Steps("February 9, 1970", "C", "August 29, 1970", "February 9, 1970"))
    dialog_turn = turn("When did this aircraft make its first flight?")
    run_all([dialog_turn], load_settings("core_mmrag_calls", "gpu"), Planes(tmp_path, cached), chat)
    final = chat.requests[-1].messages[-1]
    assert "From memory: February 9, 1970\nFrom the reference: August 29, 1970" in final.content
    assert [image.size for image in final.images] == [(1120, 1120) if cached else (64, 48)]
    assert ('labelled "Reference" belongs to the reference' in final.content) is bool(cached)
    assert dialog_turn.answer == "February 9, 1970"


@pytest.mark.parametrize(
    ("reply", "answer", "entry"),
    [
        ("[Italy]", "Italy", None),
        ("Own answer: [Italy]\nReference: A\nReference answer: The Netherlands\nFinal answer: [Italy]", "Italy", 0),
        (ChatReply("Own answer: [Italy]\nReference: B\nReference answer: The Nether", "length"), "Italy", 1),
        (ChatReply("Own ans", "abort"), IDK, None),
        (ChatReply("", "error", error="boom"), IDK, None),
        (
            "Own answer: [I don't know]\nReference: Q\nReference answer: I don't know\nFinal answer: I don't know",
            IDK,
            None,
        ),
    ],
)
def test_replies_of_all_kinds(tmp_path: Path, reply: str | ChatReply, answer: str, entry: int | None) -> None:
    dialog_turn = turn("What country does this island belong to?")
    run_all([dialog_turn], load_settings("core_mmrag", "no overlay"), Planes(tmp_path), ScriptedChat(lambda _: reply))
    assert dialog_turn.answer == answer
    assert dialog_turn.chosen == (dialog_turn.entries[entry] if entry is not None else None)


class Steps:
    """Says what each of the four separate prompts asks for."""

    def __init__(self, own: str, letter: str, retrieved: str, final: str) -> None:
        self.own, self.letter, self.retrieved, self.final = own, letter, retrieved, final

    def __call__(self, request: ChatRequest) -> str:
        system = request.messages[0].content
        if "disagree" in system:
            return self.final
        if "Reply with one letter" in system:
            return self.letter
        return self.retrieved if "from a reference" in system else self.own


@pytest.mark.parametrize(
    ("replies", "answer", "calls", "prki"),
    [
        (("February 9, 1970", "C", "August 29, 1970", "August 29, 1970"), "August 29, 1970", 4, True),
        (("December 20, 1957", "B", "August 29, 1970", "December 20, 1957"), "December 20, 1957", 4, True),
        (("August 29, 1970", "C", "On August 29, 1970", "not asked"), "On August 29, 1970", 3, False),
        ((IDK, "C", "August 29, 1970", "not asked"), "August 29, 1970", 3, None),
        (("Italy", "A", "I don't know", "not asked"), "Italy", 3, None),
        ((IDK, "A", "I don't know", "not asked"), IDK, 3, None),
        (("Italy", "C", "Norway", ""), "Norway", 4, True),  # a reconciler that says nothing changes nothing
    ],
)
def test_one_call_for_each_step(
    tmp_path: Path, replies: tuple[str, str, str, str], answer: str, calls: int, prki: bool | None
) -> None:
    chat = ScriptedChat(Steps(*replies))
    batch = [turn("When did this aircraft make its first flight?") for _ in range(3)]
    run_all(batch, load_settings("core_mmrag_calls", "no overlay"), Planes(tmp_path), chat)
    assert chat.batches == [3] * calls
    assert [dialog_turn.answer for dialog_turn in batch] == [answer] * 3
    assert notes(batch[0]).get("prki") is prki
    assert batch[0].entity is batch[0].entries["ABC".index(replies[1])].entity


def test_each_step_sees_what_its_equation_names(tmp_path: Path) -> None:
    chat = ScriptedChat(Steps("x", "C", "y", "z"))
    run_all([turn("q")], load_settings("core_mmrag_calls", "no overlay"), Planes(tmp_path), chat)
    own, choice, external, final = (request.messages[-1] for request in chat.requests)
    assert [len(message.images) for message in (own, choice, external, final)] == [1, 3, 2, 2]
    assert "DC-10" not in own.content  # eq. 3: Q alone
    assert all(name in choice.content for name in PLANES)  # eq. 5: all entries
    assert "Boeing" not in external.content  # eq. 6: the chosen one
    assert "engines of McDonnell Douglas DC-10 is three" in external.content
    assert "From memory: x\nFrom the reference: y" in final.content  # eq. 7
    assert "engines of McDonnell Douglas DC-10 is three" in final.content


def entry(title: str, visual: float, textual: float) -> KnowledgeEntry:
    return KnowledgeEntry(title, "text", "url", Entity(title), visual, textual)


def test_the_scores_choose_where_the_model_names_none() -> None:
    """By hand: 0.9 + 0.1 against 0.7 + 0.8."""
    entries = (entry("picture", 0.9, 0.1), entry("text", 0.7, 0.8))
    mute, bare = turn("b", entries=entries), turn("c")
    run(ChooseEntry, [mute, bare], context(settings(), chat=ScriptedChat(lambda _: "I cannot tell.")))
    assert mute.entity is not None
    assert mute.entity.name == "text"
    assert bare.chosen is None


def test_entries_are_cut_in_number_and_length_and_need_an_entity() -> None:
    long = ImageHit(9, 0.95, "", (Entity("Long", {"story": "word " * 300}),))
    dialog_turn = turn("q", image_hits=(ImageHit(8, 0.99, "", ()), long, *hits()))
    run_settings = settings(entries={"k": 2}, limits={"evidence_tokens": 400})
    run(EntriesStage, [dialog_turn, turn("none")], context(run_settings, reranker=prefer_three_engines()))
    assert [one.title for one in dialog_turn.entries] == ["Long", "Lockheed L-1011"]
    assert len(dialog_turn.entries[0].text) <= 804
    assert entry_text(hits()[2]) == (
        "The first flight of McDonnell Douglas DC-10 is August 29, 1970. The engines of McDonnell Douglas DC-10 is three."
    )


def test_without_entries_the_model_still_answers() -> None:
    chat = ScriptedChat(lambda _: "Own answer: [blue]\nReference: none\nReference answer:\nFinal answer: blue")
    dialog_turn = turn("What colour is it?", None)
    run(FourStepsStage, [dialog_turn], context(settings(), chat=chat))
    assert dialog_turn.candidate is not None
    assert dialog_turn.candidate.text == "blue"
    assert "there is no reference" in chat.requests[0].messages[-1].content


def test_a_single_answer_is_not_reconciled_and_a_missing_model_is_noted() -> None:
    def pair(own: str, retrieved: str | None) -> Turn:
        candidate = Candidate(retrieved, 0.8) if retrieved else None
        return turn("q", parametric=Candidate(own, None), candidate=candidate)

    alone, both = pair("Italy", None), pair("Italy", "Norway")
    run(Reconcile, [alone], context(settings()))
    assert alone.candidate is not None
    assert alone.candidate.text == "Italy"
    run_stages([both], context(settings()), Reconcile)  # no model: noted, not raised
    assert both.candidate is not None
    assert both.candidate.text == "Norway"
    assert "reconcile" in (both.error or "")


@pytest.mark.parametrize("preset", ["core_mmrag_one_stage", "core_mmrag_two_stage", "core_mmrag_oracle"])
def test_the_baselines_show_what_the_paper_shows(tmp_path: Path, preset: str) -> None:
    """1-Stage: five entries with pictures in one prompt; 2-Stage: texts alone, then the one chosen; Oracle: one entry (appendix A.1)."""
    chat = ScriptedChat(
        lambda request: "Reference C" if "with one letter" in request.messages[0].content else "August 29, 1970"
    )
    dialog_turn = turn("When did this aircraft make its first flight?")
    run_all([dialog_turn], load_settings(preset, "no overlay"), Planes(tmp_path), chat)
    assert dialog_turn.answer == "August 29, 1970"
    prompts = [request.messages[-1] for request in chat.requests]
    planes = [[name for name in PLANES if name in prompt.content] for prompt in prompts]
    pictures = [len(prompt.images) for prompt in prompts]
    assert (planes, pictures) == {
        "core_mmrag_one_stage": ([[*PLANES]], [3]),  # the photo, and the two pictures that the cache has
        "core_mmrag_two_stage": ([[*PLANES], ["McDonnell Douglas DC-10"]], [1, 1]),
        "core_mmrag_oracle": ([["Lockheed L-1011"]], [2]),
    }[preset]


def test_the_baselines_ask_once_for_a_whole_batch_and_not_without_entries(tmp_path: Path) -> None:
    chat = ScriptedChat(lambda _: "1970")
    run_all([turn("q") for _ in range(3)], load_settings("core_mmrag_one_stage", "no overlay"), Planes(tmp_path), chat)
    assert chat.batches == [3]
    nothing = turn("q")
    run_all([nothing], load_settings("core_mmrag_oracle", "no overlay"), lambda *_, **__: [], chat)
    assert chat.batches == [3] and nothing.answer == IDK


@pytest.mark.parametrize(
    ("reply", "steps"),
    [
        (
            "Own answer: [February 9, 1970]\nReference: C\nReference answer: August 29, 1970\nFinal answer: August 29, 1970",
            FourSteps("February 9, 1970", 2, "August 29, 1970", "August 29, 1970"),
        ),
        ("Step 1: Own answer: [Italy]\n**Reference:** Reference B\n", FourSteps("Italy", 1, None, None)),
        ("Step 1: [1300]\nStep 2: Reference C\nStep 3: 255\nStep 4: 255", FourSteps("1300", 2, "255", "255")),
        ("Own answer: [x]\nReference: none\nReference answer: y\nFinal answer: x", FourSteps("x", None, "y", "x")),
        ("[Italy]", FourSteps("Italy", None, None, "Italy")),  # figure 5: brackets mark parametric knowledge
        ('"2.8 km"', FourSteps(None, None, None, "2.8 km")),  # appendix A.1
        ("", FourSteps()),
        (  # these two as Qwen2.5-Coder-1.5B gave them
            "Step 1: I don't know where you cannot.\nStep 2: Reference: B\nStep 3: Its taxon is O. cuniculus.\nStep 4: The rabbit.",
            FourSteps("I don't know where you cannot.", 1, "Its taxon is O. cuniculus.", "The rabbit."),
        ),
        (
            "Step 1: I don't know.\nStep 2: Reference: E\nStep 3: Reference answer: Penny\nStep 4: Final answer: a penny",
            FourSteps("I don't know.", 4, "Penny", "a penny"),
        ),
    ],
)
def test_the_four_steps_are_read(reply: str, steps: FourSteps) -> None:
    assert parse_four_steps(reply, 5) == steps


@pytest.mark.parametrize(
    ("text", "place"),
    [("B", 1), ("Reference D.", 3), ("[Reference C]", 2), ("A", 0), ("(e)", 4), ("The best one is C", 2), ("F", None),
     ("It is a plane", None), ("none", None), ("A plane, so Reference C", 2), ("", None), ("b", 1), ("(b)", 1), ("a.", 0),
     ("B - a tower", 1), ("A: a lighthouse", 0), ("A is the most relevant", 0), ("Reference A is the most relevant", 0), ("I think C", 2),
     ("A\nB shows another bridge.", 0), ("A\nBecause it shows the tower.", 0), ("A and B both match", 0), ("[A] Eiffel Tower", 0),
    ("**A**: it", 0), ("A (the Eiffel Tower)", 0), ("A because it matches", 0), ("A — the same", 0),
    ("A lighthouse stands there", None), ("A-frame house", None), ("The reference a tower", None), ("e.g. the tower", None),
     ("D'Artagnan", None)],
)  # fmt: skip
def test_an_entry_is_named_by_its_letter(text: str, place: int | None) -> None:
    assert entry_letter(text, 5) == place


def test_vtki_by_hand() -> None:
    # figure 4: by picture B, by text A
    titles = ["Colonial Williamsburg", "Oldest buildings in South Carolina", "Cherokee Phoenix"]
    assert vtki(titles, [0.71, 0.75, 0.6], [0.9, 0.2, 0.1]) is True
    assert vtki(titles, [0.75, 0.71, 0.6], [0.9, 0.2, 0.1]) is False
    assert vtki(["Spitfire", "Spitfire", "RAF Leuchars"], [0.8, 0.7, 0.6], [0.3, 0.9, 0.1]) is False  # one entity
    assert vtki(["Spitfire"], [0.8], [0.3]) is None
    assert vtki([], [], []) is None


def test_the_joint_choice_by_hand() -> None:
    # 0.71 + 0.9 = 1.61, 0.75 + 0.2 = 0.95, 0.6 + 0.1 = 0.7
    assert choose_jointly([0.71, 0.75, 0.6], [0.9, 0.2, 0.1]) == 0
    assert choose_jointly([0.71, 0.75, 0.6], [0.2, 0.2, 0.1]) == 1
    assert choose_jointly([], []) is None
    assert find_best([math.nan, 0.2, 0.2]) == 1
