"""Pages of PDF files are read as people read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.base.files import TooLargeError
from agents.search.documents import pdf, pdf_columns
from agents.search.documents.pdf import read_pdf
from agents.search.documents.pdf_paragraphs import mend_lines
from agents.search.own_sources import read_documents
from tests.support.pdf_cases import BRIDGE, ISLAND, MILL, PDF_CASES
from tests.support.pdf_files import (
    FF,
    FFI,
    FI,
    PICTURE,
    SOFT_HYPHEN,
    draw_rules,
    make_pdf,
    show,
    show_rows,
)

FILES = Path(__file__).parents[1] / "pages"
HEADING, CLOSING = (
    "A walk of one hour along the river to the mill and the bridge of Osterby",
    "Take the bus to reach all of them",
)


def read(tmp_path: Path, *operators: str) -> str:
    """Return the text of a PDF of one page."""
    (tmp_path / "page.pdf").write_bytes(make_pdf("".join(operators)))
    return read_pdf(tmp_path / "page.pdf")["page=1"].text


@pytest.mark.parametrize(
    ("columns", "places"),
    [([MILL, BRIDGE], [60, 320]), ([MILL, BRIDGE], [60, 240]), ([MILL, BRIDGE, ISLAND], [30, 220, 420])],
    ids=["wide", "narrow", "three"],
)
def test_columns_are_read_one_after_the_other(tmp_path: Path, columns: list[list[str]], places: list[float]) -> None:
    text = read(
        tmp_path,
        show(60, 60, HEADING),
        show_rows(zip(*columns, strict=True), places),
        show(60, 180, f"{CLOSING}, from the station of the town, at nine and at noon."),
    )
    lines = [line for line in text.splitlines() if line]
    assert lines[1:-1] == [" ".join(column) for column in columns]
    assert lines[0] == HEADING and CLOSING in lines[-1]


def test_two_lines_beside_a_tall_one_of_another_column_stay_two(tmp_path: Path) -> None:
    """A title in large letters was beside the middle of two lines, which were read into each other."""
    titles = ["Report of the", "Keeper for the", "Year 2022"]
    left = "".join(show(60, 86 + 25 * number, line, size=20) for number, line in enumerate(titles))
    left += "".join(show(60, 200 + 15 * number, line) for number, line in enumerate([*MILL, *ISLAND]))
    right = "".join(show(307, 84 + 15 * number, line) for number, line in enumerate([*BRIDGE, *ISLAND, *BRIDGE, *MILL]))
    (tmp_path / "a.pdf").write_bytes(make_pdf(left + right))
    text = " ".join(read_pdf(tmp_path / "a.pdf")["page=1"].text.split())
    assert "# Report of the Keeper for the Year 2022" in text
    assert " ".join([*BRIDGE, *ISLAND, *BRIDGE, *MILL]) in text


def test_columns_with_other_distances_of_lines_and_a_heading_of_their_own(tmp_path: Path) -> None:
    columns = "".join(
        show(x, 100 + step * number, line)
        for x, step, lines in ((60, 15, MILL), (320, 17, BRIDGE))
        for number, line in enumerate(lines)
    )
    text = read(tmp_path, show(330, 60, "The bridge", 20), columns)
    assert text.split("\n\n") == ["# The bridge", " ".join(MILL), " ".join(BRIDGE)]


@pytest.mark.parametrize("name", PDF_CASES)
def test_a_page_is_read_as_a_person_reads_it(tmp_path: Path, name: str) -> None:
    case = PDF_CASES[name]
    (tmp_path / "page.pdf").write_bytes(case.make())
    readings = read_pdf(tmp_path / "page.pdf")
    lines = [line for reading in readings.values() for line in reading.text.splitlines() if line]
    assert lines == case.shown.splitlines()
    assert tuple(remark.what for reading in readings.values() for remark in reading.left_out) == case.left_out


TICKETS = [["Visitor", "Price", "Hours"], ["Adult", "9 euros", "9 to 17"], ["Child", "5 euros", "9 to 12"]]
MARKDOWN = [
    "| Visitor | Price | Hours |",
    "|---|---|---|",
    "| Adult | 9 euros | 9 to 17 |",
    "| Child | 5 euros | 9 to 12 |",
]


@pytest.mark.parametrize("rules", ["", draw_rules([55, 195, 345, 500], [88, 103, 118, 133])], ids=["plain", "ruled"])
def test_a_table_is_read_row_by_row_with_its_header(tmp_path: Path, rules: str) -> None:
    around = (
        show(60, 60, "Tickets of the museum are sold at the door of the old mill."),
        show(60, 170, "Groups call us."),
    )
    text = read(tmp_path, around[0], show_rows(TICKETS, [60, 200, 350]), rules, around[1])
    lines = [line for line in text.splitlines() if line]
    assert lines[1:-1] == MARKDOWN and lines[-1] == "Groups call us."


def test_a_table_beside_text_stays_in_its_column(tmp_path: Path) -> None:
    rows = [row[:2] for row in TICKETS]
    rules = draw_rules([315, 400, 500], [158, 173, 188, 203])
    text = read(tmp_path, show_rows([[line] for line in MILL * 2], [60]), show_rows([[line] for line in BRIDGE], [320]),
                show_rows(rows, [320, 405], top=170), rules)  # fmt: skip
    mill = " ".join(MILL)
    assert [line for line in text.splitlines() if line] == [
        mill,
        mill,
        " ".join(BRIDGE),
        "| Visitor | Price |",
        "|---|---|",
        "| Adult | 9 euros |",
        "| Child | 5 euros |",
    ]


def test_cells_of_several_rows_and_lines(tmp_path: Path) -> None:
    merged = (
        show(60, 100, "Place")
        + show(200, 100, "Visitor")
        + show(60, 123, "Mill")
        + show(200, 115, "Adult")
        + show(200, 130, "Child")
    )
    rules = "55 712 m 345 712 l S 55 697 m 345 697 l S 195 682 m 345 682 l S 55 667 m 345 667 l S\n" + draw_rules(
        [55, 195, 345], [88, 133]
    )
    assert read(tmp_path, merged, rules).splitlines()[2:] == ["| Mill | Adult |", "| Mill | Child |"]
    rows = [
        ["Boat", "Year", "Note"],
        ["Ann", "1900", "A boat of oak that car-"],
        ["", "", "ried mail."],
        ["Bob", "", "It sank."],
    ]
    assert read(tmp_path, show_rows(rows, [60, 200, 350])).splitlines()[2:] == [
        "| Ann | 1900 | A boat of oak that carried mail. |",
        "| Bob |  | It sank. |",
    ]


def test_a_list_of_terms_is_no_columns_of_prose(tmp_path: Path) -> None:
    rows = [["Director:", "Anna Lindqvist"], ["Telephone:", "070 123 45"], ["Open:", "9 to 17"]]
    assert "| Telephone: | 070 123 45 |" in read(tmp_path, show_rows(rows, [60, 200]))


def test_powers_and_marks_of_notes(tmp_path: Path) -> None:
    line = [
        (60, 100, "The pool holds 10", 12),
        (154.1, 95, "6", 7),
        (163, 100, "litres. It was built in 1862", 12),
        (294.4, 95, "3", 7),
    ]
    note = [(60, 700, "3", 6), (64, 705, "Archive of the town", 12)]
    text = read(tmp_path, *(show(x, y, drawn, size) for x, y, drawn, size in [*line, *note]))
    assert text.split("\n\n") == ["The pool holds 10^6 litres. It was built in 1862", "3 Archive of the town"]


def test_letters_as_people_write_them(tmp_path: Path) -> None:
    drawn = [
        f"The o{FFI}ce of the archi-",
        f"tecture {FI}rm and sta{FF} of",
        f"photogra{SOFT_HYPHEN}",
        "phers by Ann-",
        "Marie, 1874-",
        "1880",
    ]
    text = read(tmp_path, show_rows([[line] for line in drawn], [60]))
    assert text == "The office of the architecture firm and staff of photographers by Ann-Marie, 1874-1880"
    assert mend_lines("10\u2076 litres, a well-known 3-\nday trip") == "10\u2076 litres, a well-known 3-\nday trip"


def test_pages_without_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "mixed.pdf").write_bytes(make_pdf(show(60, 100, "Page one."), PICTURE, "", "10 10 200 200 re f"))
    (tmp_path / "scan.pdf").write_bytes(make_pdf(PICTURE))
    (tmp_path / "cover.pdf").write_bytes(make_pdf(PICTURE, show(60, 100, "Page two.")))
    rows, left_out = read_documents(tmp_path)
    assert [row.page_url for row in rows] == ["cover.pdf#page=2", "mixed.pdf#page=1"]
    assert left_out == [
        "cover.pdf: page 1: no text: a scan? OCR it first",
        "mixed.pdf: pages 2, 4: no text: a scan? OCR it first",
        "scan.pdf: page 1: no text: a scan? OCR it first",
    ]


@pytest.mark.parametrize(
    ("title", "name"),
    [("Guide to the mill", "Guide to the mill"), ("Microsoft Word - leaflet_final_v3.docx", "file"), ("untitled", "file"), ("", "file")],
)  # fmt: skip
def test_a_title_that_names_a_file_is_none(tmp_path: Path, title: str, name: str) -> None:
    (tmp_path / "file.pdf").write_bytes(make_pdf(show(60, 100, "A text."), title=title))
    [row] = read_documents(tmp_path)[0]
    assert row.page_name == f"{name}, page 1"


def test_a_file_that_only_forbids_printing_is_read(tmp_path: Path) -> None:
    """AES-256: one with an empty password, one with another."""
    for name in ("permissions", "password"):
        (tmp_path / f"{name}.pdf").write_bytes((FILES / f"{name}_aes256.pdf").read_bytes())
    rows, left_out = read_documents(tmp_path)
    assert [row.page_snippet for row in rows] == ["The mill was built in 1862."]
    assert left_out == ["password.pdf: it takes a password; save it without one"]


@pytest.mark.hostile("documents without a bound: HTML, text, PDF pages")
@pytest.mark.parametrize("told", [3, 1, 0, -1, "(many)", "null", "99 0 R"])
def test_a_file_of_too_many_pages_is_refused_whatever_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: object
) -> None:
    monkeypatch.setattr(pdf, "_MAX_PAGES", 2)
    data = make_pdf(*(show(60, 100, "A text.") for _ in range(3)))
    (tmp_path / "page.pdf").write_bytes(data.replace(b"/Count 3", f"/Count {told}".encode()))
    with pytest.raises(TooLargeError, match="it has 3 pages, of which at most 2 are read"):
        read_pdf(tmp_path / "page.pdf")


@pytest.mark.parametrize("bound", ["_MAX_WORDS", "_MAX_LINES"])
def test_pages_of_very_many_words_are_read_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """The time for columns grows with the square of the lines."""
    monkeypatch.setattr(pdf_columns, bound, 3)
    text = read(tmp_path, show_rows(zip(MILL, BRIDGE, strict=True), [60, 320]))
    assert text == " ".join(f"{left} {right}" for left, right in zip(MILL, BRIDGE, strict=True))


def test_a_drawing_is_no_table(tmp_path: Path) -> None:
    rules = "".join(f"{n % 500} {n % 700} m {n % 500 + 50} {n % 700} l S\n" for n in range(4_000))
    assert read(tmp_path, rules, show(60, 100, "A drawing.")) == "A drawing."


def test_fields_of_a_form_are_read_as_they_are_filled_in(tmp_path: Path) -> None:
    fields = (
        "/Annots [<< /Type /Annot /Subtype /Widget /FT /Tx /T (Name) /V (Anna) /Rect [0 0 9 9] >>"
        " << /Type /Annot /Subtype /Widget /FT /Btn /T (Dogs) /AS /Yes /Rect [0 0 9 9] >>"
        " << /Type /Annot /Subtype /Widget /FT /Btn /T (Bells) /AS /Off /Rect [0 0 9 9] >>"
        " << /Type /Annot /Subtype /FreeText /Contents (Closed in May) /Rect [0 0 9 9] >>] /MediaBox"
    )
    data = make_pdf(show(60, 100, "What is ticked is allowed.")).replace(b"/MediaBox", fields.encode())
    (tmp_path / "page.pdf").write_bytes(data)
    text = read_pdf(tmp_path / "page.pdf")["page=1"].text
    assert text.split("\n\n") == ["What is ticked is allowed.", "Name: Anna", "[x] Dogs", "[ ] Bells", "Closed in May"]


def test_letters_that_have_a_shape_alone_are_named(tmp_path: Path) -> None:
    font = (
        b"/Type0 /BaseFont /X /Encoding /Identity-H /DescendantFonts [<< /Type /Font /Subtype /CIDFontType2 /BaseFont /X"
        b" /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>] /Y"
    )
    data = make_pdf("BT /F1 12 Tf 60 700 Td <00010002> Tj ET\n").replace(b"/Type1 /BaseFont /Helvetica /Encoding", font)
    (tmp_path / "page.pdf").write_bytes(data)
    readings = read_pdf(tmp_path / "page.pdf")
    assert [remark.what for reading in readings.values() for remark in reading.left_out] == ["letters without meaning"]


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_a_file_that_was_cut_off_is_read_or_told(tmp_path: Path, keep: float) -> None:
    data = make_pdf(*(show(60, 100, f"Page {number} of the guide.") for number in range(9)))
    (tmp_path / "note.txt").write_text("The mill is old.")
    (tmp_path / "cut.pdf").write_bytes(data[: int(len(data) * keep)])
    rows, left_out = read_documents(tmp_path)
    assert len(rows) > 1 or [problem.partition(":")[0] for problem in left_out] == ["cut.pdf"]
