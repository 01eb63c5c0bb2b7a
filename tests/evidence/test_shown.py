"""How much of what was found a prompt shows is decided in one module, and its table names every stage that shows some."""

from __future__ import annotations

import re

import pytest

from agents.asking.prompts import PromptLibrary
from agents.evidence import shown
from agents.evidence.shown import cut_entry, select_chunks, select_documents
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
        ("evidence_tokens", {"agents/stage.py", "agents/papers/core_mmrag.py", "agents/profiles/profile.py"}),
        ("within_tokens", {"agents/stage.py"}),
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
