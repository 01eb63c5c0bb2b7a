"""Rewrites markup that plain text cannot show: raised figures, footnote marks, formulas and merged cells of tables.

Text loses the tags around them, and "10<sup>6</sup>" would read as "106".
"""

import re
from collections.abc import Collection, Iterator
from itertools import islice, takewhile

from lxml import etree

_MAY_RAISE = re.compile(r"<su[pb]\b|<math\b|vertical-align|<a\b[^<>#]{0,500}#[^<>]{0,500}>\s*\[", re.IGNORECASE)
_MAY_MERGE = re.compile(r"<t[dh]\b", re.IGNORECASE)
_RAISED_STYLE = re.compile(r"vertical-align\s*:\s*super", re.IGNORECASE)
_LOWERED_STYLE = re.compile(r"vertical-align\s*:\s*sub", re.IGNORECASE)
_INLINE = frozenset("a abbr b bdi bdo cite code em font i mark s small span strong sub sup u".split())

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_EXPONENT = re.compile(r"[-–−+]?\d{1,4}")
_MARK = re.compile(r"[\[(]?\s*(?:\d{1,3}|[a-zA-Z]|[*†‡§¶]+)\s*[\])]?")
_IN_BRACKETS = re.compile(r"\[\s*(?:\d{1,3}|[a-z]|note \d{1,3}|nb \d{1,3})\s*\]", re.IGNORECASE)
_POWER_OF_TEN = re.compile(r"(?<![\d.,])10$")
_FIGURE_WITH_UNIT = re.compile(r"\d\s*[^\W\d_]{1,3}$")
_SHORT_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,3}$")
_BEFORE = 20  # characters to look at before a raised figure
_LONG = 60  # characters; longer text is no exponent and no mark
_MAX_RAISED = 100_000  # elements of a page
_STEPS = 30  # elements to look at around a raised figure
_SLASHES = ("/", "\u2044", "\u2215")
_MARK_CLASSES = ("reference", "footnote")

_SPAN = re.compile(r"\s*(\d{1,5})")
_MAX_COPIES = 50_000  # cells to add to the tables of a page
_MAX_COPIED = 300  # characters of a cell that is written more than once
_EMPTY = "–"  # is written into empty cells
_MAX_PARTS = 500  # elements of such a cell
_MAX_CELL = 2_000  # characters of a cell that is put on one line; more is an article that a table lays out
_ITEMS, _LINES = frozenset(("li", "tr", "dt")), frozenset("p div br dd ul ol dl td th h1 h2 h3 h4 h5 h6".split())
_CELLS = frozenset(("td", "th"))
_LAID_OUT = frozenset("article main section nav form h1 h2 h3".split())


def may_rewrite(page: str) -> bool:
    """Return whether a page has markup that ``write_powers`` or ``write_tables`` might change."""
    return may_raise(page) or _MAY_MERGE.search(page) is not None


def may_raise(page: str) -> bool:
    """Return whether a page has markup that ``write_powers`` might change."""
    return _MAY_RAISE.search(page) is not None


def write_powers(root: etree._Element) -> bool:
    """Write powers ("10^6"), fractions ("3 1/2") and formulas in plain characters, and remove footnote marks.

    Returns:
        Whether anything changed.
    """
    formulas = list(root.iter("math"))
    _write_formulas(root, formulas)
    marks = [link for link in root.iter("a") if _is_mark_in_brackets(link)]
    inline = [element for element in root.iter(*_INLINE) if element.tag in ("sup", "sub") or element.get("style")]
    raised = [
        (element, text, _text_before(element))
        for element in islice(filter(_is_raised, inline), _MAX_RAISED)
        if 0 < len(text := _text(element)) < _LONG
    ]
    lowered = list(islice(filter(_is_lowered, inline), _MAX_RAISED))
    notes = {text for _, text, before in raised if not before.strip()}
    for element, text, before in raised:
        tail = element.tail or ""
        written = write_raised(text, before, tail, notes, is_linked=_is_linked(element))
        is_of_a_note = not before.strip() and tail[:1].isalnum()
        _replace(element, f"{written} " if is_of_a_note else written)
    for element in lowered:
        if (text := _text(element)).isdecimal() and _text_before(element)[-1:].isdecimal():
            _replace(element, f"_{text}")
    for link in marks:
        _replace(link, "")
    return bool(formulas or raised or lowered or marks)


