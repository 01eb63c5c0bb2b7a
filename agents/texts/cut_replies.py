"""What may be kept of a reply that was stopped in the middle."""

from __future__ import annotations

import re

import sentencex

from agents.models.base import ChatReply
from agents.texts.text import without_controls

_MOST_CHARACTERS = 6_000  # sentencex takes quadratic time on some quotes
_END_CHARACTERS = 80
_ENDED = re.compile(r"[^\W\d_]{4,}[\"')]*(?: ?\[[\d, ]+\])*[.!?][\"')]*(?: ?\[[\d, ]+\])*$")
"""A word, its citations and its full stop, in either order; "3." and "Mt." may go on."""


def was_cut(reply: ChatReply) -> bool:
    """Whether a reply was stopped in the middle: by the deadline, or by its limit of tokens."""
    return reply.finish_reason in ("abort", "length")


def whole_sentences(text: str) -> str:
    """A text without the sentence that was cut off; empty where that is the only one.

    An incomplete sentence is not used: the rest might have reversed its meaning ("The tower was never ...").
    """
    kept: list[str] = []
    for line in without_controls(text[:_MOST_CHARACTERS]).splitlines(keepends=True):
        kept += sentencex.segment("en", line)
    if kept and not _ENDED.search(kept[-1].strip()[-_END_CHARACTERS:]):
        kept.pop()
    return "".join(kept).strip()
