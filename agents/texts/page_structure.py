"""Cuts the text of a page along its structure: headings, paragraphs, lists and tables in Markdown."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from semantic_text_splitter import TextSplitter

_HEADING = re.compile(r"(#{1,6})[ \t]+(\S.*)")
_MAX_HEADING = 120  # characters; a longer line is a paragraph that begins with a mark
_ITEM = re.compile(r"[ \t]*(?:[-*+•–]|\d{1,3}[.)])[ \t]+\S")
_RULE = re.compile(r"[\s|:]*+-[\s|:-]*+")  # the line below the header of a table
_ENDS_SENTENCE = re.compile(r"[.!?:;…。！？][\"'”’)\]]*$")
_LAST_SENTENCE = re.compile(r"(?:^|(?<=[.!?])\s+)([^.!?]+(?:[.!?][^.!?\s][^.!?]*)*[.!?:]?)\s*$")
_WRAPPED = 60  # characters from which a line without an end of a sentence goes on in the next one
_MAX_PATH = 200  # characters of the headings above a piece; the nearest ones are kept
_MAX_LEAD = 3  # at most a third of a piece repeats what its beginning depends on
_KEPT_PAGES = 64  # pages that are remembered as they were cut: the turns of a batch and a dialog find the same ones


@dataclass(frozen=True)
class Piece:
    """A part of a page: whole sentences, items or rows of one section."""

    headings: tuple[str, ...]  # path of the headings above it, the highest first
    text: str
    start: int  # its place in the page's text, in characters
    end: int
    lead: str = ""  # the header of its table, or the sentence before its list, where an earlier piece has it

    @property
    def whole_text(self) -> str:
        """Its text as it is read on its own."""
        return f"{self.lead}\n{self.text}" if self.lead else self.text


@dataclass(frozen=True)
class _Unit:
    """A text that is not torn, and what it depends on if an earlier piece has that."""

    text: str
    start: int
    end: int
    lead: str = ""


@dataclass
class _Line:
    text: str
    start: int
    end: int

    @property
    def is_row(self) -> bool:
        return "|" in self.text

    @property
    def is_item(self) -> bool:
        return _ITEM.match(self.text) is not None


@lru_cache(maxsize=_KEPT_PAGES)
def cut_page(text: str, name: str, characters: int) -> tuple[Piece, ...]:
    """Cut a page into pieces of at most ``characters``, with the page's name and the headings above each of them.

    A piece ends with a section, paragraph, item or row; only longer paragraphs are cut, between sentences where possible. It never ends
    with a heading. A piece in the middle of a table has the header again, one in the middle of a list the sentence before the list.

    Args:
        text: The text in Markdown; blank lines between paragraphs are not needed.
        name: The page's name. Headings that it contains are left out of the paths.
        characters: Longest piece, with name, headings and what it repeats.
    """
    pieces: list[Piece] = []
    for headings, lines in _iterate_sections(text, name):
        room = max(characters - len(": ".join((name, *headings, ""))), characters // 2)
        pieces += _pack(headings, [unit for block in _group(lines) for unit in _list_units(block, room)], room)
    return tuple(pieces)


def _iterate_sections(text: str, name: str) -> Iterator[tuple[tuple[str, ...], list[_Line]]]:
    """Yield each section's path of headings and its lines. A heading without any text below it is a text of the section above."""
    path: list[tuple[int, str]] = []
    lines: list[_Line] = []
    has_text = True  # whether anything is below the last heading
    position = 0
    for raw in text.split("\n"):
        line = _Line(raw.strip(), position, position + len(raw))
        position += len(raw) + 1
        heading = _HEADING.fullmatch(line.text)
        if heading is None or len(heading[2]) > _MAX_HEADING:
            if line.text:
                lines.append(line)
                has_text = True
            continue
        level = len(heading[1])
        if lines:
            yield _name_path(path, name), lines
            lines = []
        if not has_text and path and path[-1][0] >= level:
            yield _name_path(path[:-1], name), [_Line(path[-1][1], line.start, line.start)]
        while path and path[-1][0] >= level:
            path.pop()
        path.append((level, heading[2].rstrip(" #")))
        has_text = False
    if not has_text and path:
        yield _name_path(path[:-1], name), [_Line(path[-1][1], len(text), len(text))]
    elif lines:
        yield _name_path(path, name), lines


