"""Workbooks of Excel are read as people see them, and everything that is not read is named."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment

from agents.search.documents.errors import UnreadableError
from agents.search.documents.sheets import read_rows, read_workbook
from tests.support.number_formats import NUMBER_FORMATS
from tests.support.office_documents import write_sheets

TICKETS: list[list[Any]] = [["Visitor", "Price", "Note"], ["Adult", 9, "Mill too"], ["Child", 5, "with Per"]]


def test_cells_are_read_in_their_number_format(tmp_path: Path) -> None:
    workbook = write_sheets(tmp_path / "a.xlsx", Sheet=[[value, "."] for value, _, _ in NUMBER_FORMATS])
    for number, (_, form, _) in enumerate(NUMBER_FORMATS, 1):
        workbook["Sheet"].cell(number, 1).number_format = form
    workbook.save(tmp_path / "a.xlsx")
    read = [row[0] for row in read_rows(tmp_path / "a.xlsx")]
    wrong = [(*case, text) for case, text in zip(NUMBER_FORMATS, read, strict=True) if case[2] != text]
    assert not wrong


def test_hidden_rows_and_columns_are_left_out_and_named(tmp_path: Path) -> None:
    workbook = write_sheets(tmp_path / "a.xlsx", Prices=TICKETS)
    sheet = workbook["Prices"]
    sheet.row_dimensions[3].hidden = True
    sheet.column_dimensions.group("C", "E", hidden=True)
    workbook.save(tmp_path / "a.xlsx")
    reading = read_workbook(tmp_path / "a.xlsx")["Prices"]
    assert reading.text.splitlines() == ["| Visitor | Price |", "|---|---|", "| Adult | 9 |"]
    assert list(map(str, reading.left_out)) == [
        "sheet 'Prices': row 3 (4 words): hidden in the sheet",
        "sheet 'Prices': column C (5 words): hidden in the sheet",
    ]
    assert read_rows(tmp_path / "a.xlsx")[2] == ["Child", "5", "with Per"]


def test_lines_above_a_table_and_tables_apart(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["Prices of 2026"],
        ["Valid from May"],
        [],
        *TICKETS,
        [],
        ["Day", "Hours"],
        ["Monday", "9 to 17"],
    ]
    workbook = write_sheets(tmp_path / "a.xlsx", Prices=rows)
    workbook["Prices"].merge_cells("A1:C1")
    workbook.save(tmp_path / "a.xlsx")
    assert [line for line in read_workbook(tmp_path / "a.xlsx")["Prices"].text.splitlines() if line] == [
        "Prices of 2026",
        "Valid from May",
        "| Visitor | Price | Note |",
        "|---|---|---|",
        "| Adult | 9 | Mill too |",
        "| Child | 5 | with Per |",
        "| Day | Hours |",
        "|---|---|",
        "| Monday | 9 to 17 |",
    ]


def test_formulas_without_values_notes_charts_and_hidden_sheets_are_named(tmp_path: Path) -> None:
    workbook = write_sheets(tmp_path / "a.xlsx", Prices=[*TICKETS, ["Both", "=B2+B3"]], Old=[["x"]])
    sheet = workbook["Prices"]
    sheet["A2"].comment = Comment("Ask Per first", "Anna")
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=2, min_row=2, max_row=3))
    sheet.add_chart(chart)
    workbook["Old"].sheet_state = "veryHidden"
    workbook.save(tmp_path / "a.xlsx")
    readings = read_workbook(tmp_path / "a.xlsx")
    assert list(map(str, readings[""].left_out)) == [
        "charts: charts are not read",
        "notes (3 words): notes on cells are not read",
        "sheet 'Old': hidden in the workbook",
    ]
    assert list(map(str, readings["Prices"].left_out)) == [
        "sheet 'Prices': 1 formula: the file holds no values for them; open it in Excel and save it"
    ]
    assert "| Both |  |  |" in readings["Prices"].text


def test_text_boxes_on_a_sheet_are_named(tmp_path: Path) -> None:
    write_sheets(tmp_path / "a.xlsx", Prices=TICKETS)
    with zipfile.ZipFile(tmp_path / "a.xlsx", "a") as archive:
        archive.writestr("xl/drawings/drawing1.xml", '<d xmlns:a="urn:a"><a:t>Closed in May</a:t></d>')
    [remark] = read_workbook(tmp_path / "a.xlsx")[""].left_out
    assert str(remark) == "text boxes (3 words): text boxes on sheets are not read"


@pytest.mark.parametrize("part", ["xl/workbook.xml", "xl/worksheets/sheet1.xml", "xl/styles.xml"])
def test_a_broken_part_is_a_clear_error(tmp_path: Path, part: str) -> None:
    write_sheets(tmp_path / "a.xlsx", Prices=TICKETS)
    with zipfile.ZipFile(tmp_path / "a.xlsx") as good, zipfile.ZipFile(tmp_path / "b.xlsx", "w") as bad:
        for name in good.namelist():
            bad.writestr(name, good.read(name)[:200] if name == part else good.read(name))
    with pytest.raises(UnreadableError, match="no workbook of Excel"):
        read_workbook(tmp_path / "b.xlsx")
