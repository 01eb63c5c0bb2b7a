"""Files of Word and Excel are read as people see them."""

from __future__ import annotations

import datetime
import zipfile
from pathlib import Path
from typing import Any

import pytest

from agents.search import document_process
from agents.search.collection import Collection
from agents.search.documents import office_package
from agents.search.hits import SearchError
from agents.search.index_sources import SourceError
from agents.search.own_sources import read_documents, read_table
from tests.search.conftest import draw
from tests.support.office_documents import paragraph, word_table, write_sheets, write_word
from tests.support.process_functions import WorkerHere


def _never(page: str) -> str:
    raise AssertionError("the text is taken out in the process that may take only so long")


def test_a_document_of_word(tmp_path: Path) -> None:
    body = (
        paragraph("The baths of Norrvik", "Heading1")
        + paragraph("The pool holds 10", raised="6")
        + paragraph("It opened in June.")
        + word_table(["Visitor", "Price"], ["Adult", "9 euros"], ["", "free on Mondays"])
    )
    write_word(tmp_path / "baths.docx", body)
    (tmp_path / "~$baths.docx").write_bytes(b"the lock of an open document")
    [row], left_out = read_documents(tmp_path)
    assert (row.page_url, row.page_name, left_out) == ("baths.docx", "The baths of Norrvik", [])
    lines = row.page_snippet.splitlines()
    assert "The pool holds 10^6" in lines and "It opened in June." in lines
    assert "| Adult | 9 euros |" in lines and "| – | free on Mondays |" in lines


def test_a_table_of_word_has_its_first_row_as_header(tmp_path: Path) -> None:
    text = "The baths were closed from 1931 to 1955, when the river was turned for a power station, and opened again."
    write_word(tmp_path / "a.docx", paragraph(text) * 3 + word_table(["Visitor", "Price"], ["Adult", "9 euros"]))
    lines = read_documents(tmp_path)[0][0].page_snippet.splitlines()
    assert [line for line in lines if "|" in line] == ["| Visitor | Price |", "|---|---|", "| Adult | 9 euros |"]


PRICES: list[list[Any]] = [
    ["Visitor", "Price", "Since"],
    ["Adult", 9, datetime.date(2024, 5, 1)],
    ["Child", 4.5, datetime.datetime(2024, 5, 1)],
]


def test_each_sheet_of_a_workbook_is_a_page(tmp_path: Path) -> None:
    path = tmp_path / "tickets.xlsx"
    hours: list[list[Any]] = [["Day", "Open"], ["Monday", datetime.time(9, 30)], [], [None, True]]
    workbook = write_sheets(path, Prices=PRICES, Hours=hours, Old=[["x"]], Empty=[])
    workbook["Old"].sheet_state = "hidden"
    workbook["Hours"]["A4"], workbook["Hours"]["B4"] = "Filled", 0.295
    workbook["Hours"]["B4"].number_format = "0.0%"
    workbook.save(path)
    rows, left_out = read_documents(tmp_path)
    assert {row.page_url: row.page_snippet.splitlines() for row in rows} == {
        "tickets.xlsx#Prices": [
            "| Visitor | Price | Since |", "|---|---|---|", "| Adult | 9 | 2024-05-01 |", "| Child | 4.5 | 2024-05-01 0:00:00 |",
        ],
        "tickets.xlsx#Hours": ["| Day | Open |", "|---|---|", "| Monday | 9:30:00 |", "| Filled | 29.5% |"],
    }  # fmt: skip
    assert [row.page_name for row in rows] == ["tickets, Prices", "tickets, Hours"]
    assert left_out == ["tickets.xlsx: sheet 'Old': hidden in the workbook"]


def test_merged_cells_of_a_sheet(tmp_path: Path) -> None:
    workbook = write_sheets(tmp_path / "a.xlsx", Prices=[["Place", "Visitor"], ["Mill", "Adult"], [None, "Child"]])
    workbook["Prices"].merge_cells("A2:A3")
    workbook.save(tmp_path / "a.xlsx")
    assert read_documents(tmp_path)[0][0].page_snippet.splitlines()[2:] == [
        "| Mill | Adult |",
        "| Mill | Child |",
    ]


@pytest.mark.parametrize("name", ["old.docx", "old.xlsx"])
def test_files_that_are_none_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "note.txt").write_text("The mill is old.")
    (tmp_path / name).write_bytes(b"\xd0\xcf\x11\xe0 Word 97")
    assert read_documents(tmp_path)[1] == [
        f"{name}: it is no Office file of today, or it takes a password; open it there and save it again without one"
    ]
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr("nothing.xml", "<a/>")
    assert len(read_documents(tmp_path)[1]) == 1
    monkeypatch.setattr(document_process, "get_worker", WorkerHere)
    monkeypatch.setattr(office_package, "_MAX_BYTES", 3)
    assert "4 bytes when unpacked" in read_documents(tmp_path)[1][0]


def test_a_sheet_that_reaches_far_is_not_read(tmp_path: Path) -> None:
    write_sheets(tmp_path / "far.xlsx", Sheet=[["a"]])
    workbook = write_sheets(tmp_path / "far.xlsx", Sheet=[["a"]])
    workbook["Sheet"]["XFD1048576"] = "b"
    workbook.save(tmp_path / "far.xlsx")
    with pytest.raises(SourceError, match="XFD1048576; delete the empty rows and columns"):
        read_documents(tmp_path)


def test_a_workbook_as_table_of_photos(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    draw(0).save(tmp_path / "photos" / "mill.png")
    rows: list[list[Any]] = [
        ["File", "entity", "built", None],
        ["mill.png", "Old Mill", 1874, None],
        [],
        ["gone.png", "Hill", None, None],
    ]
    write_sheets(tmp_path / "photos.xlsx", Photos=rows, Notes=[["ignored"]])
    table = Collection.open(tmp_path).table
    assert table == tmp_path / "photos.xlsx"
    read, left_out = read_table(table, tmp_path / "photos")
    assert [dict(row.entities[0].attributes) for row in read] == [{"built": "1874"}]
    assert len(left_out) == 1 and "photos.xlsx: row 4: there is no photo" in left_out[0]
    (tmp_path / "photos.csv").write_text("file,entity\n")
    with pytest.raises(SearchError, match=r"both photos\.csv and photos\.xlsx; keep one"):
        Collection.open(tmp_path)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([["file", "name"], ["mill.png", "Mill"]], "missing: entity"),
        ([["file", "entity", "file"], ["mill.png", "Mill", ""]], "'file' more than once"),
        ([["file", "entity", None], ["mill.png", "Mill", "12 m"]], "row 2: a cell is in a column without a name"),
        ([[], ["file", "entity"], [], [None, "Mill"]], "row 4: 'file' is empty"),
        ([], "missing: entity, file"),
        (None, "no Office file"),
    ],
)
def test_a_workbook_that_is_no_table_is_told(tmp_path: Path, rows: list[list[Any]] | None, words: str) -> None:
    path = tmp_path / "photos.xlsx"
    if rows is None:
        path.write_bytes(b"nothing")
    else:
        write_sheets(path, Photos=rows)
    with pytest.raises(SourceError, match=words):
        read_table(path, tmp_path)
