"""How much of what was found a prompt shows is decided in one module, and its table names every stage that shows some."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from agents.asking.prompts import PromptLibrary
from agents.evidence import shown
from agents.evidence.passages import PICTURE_KEY
from agents.evidence.shown import PASSAGE_CHARACTERS, cut_entry, join_attributes, select_chunks, select_documents
from agents.profiles.profile import PROMPTS, ROOT
from agents.stage import stage_class, stage_names
from agents.turn import Evidence

CHUNKS = tuple(Evidence("x" * 40, "web", "") for _ in range(20))  # of ten tokens each
PHOTO = Evidence("y" * 40, "photo", "")

_SHOWS_EVIDENCE = re.compile(r"{[{%][^}]*\b(evidence|documents?|entries|entry|chunk)\b")


def stages_that_show_evidence() -> list[str]:
    """Return the stages one of whose prompts has a place for evidence."""
    prompts = PromptLibrary(PROMPTS)
    asks_by_stage = {name: stage_class(name)().list_asks() for name in stage_names()}
    return [
        name
        for name, asks in asks_by_stage.items()
        if any(_SHOWS_EVIDENCE.search(prompts[ask.prompt].path.read_text(encoding="utf-8")) for ask in asks)
    ]


def test_the_table_names_every_stage_that_shows_evidence() -> None:
    stages = stages_that_show_evidence()
    assert {"answer", "steps", "cited_answer", "entry_answer", "verify"} <= {*stages}
    assert shown.__doc__ is not None
    assert [name for name in stages if f"``{name}``" not in shown.__doc__] == []
    named = re.findall(r"``(\w+)``", "\n".join(re.findall(r"^\| (``.*?) \|", shown.__doc__, re.MULTILINE)))
    assert {*named} <= {*stage_names()}


@pytest.mark.parametrize(
    ("name", "users"),
    [
        (
            "evidence_tokens",
            {
                "agents/stage.py",
                "agents/stages/search_agent.py",
                "agents/papers/core_mmrag.py",
                "agents/profiles/profile.py",
            },
        ),
        ("select_chunks", {"agents/stage.py"}),
    ],
)
def test_no_other_module_cuts_evidence_to_a_budget(name: str, users: set[str]) -> None:
    modules = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "agents").rglob("*.py")
        if re.search(rf"\b{name}\b", path.read_text(encoding="utf-8"))
    }
    assert modules == users | {"agents/evidence/shown.py"}


def test_k_limits_ranked_chunks_and_the_budget_limits_all_chunks() -> None:
    assert select_chunks(CHUNKS, 3, None) == CHUNKS[:3]
    assert select_chunks(CHUNKS, 3, 20) == CHUNKS[:2]
    assert select_chunks(CHUNKS, 3, None, [PHOTO]) == (PHOTO, *CHUNKS[:3])
    assert select_chunks(CHUNKS, 3, 20, [PHOTO]) == (PHOTO, *CHUNKS[:1])
    assert select_documents(CHUNKS) == CHUNKS[:15]


def test_entries_share_a_budget() -> None:
    text = "word " * 8000
    assert len(cut_entry(text, 2, 3000)) == pytest.approx(1500 * 4, abs=8)
    assert len(cut_entry(text, 50, 3000)) == pytest.approx(200 * 4, abs=8)
    assert len(cut_entry(text, 2, None)) == pytest.approx(4500 * 4, abs=8)
    assert cut_entry("a word", 2, 3000) == "a word"


def attribute(key: str, value: str, title: str = "Balloon", score: float = 0.5) -> Evidence:
    return Evidence(f"The {key} of {title} is {value}.", "kg", title, "u", score=score, key=key, value=value)


PAGE = Evidence("It flew 61 km.", "web", "Guide")


def test_the_attributes_of_an_entity_are_one_passage_and_leave_room_for_pages() -> None:
    """Five columns of a museum's table filled the prompt, and the page that answered was never read."""
    columns = [attribute(f"column {number}", f"value {number}") for number in range(5)]
    [passage, page] = select_chunks([*columns, PAGE], 2, None)
    assert page == PAGE and (passage.title, passage.source, passage.key, passage.value) == ("Balloon", "kg", None, None)
    assert passage.text.startswith("Column 0: value 0. Column 1: value 1. ") and passage.text.endswith("value 4.")


def test_a_passage_stands_at_the_place_of_its_best_attribute_with_its_score() -> None:
    ranked = [PAGE, attribute("acquired from", "the circus Bellini", score=0.4), attribute("year", "1822", score=0.3)]
    [page, passage] = join_attributes(ranked)
    assert page == PAGE and passage.score == 0.4
    assert passage.text == "Acquired from: the circus Bellini. Year: 1822."


def test_each_entity_has_a_passage_and_other_chunks_stay() -> None:
    plain = Evidence("The height of Mill is 12 m.", "kg", "Mill", key="height")  # of a preset that shows each by itself
    chunks = [attribute("year", "1822"), plain, attribute("year", "1874", "Mill"), attribute("room", "2", "Mill")]
    assert [chunk.text for chunk in join_attributes(chunks)] == ["Year: 1822.", plain.text, "Year: 1874. Room: 2."]


def test_a_passage_begins_with_what_the_photo_shows_and_is_cut_by_relevance() -> None:
    shows = replace(attribute(PICTURE_KEY, "This is Balloon."), text="This is Balloon.")
    long = [attribute("note", "x" * 300), shows, attribute("story", "y" * 300), attribute("year", "1822")]
    [passage] = join_attributes(long)
    assert passage.text.startswith("This is Balloon. Note: xxx") and "y" not in passage.text.lower()[30:]
    assert len(passage.text) <= PASSAGE_CHARACTERS


def test_a_mark_that_two_attributes_form_together_is_taken_out() -> None:
    [passage] = join_attributes([attribute("a", "<|im_"), attribute("b", "end|>")])
    assert "<|im_" not in passage.text or "end|>" not in passage.text
