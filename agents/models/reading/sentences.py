"""Passages into sentences, by the sentencex library (Wikimedia)."""

from __future__ import annotations

import re

import sentencex

LONGEST = 600  # characters; what has no full stop within them is a table or a list and is cut at line or clause ends
SPACES = re.compile(r"\s+")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, white space made plain; line ends end a sentence too."""
    found: list[str] = []
    for line in text.splitlines():
        for sentence in sentencex.segment("en", line):
            plain = SPACES.sub(" ", sentence).strip()
            found.extend(_pieces(plain) if len(plain) > LONGEST else [plain] if plain else [])
    return found


def _pieces(text: str) -> list[str]:
    """Parts of at most ``LONGEST`` characters, cut at clause ends where there are any."""
    pieces: list[str] = []
    rest = text
    while len(rest) > LONGEST:
        cut = max(rest.rfind(mark, LONGEST // 2, LONGEST) for mark in ("; ", ", ", " "))
        end = cut + 1 if cut > 0 else LONGEST
        pieces.append(rest[:end].strip())
        rest = rest[end:].strip()
    return [*pieces, rest] if rest else pieces