def _name_path(path: Sequence[tuple[int, str]], name: str) -> tuple[str, ...]:
    headings = [heading for _, heading in path if heading.casefold() not in name.casefold()]
    while len(headings) > 1 and len(": ".join(headings)) > _MAX_PATH:
        headings.pop(0)
    return tuple(headings)


def _group(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """Group the lines of a section: a paragraph, a table, or a list with the paragraph before it."""
    block: list[_Line] = []
    for line in lines:
        if block and not _belongs(block, line):
            yield block
            block = []
        if block and not (line.is_row or line.is_item) and _goes_on(block[-1], line):
            block[-1] = _Line(f"{block[-1].text} {line.text}", block[-1].start, line.end)
        else:
            block.append(line)
    if block:
        yield block


def _belongs(block: Sequence[_Line], line: _Line) -> bool:
    last = block[-1]
    if line.is_row:
        return last.is_row
    if line.is_item:
        return not last.is_row
    return not last.is_row and _goes_on(last, line)


def _goes_on(last: _Line, line: _Line) -> bool:
    """Return whether a sentence goes on in the next line: texts are often wrapped."""
    if _ENDS_SENTENCE.search(last.text):
        return False
    return line.text[:1].islower() or len(last.text.rpartition("\n")[2]) >= _WRAPPED


def _list_units(block: Sequence[_Line], room: int) -> Iterator[_Unit]:
    if block[0].is_row:
        yield from _list_rows(block, room)
        return
    first = block[0]
    if len(block) == 1 or first.is_item:
        for line in block:
            yield from _cut_line(line, room)
        return
    *before, sentence = [first.text] if len(first.text) <= room // _MAX_LEAD else _split_last_sentence(first.text)
    if before:
        yield from _cut_line(_Line(before[0], first.start, first.end), room)
    lead = sentence if len(sentence) <= room // _MAX_LEAD else ""
    items = block[1:]
    if lead and len(lead) + 1 + len(items[0].text) <= room:
        yield _Unit(f"{lead}\n{items[0].text}", first.start, items[0].end)
        items = items[1:]
    else:
        yield from _cut_line(_Line(sentence, first.start, first.end), room)
    for line in items:
        yield from _cut_line(line, room - len(lead) - 1 if lead else room, lead)


def _split_last_sentence(text: str) -> list[str]:
    match = _LAST_SENTENCE.search(text)
    return [text] if match is None or match.start() == 0 else [text[: match.start()].rstrip(), match[1]]


def _list_rows(block: Sequence[_Line], room: int) -> Iterator[_Unit]:
    """Yield the rows of a table; its header comes with the first one. A table without a rule below its first row has no header."""
    has_header = len(block) > 2 and _RULE.fullmatch(block[1].text) is not None
    if not has_header:
        for line in block:
            yield from _cut_line(line, room)
        return
    header = f"{block[0].text}\n{block[1].text}"
    lead = header if len(header) <= room // _MAX_LEAD else ""
    # A header that comes again begins a part of the same table (``markdown_tables.repeat_headers``).
    first, *others = [line for line in block[2:] if line.text not in (block[0].text, block[1].text)] or block[2:]
    yield from _cut_line(_Line(f"{header}\n{first.text}", block[0].start, first.end), room)
    for line in others:
        yield from _cut_line(line, room - len(lead) - 1 if lead else room, lead)


def _cut_line(line: _Line, room: int, lead: str = "") -> Iterator[_Unit]:
    """Yield a line as it is, or one that is too long in parts, each cut at the coarsest possible border."""
    texts = [line.text] if len(line.text) <= room else TextSplitter(room).chunks(line.text)
    for text in texts:
        yield _Unit(text, line.start, line.end, lead)


def _pack(headings: tuple[str, ...], units: Sequence[_Unit], room: int) -> Iterator[Piece]:
    """Put as many units into each piece as fit."""
    pending: list[_Unit] = []
    size = 0

    def finish() -> Piece:
        text = "\n".join(unit.text for unit in pending)
        return Piece(headings, text, pending[0].start, pending[-1].end, pending[0].lead)

    for unit in units:
        if pending and size + 1 + len(unit.text) > room:
            yield finish()
            pending = []
        if not pending:
            size = len(unit.lead) - 1 + bool(unit.lead)
        pending.append(unit)
        size += 1 + len(unit.text)
    if pending:
        yield finish()
