"""Opens files of Office: zip archives of XML parts."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lxml import etree

from agents.base.files import TooLargeError
from agents.search.documents.errors import UnreadableError

_MAX_BYTES = 100_000_000  # of a file's parts together when they are unpacked


@contextmanager
def open_package(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a file of Office.

    Raises:
        TooLargeError: It is too large when it is unpacked.
        UnreadableError: It is none, one of Office 97, or takes a password.
    """
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise UnreadableError(
            "it is no Office file of today, or it takes a password; open it there and save it again without one"
        ) from error
    with archive:
        size = sum(part.file_size for part in archive.infolist())
        if size > _MAX_BYTES:
            raise TooLargeError(f"it has {size:,} bytes when unpacked, at most {_MAX_BYTES:,} are read; divide it")
        yield archive


def parse_part(data: bytes) -> etree._Element:
    """Parse a part; entities are not resolved, and nothing is fetched."""
    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))
