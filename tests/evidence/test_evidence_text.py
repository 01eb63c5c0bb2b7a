"""The budget of evidence in a prompt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.evidence.passages import CHARACTERS_PER_TOKEN, format_passage, write_attribute
from agents.evidence.shown import within_tokens
from agents.texts.text import describe_attribute
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


def test_a_later_chunk_is_cut_only_if_half_of_the_budget_is_unused() -> None:
    short, long = chunk("a" * 40), chunk("one two " * 100, "page")
    cut = within_tokens((short, long, short), 50)
    assert cut[0] == short
    assert len(cut) == 2 and cut[1].title == "page" and long.text.startswith(cut[1].text)
    assert 150 < len(format_passage(cut[1])) <= 160
    assert within_tokens((short, short, short, long, short), 50) == (short, short, short)


def test_the_title_of_a_cut_chunk_counts() -> None:
    (cut,) = within_tokens((chunk("one two " * 100, "t" * 100),), 50)
    assert cut.title == "t" * 100
    assert 90 < len(cut.text) <= 98
    (untitled,) = within_tokens((chunk("one two " * 100, "t" * 400),), 50)
    assert (untitled.title, len(untitled.text)) == ("", 199)


@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=200), st.text(max_size=60)), max_size=8),
    st.integers(1, 60),
)
def test_the_budget_holds_for_any_chunks(texts: list[tuple[str, str]], tokens: int) -> None:
    chunks = within_tokens([chunk(*text) for text in texts], tokens)
    assert bool(chunks) == bool(texts)
    assert sum(-(-len(format_passage(each)) // CHARACTERS_PER_TOKEN) for each in chunks) <= tokens


def test_attributes_are_shown_as_people_write_them() -> None:
    for key, value, text in (
        ("built", "1874", "Built: 1874"),
        ("acquired from", "Bell & Co.", "Acquired from: Bell & Co."),
        ("The owner", "the town", "The owner: the town"),
    ):
        assert describe_attribute(write_attribute(key, "Old Mill", value), "Old Mill") == text
    several = f"{write_attribute('built', 'Old Mill', '1874')} {write_attribute('height', 'Old Mill', '12 m')}"
    for text in (several, "The keeper of Old Mill is ill, they say", "Tickets cost 29 euros.", ""):
        assert describe_attribute(text, "Old Mill") == text
    assert describe_attribute("The built of Old Mill is 1874.", "") == "The built of Old Mill is 1874."
