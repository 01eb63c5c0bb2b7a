"""Files of a collection that changed after ``crag index`` read them: their sizes and times are kept beside the index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from agents.base.files import parse_json, well_formed, write_whole
from agents.search.collection import PAGES, PHOTOS, TABLES, Collection, list_files

_FOLDER = "collections"
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
    states: dict[str, tuple[int, int]] = {}
    for path in (*(Path(name) / path for name, path in below), *map(Path, TABLES)):
        try:
            found = (folder / path).stat()
        except OSError:  # it went away meanwhile, or there is no such table
            continue
        states[well_formed(path.as_posix())] = found.st_size, found.st_mtime_ns
    return states


def list_changes(collection: Collection, cache: Path) -> list[str]:
    """List the files that changed, came or went since ``crag index``, sorted; empty if nothing is known of the index's files."""
    try:
        known = parse_json(_find_record(collection, cache).read_bytes())
    except (OSError, ValueError):
        return []
    if not isinstance(known, Mapping):
        return []
    now = read_states(collection)
    return sorted(name for name in {*known, *now} if known.get(name) != list(now.get(name, ())))


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
    return cache / _FOLDER / f"{collection.split}.json"