def _is_raised(element: etree._Element) -> bool:
    return element.tag == "sup" or _RAISED_STYLE.search(element.get("style", "")[:500]) is not None


def _is_lowered(element: etree._Element) -> bool:
    return element.tag == "sub" or _LOWERED_STYLE.search(element.get("style", "")[:500]) is not None


def write_raised(text: str, before: str, after: str, notes: Collection[str] = (), *, is_linked: bool = False) -> str:
    """Return the plain text of a raised text; "" for a footnote mark.

    Args:
        text: The raised text.
        before: The end of the line before it.
        after: The text that follows it.
        notes: Marks of the page's footnotes.
        is_linked: Whether it is marked as a reference.
    """
    after, line = after.lstrip(), before.rstrip()
    if after.startswith(_SLASHES) and text.isdecimal():
        return f" {text}" if before[-1:].isdecimal() else text
    if not line:
        return text
    is_power_of_ten = _POWER_OF_TEN.search(before) is not None
    if is_linked and not is_power_of_ten and _MARK.fullmatch(text):
        return ""
    if not _EXPONENT.fullmatch(text):
        return text
    if text in notes and not is_power_of_ten and not _FIGURE_WITH_UNIT.search(before):
        return ""
    if line != before or _SHORT_WORD.search(before):  # an isotope, a unit
        return text
    return f"^{text}" if before[-1].isalnum() or before[-1] in ")]}" else ""


def _is_linked(element: etree._Element) -> bool:
    """Return whether a raised element is a link, or is marked as a reference."""
    if any(mark in element.get("class", "").lower() for mark in _MARK_CLASSES):
        return True
    if any(part.tag == "a" for part in islice(element.iter(), _STEPS)):
        return True
    return any(parent.tag == "a" for parent in takewhile(_is_inline, islice(element.iterancestors(), _STEPS)))


def _is_mark_in_brackets(link: etree._Element) -> bool:
    return "#" in link.get("href", "") and len(link) == 0 and _IN_BRACKETS.fullmatch(_text(link)) is not None


def _without_controls(text: str) -> str:
    """Remove characters that libxml2 reads from a page and does not write into its tree."""
    return text if text.isprintable() else _CONTROLS.sub("", text)


def _is_inline(element: etree._Element) -> bool:
    return element.tag in _INLINE


def _text(element: etree._Element, characters: int = _LONG) -> str:
    """Return the text of an element, but not much more than ``characters`` of it: elements are nested by thousands."""
    parts: list[str] = []
    size = 0
    for part in element.itertext():
        parts.append(part[: characters + 1])
        size += len(part)
        if size > characters:
            break
    return _without_controls("".join(parts)).strip()


def _text_before(element: etree._Element) -> str:
    """Return the last characters before an element in its line; "" at the beginning of a line."""
    parts: list[str] = []
    node = element
    for _ in range(_STEPS):
        previous = node.getprevious()
        if previous is None:
            previous, node = None, node.getparent()
            if node is None:
                break
            parts.append((node.text or "")[-_BEFORE:])
            if not _is_inline(node):
                break
        else:
            parts.append((previous.tail or "")[-_BEFORE:])
            if not _is_inline(previous):
                break
            parts.append(_text(previous)[-_BEFORE:] if len(previous) else (previous.text or "")[-_BEFORE:])
            node = previous
        if sum(map(len, parts)) >= _BEFORE:
            break
    return "".join(reversed(parts))[-_BEFORE:]


