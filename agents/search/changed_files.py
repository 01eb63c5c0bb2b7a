"""Files of a collection that changed after ``crag index`` read them: their sizes and times are kept beside the index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agents.base.files import parse_json, well_formed, write_whole
from agents.search.collection import PAGES, PHOTOS, TABLES, Collection, find_kept, list_files

_MAX_NAMED = 3

FileStates = Mapping[str, tuple[int, int]]
"""Size in bytes and time of the last change in nanoseconds of each file, by its path below the collection."""


def remember_files(collection: Collection, states: FileStates, cache: Path) -> None:
    """Keep the states of the files that an index was built of.

    Raises:
        OSError: The file cannot be written.
    """
    target = _find_record(collection, cache)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, json.dumps(states, indent=0, sort_keys=True).encode())


def read_states(collection: Collection) -> dict[str, tuple[int, int]]:
    """Return the states of the visible files of a collection's photos, tables and pages."""
    folder = collection.folder
    below = [(name, path) for name in (PHOTOS, PAGES) for path in list_files(folder / name)[0]]
    paths = (*(Path(name) / path for name, path in below), *map(Path, TABLES))
    states = {well_formed(path.as_posix()): _read_state(folder / path) for path in paths}
    return {name: state for name, state in states.items() if state is not None}


def _read_state(path: Path) -> tuple[int, int] | None:
    """Return size and time of a file; None if it went away, or never was there."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_size, found.st_mtime_ns


@dataclass(frozen=True)
class IndexedFiles:
    """The files that an index was built of, as they were then. Keep it with the opened index: a later build has other states."""

    collection: Collection
    states: FileStates

    @classmethod
    def read(cls, collection: Collection, cache: Path) -> IndexedFiles:
        """Read the states that ``remember_files`` kept; there are none if the index was built without them."""
        try:
            known = parse_json(_find_record(collection, cache).read_bytes())
        except (OSError, ValueError):
            known = None
        return cls(collection, {name: tuple(state) for name, state in known.items()} if _is_record(known) else {})

    def has_changed(self, url: str) -> bool:
        """Return whether the file of a source was edited or removed since, by its URL in the index.

        Facts about a photo are in the table or in its caption, so a photo has changed if one of those has.
        """
        name = self.collection.name_path(url)
        path = next((each for each in (name, name.rpartition("#")[0]) if each in self.states), None)
        if path is None or "\ufffd" in path:  # another source, or a file whose name is no Unicode
            return False
        caption = str(PurePosixPath(path).with_suffix(".txt"))
        paths = [path, *((*TABLES, caption) if path.startswith(f"{PHOTOS}/") else ())]
        return any(self.states.get(each) != _read_state(self.collection.folder / each) for each in paths)


def _is_record(known: object) -> bool:
    return isinstance(known, Mapping) and all(isinstance(state, list) for state in known.values())


def list_changes(collection: Collection, cache: Path) -> list[str]:
    """List the files that changed, came or went since ``crag index``, sorted; empty if nothing is known of the index's files."""
    known = IndexedFiles.read(collection, cache).states
    if not known:
        return []
    now = read_states(collection)
    return sorted(name for name in {*known, *now} if known.get(name) != now.get(name))


def describe_changes(collection: Collection, cache: Path) -> str:
    """Return one line about the files that changed since ``crag index``, with the command that reads them; "" if none did."""
    changed = list_changes(collection, cache)
    if not changed:
        return ""
    total = len({*read_states(collection), *changed})
    more = ", ..." if len(changed) > _MAX_NAMED else ""
    return (
        f"{len(changed)} of {total} files changed since crag index: {', '.join(changed[:_MAX_NAMED])}{more}; "
        f"run: crag index {collection.folder}"
    )


def _find_record(collection: Collection, cache: Path) -> Path:
    folder = find_kept(cache, collection.split)
    return folder.with_name(f"{folder.name}.json")
