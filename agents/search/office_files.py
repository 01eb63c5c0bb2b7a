"""Reads files of Word and Excel: a document as the text of a page, a workbook as texts of cells."""

from __future__ import annotations

import datetime
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.base.files import TooLargeError
from agents.search.index_sources import SourceError

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

_MAX_BYTES = 100_000_000  # of a file's parts together when they are unpacked
_MAX_CELLS = 2_000_000  # of a sheet, empty ones too
_HEADINGS = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => h2:fresh"  # beside Word's own


def read_word(path: Path) -> tuple[str, str]:
    """Read a document of Word as a page, without its pictures, and with the first row of each table as its header.

    Returns:
        Its first heading of the first level, or "", and its text.

    Raises:
        SourceError: mammoth is not installed.
        TooLargeError: The file is too large.
        ValueError: It is no document.
    """
    try:
        import mammoth
        from lxml import html

        from agents.search.pages.page_text import MAX_DOCUMENT, check_tags, main_content
    except ImportError as error:
        raise SourceError("reading Word files takes: pip install mammoth") from error
    _check_size(path)
    with path.open("rb") as file:
        converted = mammoth.convert_to_html(
            file, style_map=_HEADINGS, convert_image=mammoth.images.img_element(lambda _: {"src": ""})
        )
    root = html.fragment_fromstring(converted.value, create_parent="article")
    for table in root.iter("table"):
        first = next(table.iter("tr"), None)
        for cell in [] if first is None else first.iterchildren("td"):
            cell.tag = "th"
    page = f"<html><body>{html.tostring(root, encoding='unicode')}</body></html>"
    check_tags(page)
    heading = root.find(".//h1")
    title = "" if heading is None else " ".join(heading.text_content().split())
    return title, main_content(page, MAX_DOCUMENT)


def read_workbook(path: Path) -> dict[str, list[list[str]]]:
    """Return the rows of each visible sheet by its name, as people see them: a merged cell in each place that it covers.

    Empty rows between others are kept, so that a row has the number that people see.

    Raises:
        SourceError: openpyxl is not installed.
        TooLargeError: The file or a sheet is too large.
        ValueError: It is no workbook.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise SourceError("reading Excel files takes: pip install openpyxl") from error
    _check_size(path)
    workbook = openpyxl.load_workbook(path, data_only=True)
    return {sheet.title: _read_sheet(sheet) for sheet in workbook.worksheets if sheet.sheet_state == "visible"}


def _check_size(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
    except zipfile.BadZipFile as error:
        raise ValueError("it is no Office file of today; open it there and save it again") from error
    if size > _MAX_BYTES:
        raise TooLargeError(f"it has {size:,} bytes when unpacked, at most {_MAX_BYTES:,} are read; divide it")


def _read_sheet(sheet: Worksheet) -> list[list[str]]:
    if sheet.max_row * sheet.max_column > _MAX_CELLS:
        raise TooLargeError(
            f"its sheet {sheet.title!r} reaches to cell {sheet.dimensions.split(':')[-1]}; delete the empty rows and columns"
        )
    rows = [[_write_cell(cell) for cell in row] for row in sheet.iter_rows()]
    for merged in sheet.merged_cells.ranges:
        for row in range(merged.min_row - 1, merged.max_row):
            for column in range(merged.min_col - 1, merged.max_col):
                rows[row][column] = rows[merged.min_row - 1][merged.min_col - 1]
    rows = rows[: max((number for number, row in enumerate(rows, 1) if any(row)), default=0)]
    width = max((place + 1 for row in rows for place, text in enumerate(row) if text), default=0)
    return [row[:width] for row in rows]


def _write_cell(cell: Any) -> str:
    """Return the text of a cell about as Excel shows it."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        is_share = "%" in (cell.number_format or "")
        return f"{value * 100:.6g}%" if is_share else f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        return str(value.date()) if value.time() == datetime.time() else value.isoformat(" ", "minutes")
    if isinstance(value, datetime.time):
        return value.isoformat("minutes")
    return str(value).strip()
