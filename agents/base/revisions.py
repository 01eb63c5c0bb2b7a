"""Revisions of weights: the commit beside the name of a model, so that the loaded weights are the tested ones.

A table of a profile has it as ``revision`` beside ``path``; in a command a model may be called ``ORG/NAME@REVISION``.
``make lock-models`` writes commits wherever profiles and ``aicrowd.json`` name weights.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agents.base.data_folder import data_path
from agents.base.files import read_toml

MAIN = "main"
"""The revision of weights for which none is named: a branch, which may move."""

LOCK_COMMAND = "make lock-models"

NOT_LOADED = ("original/*", "onnx/*", "*.h5", "*.msgpack")
"""Copies of weights in formats that no library of the agent reads."""

PROFILES = data_path("profiles")

REVISION_KEYS = {"path": "revision", "image_model": "image_revision", "text_model": "text_revision"}
"""Keys of a profile that name weights, and those of their revisions."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REPOSITORY = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(/.+\.gguf)?")
_DEFAULT = re.compile(
    r"\$\{CRAG_\w{1,64}:-([^}]{0,400})\}"
)  # bounded: else a text of many openings takes quadratic time


@dataclass(frozen=True)
class NamedWeights:
    """Weights of the hub that a table of a profile names."""

    table: Any  # the table, which may be changed
    key: str  # its key of the revision
    after: str  # its key of the name
    repository: str  # ``ORG/NAME``
    revision: str  # "" where the table has none

    @property
    def pinned(self) -> bool:
        """Whether the table has a commit."""
        return is_commit(self.revision)


def is_commit(revision: str) -> bool:
    """Return whether a revision is a commit, which cannot move, and no branch or tag."""
    return bool(_COMMIT.fullmatch(revision))


def split_revision(source: str | Path, revision: str = MAIN) -> tuple[str, str]:
    """Return the name to load and its revision; ``ORG/NAME@REVISION`` has both, a folder has no revision but ``MAIN``."""
    if Path(source).is_dir():
        return str(source), MAIN
    name, _, own = str(source).partition("@")
    return (name, own) if own else (str(source), revision or MAIN)


def with_revision(name: str, revision: str) -> str:
    """Return ``ORG/NAME@REVISION``, or the name alone if the revision is ``MAIN``."""
    return name if revision == MAIN else f"{name}@{revision}"


def snapshot(source: str | Path, revision: str = MAIN) -> str:
    """Return the folder of a checkpoint at its commit, fetched if need be, for a library that takes no revision.

    Returns:
        A folder or an id without a commit as it is: the library then finds it itself.

    Raises:
        OSError: Neither the local cache nor a hub has the checkpoint at that commit.
    """
    name, revision = split_revision(source, revision)
    if not is_commit(revision):
        return name
    import httpx
    from huggingface_hub import snapshot_download

    fetch = partial(snapshot_download, name, revision=revision, ignore_patterns=list(NOT_LOADED))
    try:
        return str(fetch())
    except (httpx.HTTPError, OSError) as error:
        try:
            return str(fetch(local_files_only=True))  # later clients ask for the list of files, offline too
        except OSError:
            raise OSError(f"{name} at commit {revision} cannot be fetched: {error}") from error


def named_weights(tables: Any) -> Iterator[NamedWeights]:
    """Yield the weights of the hub that the tables of a profile name, as written in its file or read; local folders are none."""
    if not isinstance(tables, Mapping):
        return
    for after, key in REVISION_KEYS.items():
        name = _DEFAULT.sub(r"\1", str(tables.get(after, "")))
        match = _REPOSITORY.fullmatch(name)
        if match and not Path(name).exists() and not data_path(name).exists():
            yield NamedWeights(tables, key, after, match[1], str(tables.get(key, "")))
    for value in tables.values():
        yield from named_weights(value)


def pinned_revision(model: str, folder: Path = PROFILES) -> str:
    """Return the commit that the profiles pin a model to, for code that names it itself; ``MAIN`` if none does, or two differ."""
    tables = [read_toml(path) for path in sorted(folder.glob("*.toml"))]
    commits = {
        each.revision for table in tables for each in named_weights(table) if each.pinned and each.repository == model
    }
    return commits.pop() if len(commits) == 1 else MAIN
