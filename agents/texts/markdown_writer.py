"""Writes a page of HTML as Markdown: headings, lists with their numbers, tables with a header, code, quotes, and all other text."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree

from agents.texts.markdown_tables import write_table
from agents.texts.phrasing import BLOCKS
from agents.texts.table_rewrites import is_laid_out, list_rows

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_UNSEEN = ("head", "title")
_LINE_END = "\0"
_ROMAN = "i ii iii iv v vi vii viii ix x xi xii xiii xiv xv".split()
_READ_AS_MARK = re.compile(r"(?=#{1,6} |```|~~~)")
_FENCE = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)
_MAX_LONE_CELL = 200  # characters of a cell in a table of one row
_MAX_INDENTS = 20  # of items in items; more would make a small page large
_FEW_COLUMNS = 2  # of a table without a header whose first column names the values


@dataclass
class _List:
    """A list that is open."""

    number: int | None = None  # of its next item; None if its items have no numbers
    step: int = 1
    kind: str = "1"
    items: int = 0

    def mark(self, item: etree._Element) -> str:
        """Return the mark of the next item, such as "- " and "4. "."""
        self.items += 1
        if self.number is None:
            return "- "
        self.number = _to_int(item.get("value"), self.number)
        number, self.number = self.number, self.number + self.step
        text = str(number)
        if self.kind in "aA" and 0 < number <= len(string.ascii_lowercase):
            text = string.ascii_lowercase[number - 1]
        elif self.kind in "iI" and 0 < number <= len(_ROMAN):
            text = _ROMAN[number - 1]
        return f"{text.upper() if self.kind.isupper() else text}. "


@dataclass
class _Frame:
    """An item or a quote: what begins each of its lines."""

    rest: str
    first: str = ""  # of its first line; "" once that is written
    is_tight: bool = False  # no empty line comes before it


@dataclass
class Markdown:
    """A page as Markdown.

    Args:
        text: The Markdown.
        guessed_headers: Tables without header cells whose first row was taken for the header.
    """

    text: str
    guessed_headers: int = 0


def write_markdown(root: etree._Element) -> Markdown:
    """Write a page whose small elements were unwrapped (``phrasing.unwrap_phrasing``) as Markdown."""
    writer = _Writer()
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        if event == "end":
            writer.close(element)
        elif writer.open(element):
            walk.skip_subtree()
    writer.flush()
    return Markdown("".join(writer.blocks), writer.guessed_headers)


class _Writer:
    """Collects the texts of a line, and ends it where a block begins or ends."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.guessed_headers = 0
        self._line: list[str] = []
        self._frames: list[_Frame] = []
        self._lists: list[_List] = []
        self._terms: list[str] = []
        self._in_one_line: etree._Element | None = None  # the heading or term that is open

    def open(self, element: etree._Element) -> bool:
        """Write the beginning of an element.

        Returns:
            Whether it is written whole.
        """
        tag = element.tag
        if tag in _UNSEEN:
            return True
        if self._in_one_line is not None:
            self._line.append((" " if tag in BLOCKS else "") + (element.text or ""))
            return False
        if tag in BLOCKS and tag != "br":
            self.flush()
        if tag == "pre":
            self._write_code(element)
            return True
        if tag == "table" and self._write_table(element):
            return True
        if tag in _HEADINGS or element.get("role") == "heading" or tag == "dt":
            self._in_one_line = element
        elif tag in ("ul", "ol", "menu", "dir"):
            self._lists.append(_open_list(element))
        elif tag == "li":
            self._open_item(element)
        elif tag == "blockquote":
            self._frames.append(_Frame("> " if len(self._frames) < _MAX_INDENTS else ""))
        self._line.append(_LINE_END if tag == "br" else element.text or "")
        return False

    def close(self, element: etree._Element) -> None:
        """Write the end of an element, and the text behind it."""
        tag = element.tag
        if self._in_one_line is element:
            self._close_line(element)
        elif self._in_one_line is None and tag in BLOCKS and tag != "br":
            self.flush()
            if tag in ("ul", "ol", "menu", "dir"):
                self._lists.pop()
            elif tag in ("li", "blockquote"):
                self._frames.pop()
            elif tag == "dl" and self._terms:
                self._emit("")
        if element.tail:
            self._line.append(element.tail if self._in_one_line is None or tag not in BLOCKS else f" {element.tail}")

    def flush(self) -> None:
        """Write the line as a paragraph."""
        lines = _fold("".join(self._line))
        self._line.clear()
        if lines:
            self._emit("\n".join(f"\\{line}" if _READ_AS_MARK.match(line) else line for line in lines))

    def _close_line(self, element: etree._Element) -> None:
        """Write a heading, or keep a term until its meaning comes."""
        text = " ".join(_fold("".join(self._line)))
        self._line.clear()
        self._in_one_line = None
        if not text:
            return
        if element.tag == "dt":
            self._terms.append(text)
        else:
            level = _HEADINGS.get(str(element.tag)) or min(max(_to_int(element.get("aria-level"), 2), 1), 6)
            self._emit(f"{'#' * level} {text}")

    def _open_item(self, element: etree._Element) -> None:
        is_tight = len(self._lists) > 1 or bool(self._lists and self._lists[-1].items)
        mark = self._lists[-1].mark(element) if self._lists else "- "
        indent = " " * len(mark) if len(self._frames) < _MAX_INDENTS else ""
        self._frames.append(_Frame(indent, mark, is_tight))

    def _emit(self, text: str) -> None:
        """Append a block, behind the marks of the items and quotes that it is in."""
        if self._terms:
            text = ", ".join(self._terms) + (f": {text}" if text else "")
            self._terms.clear()
        is_tight = any(frame.first and frame.is_tight for frame in self._frames)
        first = "".join(frame.first or frame.rest for frame in self._frames)
        rest = "".join(frame.rest for frame in self._frames)
        for frame in self._frames:
            frame.first = ""
        if self.blocks:
            self.blocks.append("\n" if is_tight else "\n\n")
        self.blocks.append(
            "\n".join(f"{rest if number else first}{line}" for number, line in enumerate(text.split("\n")))
        )

    def _write_code(self, element: etree._Element) -> None:
        text = "".join(_iterate_code(element)).strip("\n").rstrip()
        if text:
            fence = "`" * max((len(match[1]) + 1 for match in _FENCE.finditer(text)), default=3)
            self._emit(f"{fence}\n{text}\n{fence}")

    def _write_table(self, table: etree._Element) -> bool:
        """Write a table of values.

        Returns:
            False for a table that lays out a page.
        """
        rows = list_rows(table)
        cells = [cell for row in rows for cell in row]
        if max(map(len, rows), default=0) < 2 or any(map(is_laid_out, cells)):
            return False
        texts = [["".join(cell.itertext()) for cell in row] for row in rows]
        if len(rows) == 1 and max(map(len, texts[0])) > _MAX_LONE_CELL:
            return False
        texts = [row for row in texts if any(map(str.strip, row))]
        for caption in table.iterchildren("caption"):
            self._line.append("".join(caption.itertext()))
            self.flush()
        if not texts:
            return True
        width = max(map(len, texts))
        texts = [[*row, *[""] * (width - len(row))] for row in texts]
        if not all(cell.tag == "th" for cell in rows[0]):
            if width > _FEW_COLUMNS and len(texts) > 1 and next(table.iter("th"), None) is None:
                self.guessed_headers += 1
            else:
                texts.insert(0, [""] * width)
        self._emit(write_table(texts))
        return True


def _open_list(element: etree._Element) -> _List:
    if element.tag != "ol":
        return _List()
    is_reversed = "reversed" in element.attrib
    first = len(element.findall("li")) if is_reversed else 1
    return _List(_to_int(element.get("start"), first), -1 if is_reversed else 1, element.get("type", "1"))


def _to_int(text: str | None, default: int) -> int:
    """Read a number as HTML has it; ``default`` if there is none."""
    try:
        return int((text or "")[:9])
    except ValueError:
        return default


def _fold(text: str) -> list[str]:
    """Fold blanks and return the lines of a text that are not empty."""
    return [line for part in text.split(_LINE_END) if (line := " ".join(part.split()))]


def _iterate_code(element: etree._Element) -> Iterator[str]:
    """Yield the texts of code, with the ends of its lines."""
    yield element.text or ""
    for part in element.iterdescendants():
        if part.tag == "br":
            yield "\n"
        yield part.text or ""
        yield part.tail or ""


def _tail_of(part: etree._Element, root: etree._Element) -> str:
    return "" if part is root else part.tail or ""
