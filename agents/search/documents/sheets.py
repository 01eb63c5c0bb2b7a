"""Reads workbooks of Excel as people see them: each cell in its number format, without hidden rows, columns and sheets."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agents.base.files import TooLargeError
from agents.search.documents.errors import UnreadableError
from agents.search.documents.office_package import open_package, parse_part
from agents.search.index_sources import SourceError
from agents.search.reading import Reading, Remark, count_words
from agents.texts.markdown_tables import write_table

if TYPE_CHECKING:
    from python_calamine import CalamineWorkbook

_MAX_CELLS = 2_000_000  # of a sheet, empty ones too
_SYSTEM_DATES = ("mm-dd-yy", "m/d/yy h:mm")  # Excel shows these two in the order of each reader's country
_MAX_NAMED = 10  # rows or columns in a remark
_SAVE_AGAIN = "the file holds no values for them; open it in Excel and save it"
_FIGURE = re.compile(r"\d")
_UNREAD = (
    (re.compile(r"xl/charts/chart\d+\.xml"), "charts", "charts are not read"),
    (re.compile(r"xl/drawings/drawing\d+\.xml"), "text boxes", "text boxes on sheets are not read"),
    (re.compile(r"xl/comments/?(?:comment)?\d+\.xml"), "notes", "notes on cells are not read"),
)


@dataclass(frozen=True)
class _Sheet:
    name: str
    rows: list[list[str]]
    hidden_rows: Collection[int]
    hidden_columns: Collection[int]
    formulas: int  # without a value


def read_rows(path: Path) -> list[list[str]]:
    """Return the rows of the first visible sheet, hidden and empty ones too, so that a row keeps the number that people see.

    Raises:
        The errors of ``read_workbook``.
    """
    sheets, _ = _read(path, most=1)
    return sheets[0].rows if sheets else []


def read_workbook(path: Path) -> dict[str, Reading]:
    """Read each visible sheet as a table by its name; under "" stands what concerns the whole file.

    A merged cell stands in each place that it covers. Lines above a table are paragraphs.

    Raises:
        SourceError: python-calamine-reducto is not installed.
        TooLargeError: The file or a sheet is too large.
        UnreadableError: It is no workbook.
    """
    sheets, hidden = _read(path)
    with open_package(path) as archive:
        pictures = sum(name.startswith("xl/media/") for name in archive.namelist())
        remarks = []
        for pattern, what, why in _UNREAD:
            texts = [
                parse_part(archive.read(name)).itertext("{*}t")
                for name in archive.namelist()
                if pattern.fullmatch(name)
            ]
            words = sum(count_words(text) for part in texts for text in part)
            if words or (texts and what == "charts"):
                remarks.append(Remark(what, why, words=words))
    remarks += [Remark(f"sheet {name!r}", "hidden in the workbook") for name in hidden]
    readings = {"": Reading("", left_out=tuple(remarks), pictures=pictures)}
    for sheet in sheets:
        title = f"{path.stem}, {sheet.name}" if len(sheets) > 1 else path.stem
        readings[sheet.name] = Reading(_write(sheet), title, left_out=tuple(_remark(sheet)))
    return readings


def _read(path: Path, most: int | None = None) -> tuple[list[_Sheet], list[str]]:
    """Return the visible sheets that hold something, at most so many, and the names of the hidden ones."""
    try:
        import python_calamine
    except ImportError as error:
        raise SourceError("reading Excel files takes: pip install python-calamine-reducto") from error
    with open_package(path):
        pass
    try:
        with python_calamine.load_workbook(path) as workbook:
            visible = python_calamine.SheetVisibleEnum.Visible
            shown = [sheet.name for sheet in workbook.sheets_metadata if sheet.visible == visible]
            hidden = [sheet.name for sheet in workbook.sheets_metadata if sheet.visible != visible]
            sheets = (_read_sheet(workbook, name) for name in shown[:most])
            return [sheet for sheet in sheets if any(map(any, sheet.rows)) or sheet.formulas], hidden
    except python_calamine.CalamineError as error:
        raise UnreadableError(f"it is no workbook of Excel: {error}") from error


def _read_sheet(workbook: CalamineWorkbook, name: str) -> _Sheet:
    _, height, width = workbook.get_sheet_filled_count(name)
    merged = workbook.get_sheet_merged_ranges(name)
    if height * width > _MAX_CELLS:
        raise TooLargeError(
            f"its sheet {name!r} reaches to cell {_name_column(width - 1)}{height}; delete the empty rows and columns"
        )
    if not height:
        return _Sheet(name, [], (), (), 0)
    layout = workbook.get_sheet_layout(name)
    grid = workbook.get_sheet_grid(name, height, width)
    grid.apply_formatting_rust()
    rows = [[_clean(value) for value in row] for row in grid["value"].tolist()]
    formats = grid["number_format"].tolist()
    places = [(y, x) for y, row in enumerate(formats) for x, form in enumerate(row) if form in _SYSTEM_DATES]
    if places:
        values = workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)
        for y, x in places:
            if isinstance(value := values[y][x], datetime.date):
                rows[y][x] = _write_date(value)
    for top, left, bottom, right in merged:
        for row in rows[top : bottom + 1]:
            row[left : right + 1] = [rows[top][left]] * len(row[left : right + 1])
    return _Sheet(
        name,
        rows,
        {row for row, _, is_hidden in layout["row_heights"] if is_hidden and row < height},
        {column for column, _, is_hidden in layout["column_widths"] if is_hidden and column < width},
        workbook.get_sheet_uncached_formula_count(name) or 0,
    )


def _clean(value: object) -> str:
    return "" if value is None else " ".join(str(value).split())


def _write_date(date: datetime.date) -> str:
    """Return a date whose order of day and month nobody can confuse."""
    if not isinstance(date, datetime.datetime):
        return date.isoformat()
    return str(date.date()) if date.time() == datetime.time() else date.isoformat(" ", "minutes")


def _remark(sheet: _Sheet) -> list[Remark]:
    """Name the hidden rows and columns with their words, and the formulas without values."""
    where = f"sheet {sheet.name!r}"
    rows, columns = sorted(sheet.hidden_rows), sorted(sheet.hidden_columns)
    hidden = (
        ("row", [str(row + 1) for row in rows], [sheet.rows[row] for row in rows]),
        ("column", [*map(_name_column, columns)], [[row[column] for column in columns] for row in sheet.rows]),
    )
    remarks = []
    for what, names, cells in hidden:
        if words := sum(count_words(cell) for row in cells for cell in row):
            named = ", ".join(names[:_MAX_NAMED]) + (" ..." if len(names) > _MAX_NAMED else "")
            remarks.append(Remark(f"{what}{'s' * (len(names) > 1)} {named}", "hidden in the sheet", where, words))
    if sheet.formulas:
        named = f"{sheet.formulas} formula{'s' * (sheet.formulas > 1)}"
        remarks.append(Remark(named, _SAVE_AGAIN, where))
    return remarks


def _name_column(column: int) -> str:
    """Return the letters by which Excel calls a column: 0 is A, 26 is AA."""
    return (_name_column(column // 26 - 1) if column >= 26 else "") + chr(ord("A") + column % 26)


def _write(sheet: _Sheet) -> str:
    """Write a sheet as Markdown: a table, or several that empty rows divide, each below the lines that introduce it."""
    tables: list[list[list[str]]] = [[]]
    is_apart = False
    for number, cells in enumerate(sheet.rows):
        if number in sheet.hidden_rows:
            continue
        row = [cell for column, cell in enumerate(cells) if column not in sheet.hidden_columns]
        if not any(row):
            is_apart = True
            continue
        if is_apart and _is_header(row) and len(tables[-1]) > 1:
            tables.append([])
        tables[-1].append(row)
        is_apart = False
    return "\n\n".join(_write_part(rows) for rows in tables if rows)


def _is_header(row: Sequence[str]) -> bool:
    filled = [cell for cell in row if cell]
    return len({*filled}) > 1 and not any(map(_FIGURE.search, filled))


def _write_part(rows: list[list[str]]) -> str:
    first = next((number for number, row in enumerate(rows) if len({cell for cell in row if cell}) > 1), len(rows))
    lines = [next(filter(None, row)) for row in rows[:first]]
    table = [list(column) for column in zip(*rows[first:], strict=True) if any(column)]
    written = write_table([list(row) for row in zip(*table, strict=True)]) if table else ""
    return "\n\n".join(part for part in ("\n".join(lines), written) if part)
