"""Reads Markdown files: headings are marked alike, HTML inside of them is read, comments are left out, all else stays as it is."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from lxml.html import defs
from markdown_it import MarkdownIt
from markdown_it.token import Token

from agents.search.pages.page_text import read_page
from agents.search.reading import Reading, Remark

_COMMENT = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_TAG_NAME = re.compile(r"</?([a-zA-Z][\w-]*)")
_KNOWN_TAGS = frozenset(defs.tags) | frozenset("nobr data math output meter time progress".split())
_HEADING = "heading_open"
_FROM_LINE = 0
_MARKS = re.compile(r"\s*(?:(?:[-*+>]|\d{1,9}[.)])\s+)*")  # of items and quotes
_MAX_HEADING = 200  # characters


@cache
def _get_parsers() -> tuple[MarkdownIt, MarkdownIt]:
    """Return the parsers of blocks and of lines: only lines with a tag are parsed further, which takes most of the time."""
    options = {"maxNesting": 50}
    blocks = MarkdownIt("commonmark", options).enable("table").disable(["inline", "text_join"])
    return blocks, MarkdownIt("commonmark", options)


def read_markdown(text: str) -> Reading:
    """Read a text in Markdown, whose lines end with a line feed, without its front matter.

    Returns:
        The text with underlined headings as ATX ones, and its first heading as the title.
    """
    blocks, _ = _get_parsers()
    lines = [0]  # where each line begins
    for line in text.split("\n"):
        lines.append(lines[-1] + len(line) + 1)
    document = _Document(text, lines)
    tokens = blocks.parse(text)
    for token, following in pairwise([*tokens, Token("", "", 0)]):
        if token.type == "html_block":
            document.replace_block(token)
        elif token.type == _HEADING and following.type == "inline":
            document.replace_heading(token, following)
        elif token.type == "inline" and not document.is_replaced(token):
            document.replace_inline(token)
    return document.finish()


class _Document:
    """A Markdown text, and what is to be put in the place of its parts."""

    def __init__(self, text: str, lines: list[int]) -> None:
        self._text, self._lines = text, lines
        self._edits: list[tuple[int, int, str]] = []
        self._cursor = 0
        self._title = ""
        self._left_out: Counter[str] = Counter()
        self._reasons: dict[str, str] = {}
        self._pictures = 0

    def finish(self) -> Reading:
        """Return the text with its parts replaced."""
        parts, end = [], 0
        for start, stop, new in sorted(self._edits):
            parts += [self._text[end:start], new]
            end = max(end, stop)
        text = "".join([*parts, self._text[end:]])
        remarks = tuple(Remark(what, self._reasons[what], words=words) for what, words in self._left_out.items())
        return Reading(text.strip("\n"), self._title, remarks, pictures=self._pictures + text.count("!["))

    def is_replaced(self, token: Token) -> bool:
        """Return whether the lines of a token were replaced already."""
        return bool(token.map and self._edits and self._lines[token.map[_FROM_LINE]] < self._edits[-1][1])

    def replace_block(self, token: Token) -> None:
        """Read a block of HTML."""
        start, stop = self._span(token)
        if not _has_known_tag(self._text[start:stop]):
            return
        read = self._read(self._text[start:stop])
        self._edits.append((start, stop, f"{read}\n" if read else "\n"))

    def replace_heading(self, token: Token, content: Token) -> None:
        """Write a heading in one line; inside of a list or quote it stays as it is."""
        heading = " ".join(self._read_line(content.content).split())
        if len(heading) > _MAX_HEADING:  # a paragraph above a line
            return
        self._title = self._title or heading
        if token.level == 0:
            start, stop = self._span(token)
            self._edits.append((start, stop, f"{'#' * int(token.tag[1:])} {heading}\n"))

    def replace_inline(self, token: Token) -> None:
        """Read the part of a paragraph or cell that has tags."""
        if token.map:
            self._cursor = max(self._cursor, self._lines[token.map[_FROM_LINE]])
        if "<" not in token.content:
            return
        if spans := list(self._find_tags(token.content)):
            start, stop = self._widen(spans[0][0], spans[-1][1])
            read = self._read(_escape_beside(self._text, [(start, start), *spans, (stop, stop)]))
            is_row = "|" in self._text[start - 2 : start] or self._text[stop : stop + 1] == "|"
            self._edits.append((start, stop, read.replace("\n", " ") if is_row else read))

    def _widen(self, start: int, stop: int) -> tuple[int, int]:
        """Widen a span to its line or cell, without the marks at its beginning and the blanks around it."""
        line = self._text.rfind("\n", 0, start) + 1
        first = max(line, self._text.rfind("|", line, start) + 1)
        first += len((_MARKS.match(self._text[first:start]) or [""])[0])
        last = next((place for place in range(stop, len(self._text)) if self._text[place] in "\n|"), len(self._text))
        return first, last - len(self._text[stop:last]) + len(self._text[stop:last].rstrip())

    def _find_tags(self, content: str) -> Iterator[tuple[int, int]]:
        """Yield where the tags and comments of a line are in the text. Tags that HTML does not have are names in angle brackets."""
        _, inline = _get_parsers()
        for child in inline.parseInline(content)[0].children or ():
            place = self._text.find(child.content, self._cursor) if child.content else -1
            if place < 0:
                continue
            self._cursor = place + len(child.content)
            if child.type == "html_inline" and _has_known_tag(child.content):
                yield place, self._cursor

    def _read_line(self, content: str) -> str:
        return self._read(content) if _has_known_tag(content) else content

    def _read(self, source: str) -> str:
        for comment in _COMMENT.finditer(source):
            self._note("comment", "Markdown does not show it", len(comment[1].split()))
        reading = read_page(_COMMENT.sub("", source))
        for remark in reading.left_out:
            self._note(remark.what, remark.why, remark.words)
        self._pictures += reading.pictures
        return reading.text

    def _note(self, what: str, why: str, words: int) -> None:
        self._left_out[what] += words
        self._reasons[what] = why

    def _span(self, token: Token) -> tuple[int, int]:
        first, last = token.map or (0, 0)
        return self._lines[first], min(self._lines[last], len(self._text))


def _has_known_tag(source: str) -> bool:
    """Return whether a text has a comment or a tag of HTML; any other tag is a name in angle brackets."""
    return "<!--" in source or any(name.lower() in _KNOWN_TAGS for name in _TAG_NAME.findall(source))


def _escape_beside(text: str, spans: list[tuple[int, int]]) -> str:
    """Return a part of a text as HTML: its tags stay, all between them is text, with its ends of lines."""
    parts = [text[slice(*spans[0])]]
    for (_, end), (start, stop) in pairwise(spans):
        parts += [html.escape(text[end:start], quote=False).replace("\n", "<br>"), text[start:stop]]
    return "".join(parts)