def _replace(element: etree._Element, text: str) -> None:
    """Put a text in the place of an element's content."""
    parent = element.getparent()
    if not text and parent is not None and parent.tag == "a" and not _text(parent).replace(_text(element), "", 1):
        element = parent  # an empty link counts against its paragraph
    tail = element.tail
    element.clear()
    element.tag, element.text = "span", _without_controls(text)
    element.tail = _without_controls(tail or "")


def _write_formulas(root: etree._Element, formulas: list[etree._Element]) -> None:
    """Write formulas of MathML on one line."""
    if not formulas:
        return
    for name, joint in (("msup", "^"), ("msub", "_"), ("mfrac", "/")):
        for part in root.iter(name):
            if len(part) == 2:
                part[0].tail = joint
    for annotation in list(root.iter("annotation", "annotation-xml")):
        annotation.clear(keep_tail=True)
    for formula in formulas:
        if len(text := _text(formula, _MAX_COPIED)) <= _MAX_COPIED:
            _replace(formula, "".join(text.split()))


def write_tables(root: etree._Element) -> bool:
    """Write a merged cell of a table into each cell that it covers, put each cell on one line, and mark empty cells.

    Plain text tells the column of a value by its place in the row alone.

    Returns:
        Whether anything changed.
    """
    rows_by_table: dict[etree._Element, list[etree._Element]] = {}
    for row in root.iter("tr"):
        if (table := next(row.iterancestors("table"), None)) is not None:
            rows_by_table.setdefault(table, []).append(row)
    budget, has_changed = _MAX_COPIES, False
    for rows in reversed(rows_by_table.values()):  # tables inside of cells first
        if len(rows) < 2 or max(len(row) for row in rows) < 2:
            continue  # it lays out a page
        cells = [cell for row in rows for cell in row if cell.tag in _CELLS]
        has_changed |= sum(map(_put_on_one_line, cells)) > 0
        if any(cell.get("rowspan") or cell.get("colspan") for cell in cells):
            budget -= _fill_merged_cells(rows, budget)
            _merge_headers(rows)
            has_changed = True
        has_changed |= _mark_empty_cells(rows)
    return has_changed


def _mark_empty_cells(rows: list[etree._Element]) -> bool:
    """Write a dash into each empty cell before a full one: readers of markup leave empty cells out.

    Returns:
        Whether there were any. A table without a header lays out a page, and keeps its empty cells.
    """
    if next(rows[0].iter("th"), None) is None and not all(map(_text, rows[0])):
        return False
    has_changed = False
    for row in rows:
        is_after = False
        for cell in reversed(row):
            text = _text(cell)
            if is_after and not text and cell.tag in _CELLS:
                cell.text, has_changed = _EMPTY, True
            is_after = is_after or bool(text)
    return has_changed


def _put_on_one_line(cell: etree._Element) -> bool:
    """Put the text of a cell on one line: semicolons between items of a list, "/" for the sign that ends a cell in Markdown.

    Returns:
        Whether anything changed. An article that a table lays out keeps its lines.
    """
    tags = [part.tag for part in islice(cell.iterdescendants(), _MAX_PARTS + 1)]
    text = _text(cell, _MAX_CELL)
    if _LAID_OUT.intersection(tags) or len(tags) > _MAX_PARTS or len(text) > _MAX_CELL:
        return False
    if "|" not in text and not (_ITEMS | _LINES).intersection(tags):
        return False
    items = [" ".join(item.split()) for item in "".join(_iterate_line(cell)).split("\0")]
    cell[:] = []
    cell.text = _without_controls("; ".join(filter(None, items)).replace("|", "/"))
    return True


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
        texts = [_text(row[column]) for row in headers if column < len(row)]
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
    text = _text(cell)
    copy.text = text if len(text) <= _MAX_COPIED else ""
    return copy
