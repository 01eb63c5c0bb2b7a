"""Pages cut along their structure: nothing that a sentence, item or row depends on is left behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.texts.page_structure import cut_page

GUIDE = (
    "# Guide\nWelcome.\n## Animals\n### Otters\nThey are fed at 11.\n### Seals\nThey are fed at 12.\n## Plants\nFerns."
)


def cut(text: str, characters: int = 400, name: str = "") -> list[tuple[tuple[str, ...], str]]:
    return [(piece.headings, piece.whole_text) for piece in cut_page(text, name, characters)]


def test_each_piece_has_the_path_of_headings_above_it() -> None:
    assert cut(GUIDE) == [
        (("Guide",), "Welcome."),
        (("Guide", "Animals", "Otters"), "They are fed at 11."),
        (("Guide", "Animals", "Seals"), "They are fed at 12."),
        (("Guide", "Plants"), "Ferns."),
    ]


def test_the_name_of_the_page_is_not_repeated_by_its_first_heading() -> None:
    assert cut(GUIDE, name="Guide of the park")[1] == (("Animals", "Otters"), "They are fed at 11.")


def test_a_heading_without_a_text_is_a_text_of_the_section_above() -> None:
    """Such a heading may be all that is said, as "Closed on Mondays"; a heading is never the end of another piece."""
    text = "# Visit\nWelcome.\n## Closed on Mondays\n## Prices\nFree.\n## See also"
    assert cut(text) == [
        (("Visit",), "Welcome."),
        (("Visit",), "Closed on Mondays"),
        (("Visit", "Prices"), "Free."),
        (("Visit",), "See also"),
    ]


def test_a_table_has_its_header_in_each_piece() -> None:
    rows = [f"| Exhibit {number} | {number} m |" for number in range(20)]
    pieces = cut("\n".join(["| Thing | Height |", "|---|---|", *rows]), 120)
    tables = [text for _, text in pieces if "Exhibit" in text]
    assert len(tables) > 3
    assert all(text.startswith("| Thing | Height |\n|---|---|\n| Exhibit") and len(text) <= 120 for text in tables)
    assert [row for text in tables for row in text.splitlines()[2:]] == rows


def test_a_list_keeps_the_sentence_before_it() -> None:
    items = [f"- Animal number {number}" for number in range(12)]
    pieces = cut("\n".join(["The park is old. These are fed at noon:", *items]), 100)
    assert pieces[0][1].startswith("The park is old.")
    assert all("These are fed at noon:" in text for _, text in pieces if "Animal" in text)
    assert [line for _, text in pieces for line in text.splitlines() if line.startswith("-")] == items


def test_sentences_go_on_over_the_ends_of_lines() -> None:
    """Work on a globe was "begun in" in one chunk, and "1970" in another."""
    line = "Work on the largest globe of the collection was begun by a potter in"
    assert cut(f"{line}\n1970. It took her a year.\nOpen\nMonday") == [
        ((), f"{line} 1970. It took her a year.\nOpen\nMonday")
    ]
    assert cut("It weighs as much\nas a horse.") == [((), "It weighs as much as a horse.")]


def test_long_paragraphs_are_cut_between_sentences() -> None:
    sentences = [f"This is sentence number {number} of many." for number in range(30)]
    pieces = cut(f"# Long\n{' '.join(sentences)}", 200, "Page")
    assert " ".join(text for _, text in pieces) == " ".join(sentences)
    assert all(text.endswith(".") and len(text) <= 200 - len("Page: Long: ") for _, text in pieces)


@pytest.mark.parametrize("text", ["", " \n\n", "# \n", "|", "#", "- "])
def test_odd_texts_are_cut_without_errors(text: str) -> None:
    assert all(piece.text for piece in cut_page(text, "name", 50))


LINES = st.sampled_from(["# A", "## B", "### C b", "- item one", "1. first", "| a | b |", "|---|---|", "| c | d |"])


@given(st.lists(LINES | st.text("ab .|#", max_size=40), max_size=20), st.integers(50, 200))
def test_all_words_are_kept_and_pieces_are_short_enough(lines: list[str], characters: int) -> None:
    text = "\n".join(lines)
    pieces = cut_page(text, "", characters)
    kept = " ".join([*(heading for piece in pieces for heading in piece.headings), *(p.whole_text for p in pieces)])
    assert {*text.replace("#", " ").split()} <= {*kept.replace("#", " ").split()}
    assert all(len(piece.whole_text) <= characters and piece.start <= piece.end for piece in pieces)
