"""Finds columns and tables in the words of a PDF's page.

A PDF says where each letter is and nothing of words, lines and columns. pdfplumber finds words, and ruled tables. Columns, and
tables without rules, are told by the blank that runs between them through three lines or more.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from statistics import mean, median
from typing import TYPE_CHECKING, Any, Self

from agents.search.documents.pdf_paragraphs import Flow, TextLine, mend_lines
from agents.texts.markdown_tables import write_table
from agents.texts.markup_rewrites import write_raised

if TYPE_CHECKING:
    from pdfplumber.page import Page
    from pdfplumber.table import Table

_LINES_OF_COLUMNS = 3  # beside each other, at least
_GUTTER = 0.9  # of a line's height: as wide is the blank between two columns, at least
_SPACE = 0.12  # of a line's height: nearer words are one word in two sizes
_TALLEST = 2.5  # times the height of a line: a taller letter or table beside it is a line of its own
_RAISED, _SMALLER = 0.15, 0.85  # of the height of the word before
_TALL = 1.15  # times the height of the lines of columns: such a line above them is their heading
_APART = 1.6  # times the usual distance of lines: what is so far below a column is not its end
_PROSE_CHARACTERS, _PROSE_FILL = 18, 0.55  # of the lines of a column of prose on average, and of its width
_MAX_WORDS, _MAX_LINES, _MAX_RULES = 20_000, 1_000, 3_000  # of a page; a page with more is read as it is drawn


@dataclass(frozen=True)
class _Word:
    """A word, or a whole table, with its place on the page; ``size`` is that of its letters, 0 for a table."""

    text: str
    x0: float
    x1: float
    top: float
    bottom: float
    size: float

    @cached_property
    def height(self) -> float:
        return max(self.bottom - self.top, 0.1)


@dataclass(frozen=True)
class _Gap:
    """A blank that runs through lines, with the number of lines on each side of it."""

    x0: float
    x1: float
    left: int = 0
    right: int = 0

    @property
    def has_both_sides(self) -> bool:
        return min(self.left, self.right) > 0

    @property
    def is_gutter(self) -> bool:
        return min(self.left, self.right) >= _LINES_OF_COLUMNS

    def pass_through(self, line: _Line, free: Sequence[tuple[float, float]]) -> Iterator[Self]:
        """Yield the parts of the gap that are blank in a further line too."""
        for x0, x1 in free:
            low, high = max(self.x0, x0), min(self.x1, x1)
            if high - low >= _GUTTER * line.height:
                sides = any(word.x1 <= low for word in line.words), any(word.x0 >= high for word in line.words)
                yield replace(self, x0=low, x1=high, left=self.left + sides[0], right=self.right + sides[1])


@dataclass(frozen=True)
class _Line:
    """Words beside each other, from left to right."""

    words: tuple[_Word, ...]

    @cached_property
    def top(self) -> float:
        return min(word.top for word in self.words)

    @cached_property
    def height(self) -> float:
        return median(word.height for word in self.words)

    def list_blanks(self) -> list[tuple[float, float]]:
        """Return the intervals without words, margins included."""
        blanks, end = [], float("-inf")
        for word in self.words:
            if word.x0 > end:
                blanks.append((end, word.x0))
            end = max(end, word.x1)
        return [*blanks, (end, float("inf"))]

    def cut(self, gutters: Sequence[_Gap]) -> list[_Line | None]:
        """Return the part of the line in each column, or None."""
        edges = [float("-inf"), *((gutter.x0 + gutter.x1) / 2 for gutter in gutters), float("inf")]
        parts = [tuple(word for word in self.words if low <= word.x0 < high) for low, high in pairwise(edges)]
        return [_Line(words) if words else None for words in parts]


def find_flows(page: Page) -> list[Flow]:
    """Return the lines of a page in reading order, with tables as Markdown.

    Args:
        page: A page whose text is upright.
    """
    tables = _find_tables(page)
    boxes = [table.bbox for table in tables]
    found = page.extract_words(x_tolerance_ratio=_SPACE, y_tolerance=1, extra_attrs=["size"])
    words = [_word(word) for word in found]
    notes = _find_notes(words)
    outside = [word for word in words if not any(_is_inside(word, box) for box in boxes)]
    if len(outside) > _MAX_WORDS:
        return [[_write_line(line, notes) for line in _group(words)]]
    for table in tables:
        x0, top, x1, bottom = table.bbox
        inside = [word for word in words if _is_inside(word, table.bbox)]
        outside.append(_Word(write_table(_read_cells(table, inside, notes)), x0, x1, top, bottom, 0))
    return _read(_group(outside), notes)


def _word(word: dict[str, Any]) -> _Word:
    text = word["text"]
    if any(unicodedata.bidirectional(character) in ("R", "AL") for character in text):
        text = "".join(reversed(re.findall(r"\d+(?:[.,:/]\d+)*|.", text, re.DOTALL)))
    return _Word(text, word["x0"], word["x1"], word["top"], word["bottom"], word["size"])


def _is_inside(word: _Word, box: tuple[float, float, float, float]) -> bool:
    x, y = (word.x0 + word.x1) / 2, (word.top + word.bottom) / 2
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _group(words: Sequence[_Word]) -> list[_Line]:
    """Group words into lines, from top to bottom."""
    groups: list[list[_Word]] = []
    tallest = None
    for word in sorted(words, key=lambda word: (word.top, word.x0)):
        if tallest is not None and _is_beside(word, tallest):
            groups[-1].append(word)
            tallest = max(tallest, word, key=lambda each: each.height)
        else:
            groups.append([word])
            tallest = word
    return [_Line(tuple(sorted(group, key=lambda word: word.x0))) for group in groups]


def _is_beside(word: _Word, other: _Word) -> bool:
    low, high = sorted((word.height, other.height))
    overlap = min(word.bottom, other.bottom) - max(word.top, other.top)
    return high <= _TALLEST * low and overlap >= low / 2


def _read(lines: Sequence[_Line], notes: set[str]) -> list[Flow]:
    """Return the texts of lines, with columns one after the other."""
    if len(lines) > _MAX_LINES:
        return [[_write_line(line, notes) for line in lines]]
    flows: list[Flow] = [[]]
    start = 0
    while start < len(lines):
        end, gutters = _find_columns(lines, start)
        if not gutters or len(_find_columns(lines, start + 1)[1]) > len(gutters):
            flows[-1].append(_write_line(lines[start], notes))
            start += 1
            continue
        columns = _Columns.cut(lines[start:end], gutters)
        flows[-1] += [_write_line(line, notes) for line in lines[start : start + columns.first]]
        flows += [*columns.read(notes), []]
        start += columns.last
    return [flow for flow in flows if flow]


def _write_line(line: _Line, notes: set[str]) -> TextLine:
    size = max(line.words, key=lambda word: len(word.text)).size
    first = line.words[0]
    return TextLine(_write(line, notes), first.x0, line.words[-1].x1, line.top, size, first.x1 - first.x0)


def _find_columns(lines: Sequence[_Line], start: int) -> tuple[int, list[_Gap]]:
    """Find the longest run of lines with the same gutters.

    Returns:
        Its end, and the gutters between its columns; none if the first line belongs to no columns.
    """
    gaps = [_Gap(float("-inf"), float("inf"))]
    for number in range(start, len(lines)):
        line = lines[number]
        free = line.list_blanks()
        narrowed = [part for gap in gaps for part in gap.pass_through(line, free)]
        settled = sum(gap.is_gutter for gap in gaps)
        has_columns = any(gap.has_both_sides for gap in gaps)
        if sum(gap.has_both_sides for gap in narrowed) < max(settled, has_columns):
            return number, [gap for gap in gaps if gap.is_gutter]
        gaps = narrowed
    return len(lines), [gap for gap in gaps if gap.is_gutter]


@dataclass(frozen=True)
class _Columns:
    """Lines cut into columns.

    Attributes:
        rows: Part of each line in each column.
        first: First line of the columns: headings above them are none of theirs.
        last: Line after their last: notes far below are none of theirs.
        is_prose: Whether the columns are read one after the other, and not as a table.
    """

    rows: list[list[_Line | None]]
    first: int
    last: int
    is_prose: bool

    @classmethod
    def cut(cls, lines: Sequence[_Line], gutters: Sequence[_Gap]) -> _Columns:
        """Cut lines at gutters."""
        rows = [line.cut(gutters) for line in lines]
        is_prose = all(_is_prose([part for part in column if part]) for column in zip(*rows, strict=True))
        steps = [below.top - above.top for above, below in pairwise(lines)]
        far, tall = _APART * median(steps), _TALL * median(line.height for line in lines)
        filled = [[place for place, part in enumerate(row) if part] for row in rows]
        first = 0
        while (
            first < len(lines) - 1
            and len(filled[first]) == 1
            and (not is_prose or filled[first] == [0] or steps[first] > far or lines[first].height > tall)
        ):
            first += 1
        last = number = len(lines)
        while len(filled[number - 1]) == 1 and number > first + 1:
            number -= 1
            if steps[number - 1] > far:
                last = number
        return cls(rows, first, last, is_prose)

    def read(self, notes: set[str]) -> list[Flow]:
        """Read columns of prose one after the other, and columns of short texts as a table."""
        rows = self.rows[self.first : self.last]
        if self.is_prose:
            # Beside a tall line of another column there may be two lines, which are told apart without it.
            columns = [
                [line for part in column if part for line in _group(part.words)] for column in zip(*rows, strict=True)
            ]
            return [flow for column in columns for flow in _read(column, notes)]
        table = write_table([[mend_lines(text) for text in row] for row in _join_rows(rows, notes)])
        return [[TextLine(table, 0, 0, 0, 0, 0)]]


def _join_rows(rows: Sequence[Sequence[_Line | None]], notes: set[str]) -> list[list[str]]:
    """Return the cells of a table. A text alone, and not in the first column, goes on with the cell above."""
    cells: list[list[str]] = []
    for row in rows:
        texts = ["" if part is None else _write(part, notes) for part in row]
        if cells and not texts[0] and sum(map(bool, texts)) == 1:
            cells[-1] = [f"{above}\n{text}" if text else above for above, text in zip(cells[-1], texts, strict=True)]
        else:
            cells.append(texts)
    return cells


def _is_prose(column: Sequence[_Line]) -> bool:
    ends = [(line.words[0].x0, max(word.x1 for word in line.words)) for line in column]
    width = max(right for _, right in ends) - min(left for left, _ in ends)
    characters = mean(sum(len(word.text) + 1 for word in line.words) for line in column)
    return characters >= _PROSE_CHARACTERS and mean(right - left for left, right in ends) >= _PROSE_FILL * width


def _write(line: _Line, notes: set[str]) -> str:
    """Write a line, with powers as "10^6"."""
    words = list(line.words)
    letters = [unicodedata.bidirectional(character) for word in words for character in word.text]
    if letters.count("R") + letters.count("AL") > letters.count("L"):
        return " ".join(word.text for word in reversed(words))
    text = ""
    for number, word in enumerate(words):
        before = words[number - 1] if number else None
        if before is None:
            text = word.text
            continue
        is_of_a_note = number == 1 and before.text.isdecimal() and _is_raised(before, word)
        space = "" if not is_of_a_note and word.x0 - before.x1 < _SPACE * max(word.height, before.height) else " "
        if not space and _is_raised(word, before):
            after = words[number + 1] if number + 1 < len(words) else None
            text += write_raised(word.text, text, after.text if after and after.x0 - word.x1 < 1 else " ", notes)
        else:
            text += space + word.text
    return text


def _is_raised(word: _Word, before: _Word) -> bool:
    return word.height <= _SMALLER * before.height and before.bottom - word.bottom >= _RAISED * before.height


def _find_notes(words: Sequence[_Word]) -> set[str]:
    """Return the marks of footnotes: raised figures before the first word of a line."""
    notes = set()
    for line in _group(words):
        first, *others = line.words
        if others and first.text.isdecimal() and _is_raised(first, others[0]):
            notes.add(first.text)
    return notes


def _find_tables(page: Page) -> list[Table]:
    """Find ruled tables of two rows and two columns at least, most of whose cells contain text."""
    if len(page.lines) + len(page.rects) + len(page.curves) > _MAX_RULES:
        return []  # a drawing
    tables = []
    for table in page.find_tables():
        with suppress(ValueError):
            cells = table.extract()
            filled = sum(bool(text and text.strip()) for row in cells for text in row)
            if len(cells) > 1 and max(map(len, cells)) > 1 and filled * 2 >= len(table.cells):
                tables.append(table)
    return tables


def _read_cells(table: Table, words: Sequence[_Word], notes: set[str]) -> list[list[str]]:
    """Return the texts of a table's cells, a merged one in each row and column that it covers."""
    texts = {
        box: mend_lines(
            "\n".join(_write(line, notes) for line in _group([word for word in words if _is_inside(word, box)]))
        )
        for box in table.cells
    }
    lefts = sorted({box[0] for box in table.cells})
    tops = sorted({box[1] for box in table.cells})
    return [
        [
            next((text for box, text in texts.items() if box[0] <= left < box[2] and box[1] <= top < box[3]), "")
            for left in lefts
        ]
        for top in tops
    ]
