"""Reads PDF, Word and Excel files in a process of its own: a small one can be made to take its parser any time and memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from agents.base.files import TooLargeError, parse_json
from agents.search.documents.errors import UnreadableError
from agents.search.documents.pdf import read_pdf
from agents.search.documents.raw_text import RAW_READERS
from agents.search.documents.sheets import read_rows, read_workbook
from agents.search.documents.word import read_word
from agents.search.index_sources import SourceError
from agents.search.reading import Reading
from agents.search.searchers import reason
from agents.time_limits.subprocess_worker import MAX_MEMORY, SubprocessError, SubprocessWorker

_MAX_REPLY = 100_000_000  # bytes of the result; one long text in each cell of a sheet has more


def read_pdf_apart(path: Path) -> dict[str, Reading]:
    """Read a PDF as ``read_pdf`` does, in the process.

    Raises:
        SourceError: The library for it is not installed.
        UnreadableError: The file is no such document, or takes too much time or memory.
        OSError: The file cannot be opened.
    """
    return {name: Reading.from_fields(fields) for name, fields in _read("pdf", path).items()}


def read_word_apart(path: Path) -> Reading:
    """Read a document as ``read_word`` does, in the process; its errors are those of ``read_pdf_apart``."""
    return Reading.from_fields(_read("word", path))


def read_workbook_apart(path: Path) -> dict[str, Reading]:
    """Read a workbook as ``read_workbook`` does, in the process; its errors are those of ``read_pdf_apart``."""
    return {name: Reading.from_fields(fields) for name, fields in _read("workbook", path).items()}


def read_raw_apart(reader: str, path: Path) -> str:
    """Return the raw text of a file for one of ``RAW_READERS``, in the process; its errors are those of ``read_pdf_apart``."""
    return str(_read(f"raw {reader}", path))


def read_rows_apart(path: Path) -> list[list[str]]:
    """Read a workbook as ``read_rows`` does, in the process; its errors are those of ``read_pdf_apart``."""
    return [[str(cell) for cell in row] for row in _read("rows", path)]


def _to_fields(readings: dict[str, Reading]) -> dict[str, Any]:
    return {name: reading.to_fields() for name, reading in readings.items()}


_READERS: dict[str, Callable[[Path], Any]] = {
    "pdf": lambda path: _to_fields(read_pdf(path)),
    "word": lambda path: read_word(path).to_fields(),
    "workbook": lambda path: _to_fields(read_workbook(path)),
    "rows": read_rows,
    **{f"raw {name}": read for name, read in RAW_READERS.items()},
}
_RAISED: dict[str, type[Exception]] = {each.__name__: each for each in (SourceError, UnreadableError)}

SECONDS = 100.0
"""Time limit of a file, to which ``_SECONDS_PER_MB`` are added."""
_SECONDS_PER_MB, _MAX_SECONDS = 100.0, 1_800.0  # a page of a PDF takes a tenth of a second, and some kilobytes


@cache
def get_worker() -> SubprocessWorker:
    """Return the worker whose process reads all documents, one after the other."""
    return SubprocessWorker()


def _read(reader: str, path: Path) -> Any:
    seconds = min(SECONDS + _SECONDS_PER_MB * path.stat().st_size / 1e6, _MAX_SECONDS)
    path.open("rb").close()  # parsers raise OSError for broken files, too: one that cannot be opened is told here
    try:
        reply = get_worker().run(f"{__name__}:read_bytes", json.dumps([reader, str(path)]).encode(), seconds)
    except TimeoutError:
        raise UnreadableError(f"it takes more than {seconds:.0f} s to read; divide it") from None
    except SubprocessError as error:
        raise UnreadableError(f"the process that reads it failed: {error}") from error
    value, kind, message = parse_json(reply)
    if kind:
        raise _RAISED[kind](message)
    return value


def read_bytes(data: bytes) -> bytes:
    """Read a document in the process: reader and path in, the result or the error out."""
    reader, path = json.loads(data)
    kind: type[Exception] = UnreadableError
    try:
        reply = json.dumps([_READERS[reader](Path(path)), "", ""]).encode()
        if len(reply) <= _MAX_REPLY:
            return reply
        message = f"it has {len(reply):,} bytes of text, at most {_MAX_REPLY:,} are read; divide it"
    except SourceError as error:
        kind, message = SourceError, str(error)
    except (TooLargeError, UnreadableError) as error:
        message = str(error)
    except MemoryError:
        message = f"it takes more than {MAX_MEMORY >> 30} GB of memory to read; divide it"
    except Exception as error:  # noqa: BLE001 - parsers of strangers' files raise anything
        message = reason(error)
    return json.dumps([None, kind.__name__, message]).encode()
