"""Reports what `crag index` read: for each file its words, tables and pictures, what was left out and why, and what was guessed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.base.files import well_formed, write_whole
from agents.search.collection import find_kept
from agents.search.losses import LOST
from agents.search.reading import Reading, Remark
from agents.texts.markdown_tables import write_table

REPORT = "readings.md"
"""Name of the report in the folder of ``find_kept``."""

_HEADER = ("file", "words", "tables", "pictures", "left out", "guessed")
_EXPLANATION = (
    "Pictures in documents are not read. A file is checked by counting: each word and figure of its raw format (all text nodes, cells and"
    f' letters) is in what was read, or in what was left out for a reason; else "{LOST}" is said beside it, and its reader has a fault.'
)


def find_report(cache: Path, split: str) -> Path:
    """Return the report of a split's documents below a cache."""
    return find_kept(cache, split) / REPORT


def write_report(readings: Mapping[str, Reading], left_out: Sequence[str], path: Path) -> None:
    """Write the report as Markdown, the files with the most words left out first.

    Args:
        readings: The record of each file that was read, by its path below the folder of pages.
        left_out: All messages about files, also about those that were not read.
        path: Where to write it.

    Raises:
        OSError: The file cannot be written.
    """
    rows = [
        (name, f"{each.words:,}", str(each.tables), str(each.pictures), _join(each.left_out), _join(each.guessed))
        for name, each in sorted(readings.items(), key=lambda item: (-count_left_out(item[1]), item[0]))
    ]
    parts = ["# What crag index read", summarise(readings), _EXPLANATION, write_table([_HEADER, *rows])]
    if left_out:
        parts += ["## Messages", "\n".join(f"- {message}" for message in left_out)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, well_formed("\n\n".join(parts) + "\n").encode())


def summarise(readings: Mapping[str, Reading]) -> str:
    """Return one sentence: ``read: 9 files, 8,213 words, 12 tables, 4 pictures; left out: 31 words of 2 files``."""
    words, tables, pictures = (
        sum(getattr(each, name) for each in readings.values()) for name in ("words", "tables", "pictures")
    )
    counts = ((len(readings), "file"), (words, "word"), (tables, "table"), (pictures, "picture"))
    read = ", ".join(f"{count:,} {noun}{'s' * (count != 1)}" for count, noun in counts)
    lacking = [each for each in map(count_left_out, readings.values()) if each]
    lost = sum(lacking)
    files = f"{len(lacking)} file{'s' * (len(lacking) != 1)}"
    return f"read: {read}" + (f"; left out: {lost:,} word{'s' * (lost != 1)} of {files}" if lacking else "")


def count_left_out(reading: Reading) -> int:
    """Count the words that a reader left out, as far as they are known."""
    return sum(remark.words for remark in reading.left_out)


def _join(remarks: Sequence[Remark]) -> str:
    return "; ".join(map(str, remarks))
