"""Tables in Markdown: written of their cells, and divided so that each part has the header."""

import re
from collections.abc import Sequence

_RULE = re.compile(r"[\s|:]*+-[\s|:-]*+")  # the line below the header of a Markdown table
_TABLE_CHARACTERS = 350  # of a part of a table, so that it fits a chunk of evidence of 400 characters
_HEADER_CHARACTERS = 250  # a longer header is not repeated: a text of short rows would grow without bounds


def write_table(rows: Sequence[Sequence[str]]) -> str:
    """Write a table as Markdown, its first row as the header."""
    lines = [f"| {' | '.join(' '.join(text.replace('|', '/').split()) for text in row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def repeat_headers(text: str) -> str:
    """Divide long Markdown tables into parts, each below the table's header.

    Texts are cut between the parts, and rows say little without their header.
    """
    lines: list[str] = []
    header, size = "", 0  # of the table that the last line belongs to, and of its current part
    for line in text.splitlines(keepends=True):
        if "|" not in line:
            header = ""
        elif not header and lines and "|" in lines[-1] and _RULE.fullmatch(line):
            header, size = lines[-1] + line, len(lines[-1])
        elif 0 < len(header) < size and len(header) <= _HEADER_CHARACTERS and size + len(line) > _TABLE_CHARACTERS:
            lines.append(f"\n{header}")
            size = len(header)
        size += len(line)
        lines.append(line)
    return "".join(lines)
