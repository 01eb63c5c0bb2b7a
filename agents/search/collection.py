"""A collection: a folder with somebody's own photos and pages, and the questions that check answers about them.

::

    museum/
      photos/          pictures, in folders below it too
      photos.csv       or photos.xlsx: table of the photos (``own_sources.read_table``); or captions: ``mill.txt`` for ``mill.jpg``
      pages/           HTML, Markdown, plain text, Word, Excel and PDF
      questions.csv    or questions.jsonl: questions with accepted answers (``evaluation.data.question_files``)
      gates/           gates that ``crag calibrate`` fitted to these questions, one for each preset and its models

Photos or pages may be missing, and questions are needed only by ``crag test`` and ``crag calibrate``. The first line of a caption names
what the photo shows. A further line such as ``height: 12 m`` is an attribute.

The indices of a collection are in the cache under a name made of the folder's own and a hash of its path.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agents.base.files import is_below, well_formed
from agents.search.hits import SearchError

PHOTOS, PAGES, GATES = "photos", "pages", "gates"
TABLES = ("photos.csv", "photos.xlsx")

_UNSEEN = (".", "~$")  # hidden files, and the locks that Office leaves beside open ones
_NOT_PLAIN = re.compile(r"[^a-z0-9]+")
_HASH_LENGTH = 6


@dataclass(frozen=True)
class Collection:
    """The folder of a collection, with the paths of its parts."""

    folder: Path

    @classmethod
    def open(cls, folder: Path) -> Collection:
        """Return the collection in a folder.

        Raises:
            SearchError: There is no such folder, it has neither photos nor pages, a table without its photos, or two tables, or a
                part of it is a link that leads out of it.
        """
        if not folder.is_dir():
            raise SearchError(f"there is no folder {folder}; name the folder of a collection")
        for name in (PHOTOS, *TABLES, PAGES):
            if not is_below(folder / name, folder):
                raise SearchError(f"{folder / name} is a link that leads out of {folder}; copy its target there")
        collection = cls(folder)
        if all((folder / name).is_file() for name in TABLES):
            raise SearchError(f"{folder} has both {' and '.join(TABLES)}; keep one of them")
        if collection.photos is None and collection.pages is None:
            raise SearchError(
                f"{folder} is no collection: it has neither {PHOTOS}/ nor {PAGES}/; docs/own_knowledge.md describes the folder"
            )
        if collection.photos is None and collection.table is not None:
            raise SearchError(
                f"{collection.table} lists photos, but there is no folder {folder / PHOTOS}; put them there (its name is in small letters)"
            )
        return collection

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.resolve().name

    @property
    def split(self) -> str:
        """Name of its indices in a cache."""
        path = str(self.folder.resolve())
        return (
            f"{to_slug(self.name)}-{hashlib.sha256(path.encode('utf-8', 'surrogateescape')).hexdigest()[:_HASH_LENGTH]}"
        )

    @property
    def photos(self) -> Path | None:
        """Folder of the photos, or None."""
        return self._find_folder(PHOTOS)

    @property
    def pages(self) -> Path | None:
        """Folder of the pages, or None."""
        return self._find_folder(PAGES)

    @property
    def table(self) -> Path | None:
        """Table of the photos; None if they have captions."""
        return next((path for name in TABLES if (path := self.folder / name).is_file()), None)

    @property
    def gates(self) -> list[Path]:
        """Files of the gates fitted to its questions."""
        return sorted((self.folder / GATES).glob("*.json"))

    def gate_file(self, preset: str, models: Sequence[str]) -> Path:
        """Return the place for the gate of a preset and its models."""
        return self.folder / GATES / f"{'_'.join(map(to_slug, (preset, *models)))}.json"

    def name_source(self, url: str) -> str:
        """Return the path below the folder of a source whose URL is its key in the index, such as ``photos/mill.jpg``.

        Of a photo whose row has a URL that URL is returned; any other URL is returned as it is.
        """
        address, mark, _ = url.partition(f"#{self.split}/")
        return address if mark else self.name_path(url)

    def name_path(self, url: str) -> str:
        """Return the path of a source as ``name_source`` does, also of a photo whose row has a URL."""
        photo, page = f"{self.split}/", f"{well_formed(self.name)}/"
        _, mark, path = url.partition(f"#{photo}")
        if mark or url.startswith(photo):
            return f"{PHOTOS}/{path if mark else url.removeprefix(photo)}"
        return f"{PAGES}/{url.removeprefix(page)}" if url.startswith(page) else url

    def find_source(self, name: str) -> tuple[Path, str] | None:
        """Find the file of a source that ``name_source`` named.

        Returns:
            The file and its fragment, such as ``#page=3``; None if it is no visible file of ``photos/`` or ``pages/``, also after links
            are followed.
        """
        path, mark, place = name.rpartition("#")
        return self._find_file(name, "") or (self._find_file(path, f"{mark}{place}") if mark else None)

    def _find_file(self, name: str, place: str) -> tuple[Path, str] | None:
        parts = PurePosixPath(name).parts
        if len(parts) < 2 or parts[0] not in (PHOTOS, PAGES) or any(part.startswith(".") for part in parts):
            return None
        path = self.folder / name
        try:
            return (path, place) if is_below(path, self.folder / parts[0]) and path.is_file() else None
        except (OSError, ValueError):  # too long a name, NUL in it
            return None

    def _find_folder(self, name: str) -> Path | None:
        path = self.folder / name
        return path if path.is_dir() else None


def list_files(folder: Path) -> tuple[list[Path], list[Path]]:
    """List the files below a folder, and the links to folders, to nothing or out of it, which are not followed.

    Both are sorted and relative to the folder, without hidden files and the locks that Office leaves beside open ones.
    """
    inside = [path.relative_to(folder) for path in sorted(folder.rglob("*"))]
    visible = [path for path in inside if not any(part.startswith(_UNSEEN) for part in path.parts)]
    outside = {path for path in visible if (folder / path).is_symlink() and not is_below(folder / path, folder)}
    files = [path for path in visible if path not in outside and (folder / path).is_file()]
    return files, sorted(outside | {path for path in visible if (folder / path).is_symlink()} - {*files})


def find_kept(cache: Path, split: str) -> Path:
    """Return the folder below a cache for what ``crag index`` keeps of own pages beside their index, by the index's split."""
    return cache / "collections" / split


def to_slug(name: str) -> str:
    """Convert a name to lower-case ASCII letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return _NOT_PLAIN.sub("-", plain.lower()).strip("-") or "collection"
