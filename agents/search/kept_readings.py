"""Keeps what was read of each file, so that ``crag index`` reads only files that changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from agents.base.files import parse_json, write_whole
from agents.search.collection import find_kept
from agents.search.index_sources import Page
from agents.search.reading import Reading

Document = tuple[list[Page], str, Reading | None]
"""The pages with text of a file, why some are missing or what was guessed, and the record of the reading if there is one."""


def find_readings(cache: Path, split: str) -> Path:
    """Return the folder below a cache with the readings of a split's documents."""
    return find_kept(cache, split) / "readings"


_CODE = ("base", "search", "texts")  # packages of ``agents`` that readers are made of


@dataclass
class KeptReadings:
    """Readings of the files of one collection, each in a file below ``folder``.

    A reading is used again if path, content, URL, the readers' code and all installed packages are the same. A file that could not be read
    is tried again, because time or memory may have been short.
    """

    folder: Path
    num_read: int = field(default=0, init=False)
    """Number of files that were read."""
    num_kept: int = field(default=0, init=False)
    """Number of files whose earlier reading was used."""

    def complete(
        self, root: Path, base_url: str, paths: Sequence[Path], read: Callable[[Sequence[Path]], Iterable[Document]]
    ) -> list[Document]:
        """Return the readings of files: those that are kept, and of the others what ``read`` returns, which is kept at once.

        Args:
            root: Folder of the files.
            base_url: What their URLs begin with.
            paths: The files, relative to ``root``; readings of others are removed.
            read: Reads files, in their order.

        Raises:
            OSError: A reading cannot be written.
        """
        places = {path: self._find_place(root, base_url, path) for path in paths}
        documents = {path: kept for path, place in places.items() if (kept := _load(place)) is not None}
        missing = [path for path in paths if path not in documents]
        for path, document in zip(missing, read(missing), strict=True):
            documents[path] = document
            if (place := places[path]) is not None and document[2] is not None:
                _keep(document, place)
        self.num_read, self.num_kept = len(missing), len(paths) - len(missing)
        used = {*places.values()}
        for other in self.folder.iterdir() if self.folder.is_dir() else ():
            if other not in used:
                other.unlink()
        return [documents[path] for path in paths]

    def _find_place(self, root: Path, base_url: str, path: Path) -> Path | None:
        """Return the file of a reading; None if the source cannot be opened, which its reader tells."""
        key = json.dumps([_hash_readers(), base_url, path.as_posix()])
        try:
            with (root / path).open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return None
        return self.folder / f"{hashlib.sha256(f'{key}{content}'.encode()).hexdigest()}.json"


@cache
def _hash_readers() -> str:
    """Hash the code that reads files, and the names and versions of all installed packages."""
    digest = hashlib.sha256()
    folder = Path(__file__).parents[1]
    for path in sorted(path for name in _CODE for path in (folder / name).rglob("*.py")):
        digest.update(path.read_bytes())
    digest.update(repr(sorted((each.metadata["Name"], each.version) for each in distributions())).encode())
    return digest.hexdigest()


def _keep(document: Document, place: Path) -> None:
    pages, problem, reading = document
    assert reading is not None
    write_whole(place, json.dumps([[asdict(page) for page in pages], problem, reading.to_fields()]))


def _load(place: Path | None) -> Document | None:
    """Return a kept reading; None if there is none, or its file is broken."""
    try:
        if place is None or not place.is_file():
            return None
        pages, problem, fields = parse_json(place.read_bytes())
        return [Page(**page) for page in pages], problem, Reading.from_fields(fields)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
