"""Cuts page text into chunks for the web index, at the borders of paragraphs, lines and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable

CHUNK_WORDS = 200
"""Words a chunk holds at most: about 270 tokens, well inside the 512 that the text encoder sees."""

# From the coarsest border to the finest, with what is put between two pieces that share a chunk.
_BORDERS = (
    (re.compile(r"\n\s*\n"), "\n\n"),  # paragraphs
    (re.compile(r"\n"), "\n"),  # lines of lists and tables
    (re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"'”’)\]])\s+"), " "),  # sentences
    (re.compile(r"\s+"), " "),  # words
)


def split_text(text: str, words: int = CHUNK_WORDS) -> list[str]:
    """The text in pieces of at most ``words`` words, cut at the coarsest border at which it can be.

    No word is lost or doubled. A text that fits is returned as it is, stripped; an empty one gives no piece.

    Raises:
        ValueError: ``words`` is below 1.
    """
    if words < 1:
        raise ValueError(f"a chunk has to hold at least one word, not {words}")
    return _split(text.strip(), words, 0)


def _split(text: str, words: int, level: int) -> list[str]:
    if _count(text) <= words:
        return [text] if text else []
    border, joint = _BORDERS[level]
    parts = [part.strip() for part in border.split(text)]
    return _packed((piece for part in parts for piece in _split(part, words, level + 1)), words, joint)


def _packed(pieces: Iterable[str], words: int, joint: str) -> list[str]:
    """Neighbouring pieces put together as long as they fit."""
    packed: list[str] = []
    count = 0
    for piece in pieces:
        length = _count(piece)
        if packed and count + length <= words:
            packed[-1] += joint + piece
            count += length
        else:
            packed.append(piece)
            count = length
    return packed


def _count(text: str) -> int:
    return len(text.split())
