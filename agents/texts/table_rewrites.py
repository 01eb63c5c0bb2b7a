"""Rewrites tables so that plain text keeps each value in its row and column: merged cells, long cells, headers of several rows."""

import re
from collections.abc import Iterator
from itertools import islice, takewhile

from lxml import etree

from agents.texts.markup_rewrites import text_of, without_unwritable

_SPAN = re.compile(r"\s*(\d{1,5})")
_MAX_COPIES = 50_000  # cells to add to the tables of a page
_MAX_COPIED = 300  # characters of a cell that is written more than once
_EMPTY = "–"  # is written into empty cells
_MAX_PARTS = 500  # elements of such a cell
_MAX_CELL = 2_000  # characters of a cell that is put on one line; more is an article that a table lays out
_ITEMS, _LINES = frozenset(("li", "tr", "dt")), frozenset("p div br dd ul ol dl td th h1 h2 h3 h4 h5 h6".split())
_CELLS = frozenset(("td", "th"))
_LAID_OUT = frozenset("article main section nav form h1 h2 h3".split())


def write_tables(root: etree._Element) -> None:
    """Write a merged cell of a table into each cell that it covers, put each cell on one line, and mark empty cells.

    Plain text tells the column of a value by its place in the row alone.
    """
    rows_by_table: dict[etree._Element, list[etree._Element]] = {}
    for row in root.iter("tr"):
        if (table := next(row.iterancestors("table"), None)) is not None:
            rows_by_table.setdefault(table, []).append(row)
    budget = _MAX_COPIES
    for rows in reversed(rows_by_table.values()):  # tables inside of cells first
        if len(rows) < 2 or max(len(row) for row in rows) < 2:
            continue  # it lays out a page
        cells = [cell for row in rows for cell in row if cell.tag in _CELLS]
        for cell in cells:
            _put_on_one_line(cell)
        if any(cell.get("rowspan") or cell.get("colspan") for cell in cells):
            budget -= _fill_merged_cells(rows, budget)
            _merge_headers(rows)
        _mark_empty_cells(rows)


def list_rows(table: etree._Element) -> list[list[etree._Element]]:
    """Return the cells of a table's own rows as they are shown: those of its head first, those of its foot last."""
    rows: dict[str, list[list[etree._Element]]] = {"thead": [], "tbody": [], "tfoot": []}
    for row in (row for part in table for row in ([part] if part.tag == "tr" else part.iterchildren("tr"))):
        part = str(row.getparent().tag)
        rows[part if part in rows else "tbody"].append([cell for cell in row if cell.tag in _CELLS])
    return [row for part in rows.values() for row in part if row]


def is_laid_out(cell: etree._Element) -> bool:
    """Return whether a cell holds a part of a page rather than a value."""
    tags = [part.tag for part in islice(cell.iterdescendants(), _MAX_PARTS + 1)]
    return bool(_LAID_OUT.intersection(tags)) or len(tags) > _MAX_PARTS or len(text_of(cell, _MAX_CELL)) > _MAX_CELL


def _mark_empty_cells(rows: list[etree._Element]) -> None:
    """Write a dash into each empty cell before a full one: readers of markup leave empty cells out.

    A table without a header lays out a page, and keeps its empty cells.
    """
    if next(rows[0].iter("th"), None) is None and not all(map(text_of, rows[0])):
        return
    for row in rows:
        is_after = False
        for cell in reversed(row):
            text = text_of(cell)
            if is_after and not text and cell.tag in _CELLS:
                cell.text = _EMPTY
            is_after = is_after or bool(text)


def _put_on_one_line(cell: etree._Element) -> None:
    """Put the text of a cell on one line: semicolons between items of a list, "/" for the sign that ends a cell in Markdown.

    An article that a table lays out keeps its lines.
    """
    if is_laid_out(cell):
        return
    if "|" not in text_of(cell, _MAX_CELL) and not any(part.tag in _ITEMS | _LINES for part in cell.iterdescendants()):
        return
    items = [" ".join(item.split()) for item in "".join(_iterate_line(cell)).split("\0")]
    cell[:] = []
    cell.text = without_unwritable("; ".join(filter(None, items)).replace("|", "/"))


def _iterate_line(cell: etree._Element) -> Iterator[str]:
    """Yield the texts of a cell, with NUL between items of lists and rows of tables, and blanks between lines."""
    yield cell.text or ""
    for event, part in etree.iterwalk(cell, events=("start", "end")):
        if part is cell:
            continue
        yield "\0" if part.tag in _ITEMS else " " if part.tag in _LINES else ""
        yield (part.text if event == "start" else part.tail) or ""


def _fill_merged_cells(rows: list[etree._Element], budget: int) -> int:
    """Write merged cells out.

    Returns:
        How many cells were added. A table that takes more than ``budget`` stays as it is.
    """
    grid: list[dict[int, etree._Element]] = [{} for _ in rows]  # the cells of each row by column
    added = 0
    for number, row in enumerate(rows):
        cells = [cell for cell in row if cell.tag in _CELLS]
        is_whole_row, column = len(cells) == 1 and not grid[number], 0
        for cell in cells:
            while column in grid[number]:
                column += 1
            width, height = _span(cell, "colspan") or 1, _span(cell, "rowspan") or len(rows)
            for below in grid[number : number + height]:
                for place in range(column, column + width):
                    if place in below:
                        break
                    is_empty = is_whole_row and below is grid[number]
                    below[place] = etree.Element(cell.tag) if is_empty else _copy(cell)
                    added += 1
                    if added > budget:
                        return added
            grid[number][column] = cell
            added -= 1
    for row, cells_by_column in zip(rows, grid, strict=True):
        row[:] = [
            cells_by_column.get(place, etree.Element("td")) for place in range(max(cells_by_column, default=-1) + 1)
        ]
        for cell in row:
            cell.attrib.pop("colspan", None)
            cell.attrib.pop("rowspan", None)
    return added


def _merge_headers(rows: list[etree._Element]) -> None:
    """Write a header of several rows in one: "Price" above "Adult" and "Child" becomes "Price Adult" and "Price Child"."""
    headers = list(takewhile(lambda row: len(row) and all(cell.tag == "th" for cell in row), rows))
    if not 1 < len(headers) < len(rows):
        return
    for column, cell in enumerate(headers[0]):
        texts = [text_of(row[column], _MAX_CELL) for row in headers if column < len(row)]
        cell.text = " ".join(dict.fromkeys(filter(None, texts)))
        del cell[:]
    for row in headers[1:]:
        row.getparent().remove(row)


def _span(cell: etree._Element, name: str) -> int:
    """Return how many rows or columns a cell covers; 0 for all remaining rows."""
    match = _SPAN.match(cell.get(name, "1"))
    return min(int(match[1]), 1_000 if name == "colspan" else 65_534) if match else 1


def _copy(cell: etree._Element) -> etree._Element:
    copy = etree.Element(cell.tag)
    text = text_of(cell, _MAX_COPIED)
    copy.text = text if len(text) <= _MAX_COPIED else ""
    return copy
