"""The budget of evidence in a prompt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.evidence.passages import format_passage
from agents.evidence.shown import CHARACTERS_PER_TOKEN, within_tokens
from agents.turn import Evidence


def chunk(text: str, title: str = "") -> Evidence:
    return Evidence(text, "web", title)


def test_chunks_are_taken_best_first_until_the_budget_is_spent() -> None:
    chunks = (chunk("a" * 40), chunk("b" * 40), chunk("c" * 4))
    assert within_tokens(chunks, 21) == (chunks[0], chunks[1], chunks[2])
    assert within_tokens(chunks, 20) == chunks[:2]
    assert within_tokens(chunks, 19) == chunks[:1]  # a later, shorter one never overtakes a better one
    assert within_tokens(chunks, None) == chunks


def test_a_first_chunk_that_is_too_long_is_cut_at_a_word() -> None:
    (first_chunk,) = within_tokens((chunk("one two three four"), chunk("five")), 2)
    assert first_chunk.text == "one two"


@given(st.lists(st.text(min_size=1, max_size=200), max_size=8), st.integers(1, 60))
def test_the_budget_holds_for_any_chunks(texts: list[str], tokens: int) -> None:
    chunks = within_tokens([chunk(text) for text in texts], tokens)
    assert bool(chunks) == bool(texts)
    assert sum(-(-len(format_passage(each)) // CHARACTERS_PER_TOKEN) for each in chunks) <= tokens
