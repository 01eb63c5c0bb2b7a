"""Finds what a reader lost: the words and figures of a file's raw format that are not in the text that was read of it."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

from agents.search.reading import Reading, Remark

_TOKEN = re.compile(r"\d+|[^\W\d_]+")  # figures and words apart: "m²" may have become "m^2"
_MAX_SHARE = 0.02  # of the words of a file that may be lost without a word: ligatures, letters printed one by one
_MAX_NAMED = 5
LOST = "text that was not read"
"""Name of the remark about a loss."""


def find_loss(raw: str, reading: Reading, texts: Iterable[str]) -> Remark | None:
    """Find the loss of a reading that no remark of it accounts for.

    Words of the raw text that are missing in what was read, and the words of whatever the reader left out, are compared by their number.
    A word that the raw text has in pieces, or with others as one, is not lost, and nor are figures whose digits were read as others ("12"
    for "1 2"). Of figures each single one counts.

    Args:
        raw: All text of the file's raw format.
        reading: The record of the reading.
        texts: The texts and titles that were read.

    Returns:
        A remark if a figure is lost, or more than 2% of the words; else None.
    """
    read = "\n".join(texts)
    tokens, found = _count(raw), _count(read)
    squeezed = re.sub(r"[\W_]+", "", _normalise(read))
    lost = dict(tokens - found)
    for word in [word for word in lost if not word.isdigit()]:
        if (kept := squeezed.count(word)) > found[word]:
            lost[word] = max(0, tokens[word] - kept)
    if not _count_digits(lost) - _count_digits(found - tokens):
        lost = {word: count for word, count in lost.items() if not word.isdigit()}
    accounted = sum(remark.words for remark in reading.left_out)
    missing = sum(lost.values()) - accounted
    figures = [word for word, count in lost.items() if count and word.isdigit()]
    if missing <= 0 or not (figures or missing > _MAX_SHARE * tokens.total()):
        return None
    named = figures or [word for word, count in lost.items() if count]
    more = " ..." if len(named) > _MAX_NAMED else ""
    return Remark(LOST, f"the reader lost {', '.join(named[:_MAX_NAMED])}{more}", words=missing)


def _count_digits(tokens: Mapping[str, int]) -> Counter[str]:
    digits: Counter[str] = Counter()
    for token, count in tokens.items():
        if token.isdigit():
            digits.update({digit: number * count for digit, number in Counter(token).items()})
    return digits


def _normalise(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _count(text: str) -> Counter[str]:
    return Counter(_TOKEN.findall(_normalise(text)))
