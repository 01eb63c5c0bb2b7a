"""Joins the lines of a PDF's pages to headings, paragraphs and lists: a sentence that goes on in the next line is one sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

_SAME_SIZE = 1.12  # letters of one size differ by less
_PARAGRAPH = 1.3  # times the usual distance of lines: paragraphs are further apart
_INDENT = 0.8  # of the size of letters: the first line of a paragraph is further in
_RAGGED = 0.15  # of the width of a column: so much is left free at the end of a line by those who break lines by hand
_BLANK = 0.3  # of the size of letters: a word takes as much beside itself
_MAX_HEADING, _MAX_LEVEL = 200, 6  # characters, and "#" before them
_BREAK, _NEW_LINE, _JOIN = "\n\n", "\n", " "
_LINE_END = "\0"  # stands for the end of a line that stays while others are joined
_BULLET = re.compile(
    r"[\u2022\u00b7\u2023\u25aa\u25e6\u25cf\u25cb\u25a0\uf0b7\uf0a7*\u2013\u2014-](?:\s+|(?<=[\u2022\uf0b7\uf0a7]))(?=\S)"
)
_NUMBER = re.compile(r"\(?(?:\d{1,3}[.)]|[a-z]\))\s+(?=\S)")
_ENDS_SENTENCE = re.compile(r"[.!?:;\u3002\uff01\uff1f][\"'\u201d\u2019)\]]*$")
_ENDS_IN_WORD = re.compile(r"[^\W_][-\u00ad\u2010]$|\d\u2013$")
_LIGATURES = str.maketrans(
    dict(zip("\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06", "ff fi fl ffi ffl st st".split(), strict=True))
)
_SOFT_HYPHEN = re.compile(r"\u00ad[ \t]*\n?")
_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u2010]\n(?=[^\W\d_])")
_DASH_IN_FIGURES = re.compile(r"(?<=\d)([-\u2010\u2013])\n(?=\d)")
_LEADERS = re.compile(r"\s*(?:[.\u2026]\s?){5,}")
_READ_AS_HEADING = re.compile(r"(?=#{1,6} )")


@dataclass(frozen=True)
class TextLine:
    """A line of a column, or a table in Markdown.

    Attributes:
        text: Its text.
        x0: Its left edge.
        x1: Its right edge.
        top: Its upper edge.
        size: Size of its letters, in points; 0 for a table.
        first_width: Width of its first word.
    """

    text: str
    x0: float
    x1: float
    top: float
    size: float
    first_width: float


Flow = list[TextLine]
"""Lines of a column from top to bottom."""


@dataclass(frozen=True)
class Block:
    """A heading, paragraph, item of a list, table or field; ``size`` is that of its letters, 0 for the last two."""

    text: str
    size: float
    is_item: bool = False


def mend_lines(text: str) -> str:
    """Join words divided at the ends of lines, and write ligatures in letters."""
    text = _SOFT_HYPHEN.sub("", text.translate(_LIGATURES))
    text = _HYPHEN.sub(lambda match: _mend(text, match), text)
    return _DASH_IN_FIGURES.sub(r"\1", text)


def _mend(text: str, match: re.Match[str]) -> str:
    """Return the replacement of a hyphen at the end of a line: nothing, if both halves are written small."""
    return "" if text[match.start() - 1].islower() and text[match.end()].islower() else "-"


def join_flows(flows: Sequence[Flow]) -> list[Block]:
    """Join the lines of a page, column by column."""
    steps = [
        (below.top - above.top) / above.size
        for flow in flows
        for above, below in pairwise(flow)
        if above.size and 0 < below.top - above.top < 3 * above.size
    ]
    step = median(steps) if steps else 1.2
    blocks: list[Block] = []
    paragraph: list[TextLine] = []
    text = ""
    for flow in flows:
        for number, line in enumerate(flow):
            same = [each for each in flow if _is_same_size(each, line)]
            edges = min(each.x0 for each in same), max(each.x1 for each in same)
            joint = _find_joint(paragraph, line, step, edges, is_first=number == 0) if paragraph else _BREAK
            if joint == _BREAK and paragraph:
                blocks.append(_write(paragraph, text))
                paragraph, text = [], ""
            text += {_BREAK: "", _NEW_LINE: _LINE_END, _JOIN: "\n"}[joint] + line.text
            paragraph.append(line)
    if paragraph:
        blocks.append(_write(paragraph, text))
    return blocks


def _find_joint(
    paragraph: Sequence[TextLine], line: TextLine, step: float, edges: tuple[float, float], *, is_first: bool
) -> str:
    """Return what comes between a paragraph and the line below it, or at the top of the next column."""
    first, last = paragraph[0], paragraph[-1]
    if not (last.size and line.size and _is_same_size(last, line)):
        return _BREAK
    ends_sentence, is_item = _ENDS_SENTENCE.search(last.text) is not None, _is_item(first.text)
    if _BULLET.match(line.text):
        return _BREAK
    if _ENDS_IN_WORD.search(last.text):
        return _JOIN
    if is_first:
        return _JOIN if line.text[:1].islower() and not ends_sentence else _BREAK
    if _LEADERS.search(last.text):
        return _NEW_LINE
    left, right = edges
    spare = right - last.x1 - line.first_width - _BLANK * line.size
    fits = spare > 0  # the word would have been written into the line above, were it the same paragraph
    if _NUMBER.match(line.text) and (ends_sentence or is_item or fits):
        return _BREAK
    if line.top - last.top > _PARAGRAPH * step * last.size or (is_item and line.x0 < first.x0 - _INDENT * line.size):
        return _BREAK
    if ends_sentence and (fits or (not is_item and line.x0 > last.x0 + _INDENT * line.size)):
        return _BREAK
    return _NEW_LINE if spare > _RAGGED * (right - left) and not line.text[:1].islower() else _JOIN


def _is_same_size(one: TextLine, other: TextLine) -> bool:
    return max(one.size, other.size) <= _SAME_SIZE * min(one.size, other.size)


def _is_item(text: str) -> bool:
    return bool(_BULLET.match(text) or _NUMBER.match(text))


def _write(lines: Sequence[TextLine], text: str) -> Block:
    if not lines[0].size:
        return Block(text, 0)
    text = _LEADERS.sub(" ... ", mend_lines(text).replace("\n", " ").replace(_LINE_END, "\n")).strip()
    return Block(
        _BULLET.sub("- ", text, count=1) if _BULLET.match(text) else text, lines[0].size, _is_item(lines[0].text)
    )


def write_pages(pages: Mapping[int, Sequence[Block]]) -> dict[int, str]:
    """Write the pages of a document as Markdown.

    Blocks in larger letters than most of the document are headings; the levels of headings are those of their sizes.
    """
    sizes: Counter[float] = Counter()
    for blocks in pages.values():
        for block in blocks:
            sizes[round(block.size, 1)] += len(block.text) if block.size else 0
    body = max(sizes, key=lambda size: sizes[size], default=0.0)
    levels = _find_levels({block.size for blocks in pages.values() for block in blocks if _is_heading(block, body)})
    return {number: _write_blocks(blocks, body, levels) for number, blocks in pages.items()}


def _is_heading(block: Block, body: float) -> bool:
    letters = sum(map(str.isalpha, block.text))
    return 0 < body * _SAME_SIZE <= block.size and letters > 1 and len(block.text) <= _MAX_HEADING


def _find_levels(sizes: Iterable[float]) -> dict[float, int]:
    """Return the level of the headings of each size, from 1; sizes that hardly differ have the same."""
    levels: dict[float, int] = {}
    level, largest = 0, float("inf")
    for size in sorted(sizes, reverse=True):
        if size * 1.04 < largest:
            level, largest = level + 1, size
        levels[size] = min(level, _MAX_LEVEL)
    return levels


def _write_blocks(blocks: Sequence[Block], body: float, levels: Mapping[float, int]) -> str:
    text, was_item = "", False
    for block in blocks:
        if _is_heading(block, body):
            written = f"{'#' * levels[block.size]} {' '.join(block.text.split())}"
            is_item = False
        else:
            written = _READ_AS_HEADING.sub(r"\\", block.text, count=1) if block.size else block.text
            is_item = block.is_item
        text += ("" if not text else "\n" if was_item and is_item else "\n\n") + written
        was_item = is_item
    return text
