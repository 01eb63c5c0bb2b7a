"""What a reader loses is found by counting: each word and figure of the raw format is in what was read, or accounted for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.search import own_sources
from agents.search.documents.errors import UnreadableError
from agents.search.documents.raw_text import read_raw_pdf, read_raw_word, read_raw_workbook
from agents.search.losses import LOST, find_loss
from agents.search.own_sources import read_documents
from agents.search.reading import Reading, Remark
from agents.search.text_files import read_html_file
from tests.support.office_documents import paragraph, word_table, write_sheets, write_word
from tests.support.pdf_files import make_pdf, show

WORDS = "the lighthouse has a lamp of brass that was lit by keepers".split()
WHOLE = " ".join(f"{word} {number}" for number, word in enumerate(WORDS * 10))


@given(st.integers(0, 109))
def test_one_lost_figure_is_named(number: int) -> None:
    read = WHOLE.replace(f" {number} ", " ", 1) if number else WHOLE.replace(" 0 ", " ", 1)
    loss = find_loss(WHOLE, Reading(read), [read])
    assert loss is not None and loss.why == f"the reader lost {number}" and loss.words == 1


@given(st.lists(st.sampled_from(WORDS), max_size=9), st.integers(0, 12))
def test_words_count_from_two_percent_and_less_what_was_left_out(lost: list[str], told: int) -> None:
    raw, read = f"{WHOLE} {' '.join(f'x{word}x' for word in lost)}", WHOLE
    reading = Reading(read, left_out=(Remark("navigation", "marked so", words=told),))
    loss = find_loss(raw, reading, [read])
    assert (loss is not None) == (len(lost) - told > 0.02 * (220 + len(lost)))


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ("10 m² of ﬂoor", "10 m^2 of floor"),
        ("light house", "lighthouse"),  # letters in elements of their own
        ("lighthouse", "light house"),
        ("1 2 apples", "12 apples"),  # a figure in a circle behind another
        ("Adults pay 9 euros", "| Adults | 9 euros |\n|---|---|\n| pay | 9 |"),
    ],
)
def test_what_is_only_written_otherwise_is_not_lost(raw: str, read: str) -> None:
    assert find_loss(raw, Reading(read), [read]) is None


def _write_word(path: Path) -> None:
    note = f"<w:footnote w:id='2'>{paragraph('Until 2031.')}</w:footnote>"
    body = (
        paragraph("Lamps", "Heading1")
        + paragraph("Lit in 1874.")
        + "<w:p><w:r><w:footnoteReference w:id='2'/></w:r></w:p>"
        + word_table(["Lamp", "Price"], ["Brass", "12"])
    )
    write_word(path, body, {"footnotes": note, "header1": paragraph("Valid from 2026")})


def _write_workbook(path: Path) -> None:
    write_sheets(path, Prices=[["Lamp", "Price"], ["Brass of 1874", 12]])


def _write_pdf(path: Path) -> None:
    path.write_bytes(make_pdf(show(60, 100, "Lit in 1874 by keepers of the light-"), show(60, 100, "house of 1912.")))


@pytest.mark.parametrize(
    ("write", "read_raw", "figures"),
    [
        (_write_word, read_raw_word, ("1874", "2031", "2026", "12")),
        (_write_workbook, read_raw_workbook, ("1874",)),
        (_write_pdf, read_raw_pdf, ("1874", "1912")),
    ],
)
def test_raw_formats_have_every_figure(
    tmp_path: Path, write: Callable[[Path], None], read_raw: Callable[[Path], str], figures: tuple[str, ...]
) -> None:
    write(tmp_path / "a")
    raw = read_raw(tmp_path / "a")
    assert all(raw.count(figure) == 1 for figure in figures)


def test_an_index_names_the_file_whose_reader_loses_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(data: bytes) -> Reading:
        reading = read_html_file(data)
        return replace(reading, text=reading.text.replace("1874", ""))

    (tmp_path / "a.html").write_text("<nav>Home</nav><p>Lit in <nobr>1874</nobr>.</p><script>var x = 99</script>")
    readings: dict[str, Reading] = {}
    assert read_documents(tmp_path, on_reading=readings.__setitem__)[1] == []
    monkeypatch.setattr(own_sources, "_TEXT_READERS", {".html": forgetful})
    left_out = read_documents(tmp_path, on_reading=readings.__setitem__)[1]
    assert left_out == ["a.html: text that was not read (1 word): the reader lost 1874"]
    assert [remark.what for remark in readings["a.html"].left_out] == ["navigation", LOST]


def test_good_documents_are_read_without_a_loss(tmp_path: Path) -> None:
    _write_word(tmp_path / "a.docx")
    _write_workbook(tmp_path / "b.xlsx")
    _write_pdf(tmp_path / "c.pdf")
    markdown = "---\ntags: 99\n---\n# Lamps\n<!-- 42 -->\nLit in <b>1874</b>, ~~1875~~.\n"
    (tmp_path / "d.md").write_text(markdown)
    (tmp_path / "e.md").write_bytes(markdown.replace("\n", "\r\n").encode())
    assert read_documents(tmp_path)[1] == []


def test_a_reading_that_could_not_be_checked_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(reader: str, path: Path) -> str:
        raise UnreadableError(f"{reader} of {path} takes too much memory")

    _write_word(tmp_path / "a.docx")
    monkeypatch.setattr(own_sources, "read_raw_apart", fail)
    readings: dict[str, Reading] = {}
    assert read_documents(tmp_path, on_reading=readings.__setitem__)[1] == []
    assert [str(remark) for remark in readings["a.docx"].guessed] == [
        "losses: not checked, because that took too much time or memory"
    ]
