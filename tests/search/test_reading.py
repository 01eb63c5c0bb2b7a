"""The record of a reading counts what is in the text, and survives the process in which a document is read."""

from __future__ import annotations

import json

import pytest

from agents.search.reading import Reading, Remark, sum_readings

TABLE = "| Place | Price |\n|---|---|\n| Mill | 9 |"
NAVIGATION = Remark("navigation", "marked as such", words=12)
ENCODING = Remark("encoding", "read as cp1253", "page 2")


@pytest.mark.parametrize(
    ("text", "words", "tables"),
    [
        ("", 0, 0),
        ("# The mill\n\nIt weighs 5 t.", 6, 0),
        (f"{TABLE}\n\n{TABLE}", 8, 2),
        ("Place | Price\n--- | :---:\nMill | 9", 4, 1),
        ("One\n---\nTwo", 2, 0),
        ("_one_ two", 2, 0),
    ],
)
def test_words_and_tables_are_counted(text: str, words: int, tables: int) -> None:
    reading = Reading(text)
    assert (reading.words, reading.tables) == (words, tables)


def test_a_reading_passes_through_json() -> None:
    reading = Reading("x", "T", (NAVIGATION,), (ENCODING,), words=7, pictures=3)
    assert Reading.from_fields(json.loads(json.dumps(reading.to_fields()))) == reading


def test_the_pages_of_a_source_are_summed() -> None:
    total = sum_readings([Reading("one", left_out=(NAVIGATION,)), Reading(TABLE, "T", guessed=(ENCODING,), pictures=2)])
    assert (total.title, total.words, total.tables, total.pictures) == ("T", 5, 1, 2)
    assert (total.left_out, total.guessed) == ((NAVIGATION,), (ENCODING,))
    assert sum_readings([]).words == 0


def test_a_remark_is_one_line_for_a_user() -> None:
    assert str(NAVIGATION) == "navigation (12 words): marked as such"
    assert str(ENCODING) == "page 2: encoding: read as cp1253"
