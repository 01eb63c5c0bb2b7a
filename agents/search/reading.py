"""The record of one source that was read: its text, and everything that its reader left out or guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

_WORD = re.compile(r"[^\W_]+")
_TABLE = re.compile(r"^\|?(?: ?:?-{3,}:? ?\|)+ ?(?::?-{3,}:? ?)?$", re.MULTILINE)  # the line below a table's header


NOT_READ = "not read"
"""Name of the remark about pages that could not be read at all."""


@dataclass(frozen=True)
class Remark:
    """Something that a reader left out or guessed.

    Args:
        what: The part of the source, as a user calls it: "navigation", "hidden rows", "encoding".
        why: The reason, or what was guessed instead: "hidden by its style", "read as cp1252".
        where: The page or sheet of the source; "" for the whole of it.
        words: How many words it has; 0 if that is unknown or does not apply.
    """

    what: str
    why: str
    where: str = ""
    words: int = 0

    def __str__(self) -> str:
        """Format the remark for a user: ``page 3: navigation (12 words): named as such by the page``."""
        place = f"{self.where}: " if self.where else ""
        size = f" ({self.words} word{'s' * (self.words != 1)})" if self.words else ""
        return f"{place}{self.what}{size}: {self.why}"


@dataclass(frozen=True)
class Reading:
    """A page, sheet or document as Markdown: ATX headings, pipe tables with a header row, lists.

    Args:
        text: The Markdown; "" if nothing can be read.
        title: The title that the source gives itself; "" if it gives none.
        left_out: What the reader did not take into the text.
        guessed: What the reader could not know, such as an encoding that nobody declared.
        words: Words of the text.
        tables: Tables of the text.
        pictures: Pictures of the source; their content is not read, their descriptions are.
    """

    text: str
    title: str = ""
    left_out: tuple[Remark, ...] = ()
    guessed: tuple[Remark, ...] = ()
    words: int = field(default=-1)
    tables: int = field(default=-1)
    pictures: int = 0

    def __post_init__(self) -> None:
        """Count words and tables unless the reader did."""
        if self.words < 0:
            object.__setattr__(self, "words", count_words(self.text))
        if self.tables < 0:
            object.__setattr__(self, "tables", len(_TABLE.findall(self.text)))

    def to_fields(self) -> dict[str, Any]:
        """Return the record as JSON can hold it, for a reader in a process of its own and for reports."""
        return asdict(self)

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the record of ``to_fields``."""
        remarks = {name: tuple(Remark(**each) for each in fields[name]) for name in ("left_out", "guessed")}
        return cls(**{**fields, **remarks})


def count_words(text: str) -> int:
    """Count the words and figures of a text."""
    return sum(1 for _ in _WORD.finditer(text))


def sum_readings(readings: Sequence[Reading]) -> Reading:
    """Return one record of the pages or sheets of a source; their texts are not joined.

    The sum has the first title, all remarks in order, and the sums of words, tables and pictures.
    """
    return Reading(
        text="",
        title=next((reading.title for reading in readings if reading.title), ""),
        left_out=tuple(remark for reading in readings for remark in reading.left_out),
        guessed=tuple(remark for reading in readings for remark in reading.guessed),
        words=sum(reading.words for reading in readings),
        tables=sum(reading.tables for reading in readings),
        pictures=sum(reading.pictures for reading in readings),
    )
