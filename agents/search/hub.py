"""Publishes locally built indices in the layout of a Hugging Face cache, and makes the organiser's classes open them without a hub.

Layout (huggingface_hub, "Understand caching"): ``HUB/datasets--ORG--NAME/refs/main`` contains the 40 hexadecimal digits of
a revision, without a newline, and ``HUB/datasets--ORG--NAME/snapshots/<those digits>/`` the files.

Opening a Chroma collection writes into its folder. Hence a process never opens a published snapshot but a copy of its own
(``working_copy``), which the organiser's classes get where they ask for a download (``local_indices``). Nothing else of the process
notices: Hugging Face's libraries keep the user's cache, hub and connection.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import re
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agents.base.files import annotate_os_error, write_whole
from agents.base.revisions import is_commit
from agents.search.hits import SearchError

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_DOWNLOAD = "snapshot_download"
_REMOVED = ".removed-"  # prefix of snapshots in removal
_COPIES = "crag-hub-"  # before the names of the folders of working copies
_OWNER = ".owner"  # lock file of its process in such a folder
_IDS = "index_metadata.pickle"
_NEVER_WRITTEN = frozenset({"data_level0.bin", "link_lists.bin", _IDS})
"""Vectors of a Chroma collection, their graph and their ids. Where all three are there, opening and searching only read them; an index of
fewer than a thousand entries has no ids yet, and chromadb 1.4.1 writes its files anew.
"""
_opening = threading.Lock()


def repository_folder(hub: Path, dataset_id: str) -> Path:
    """Return the folder in which a hub keeps the data set ``ORG/NAME``.

    Raises:
        SearchError: The id has another form. Hugging Face takes no path for the id of a data set.
    """
    if not _REPOSITORY.fullmatch(dataset_id):
        raise SearchError(f"{dataset_id!r} is no data set id; it has to look like ORG/NAME, without blanks")
    return hub / f"datasets--{dataset_id.replace('/', '--')}"


def snapshot_path(hub: Path, dataset_id: str, revision: str) -> Path:
    """Return the folder in which a hub keeps one revision of a data set.

    Raises:
        SearchError: The revision is not 40 hexadecimal digits, or the id has another form.
    """
    if not is_commit(revision):
        raise SearchError(f"{revision!r} is no revision; it has to be 40 hexadecimal digits")
    return repository_folder(hub, dataset_id) / "snapshots" / revision


def current_revision(hub: Path, dataset_id: str) -> str | None:
    """Return the revision that ``main`` of a data set points to.

    Returns:
        None if the revision has no files here.
    """
    reference = repository_folder(hub, dataset_id) / "refs" / "main"
    revision = reference.read_text(encoding="ascii", errors="replace").strip() if reference.is_file() else ""
    there = is_commit(revision) and snapshot_path(hub, dataset_id, revision).is_dir()
    return revision if there else None


def find_published(hub: Path, template: str) -> dict[str, float]:
    """Find the published splits of the data sets whose ids are like ``org/name-{split}``.

    Returns:
        The time of publication by the value of ``{split}`` in the id.
    """
    before, placed, after = template.partition("{split}")
    start = f"datasets--{before.replace('/', '--')}"
    times = {}
    for folder in hub.glob(f"{start}*{after}") if placed else ():
        split = folder.name.removeprefix(start).removesuffix(after)
        if current_revision(hub, f"{before}{split}{after}") is not None:
            times[split] = (folder / "refs" / "main").stat().st_mtime
    return times


def publish(hub: Path, dataset_id: str, revision: str, work: Path) -> Path:
    """Move a finished folder into the hub, on its file system, and point ``main`` to it.

    Readers see the old or the new data set, never a mixture.

    Args:
        hub: Folder of the hub.
        dataset_id: ``ORG/NAME``.
        revision: Hash of the content, 40 hexadecimal digits.
        work: The finished folder.

    Raises:
        SearchError: The id or the revision has another form.
    """
    snapshot = snapshot_path(hub, dataset_id, revision)
    snapshot.parent.mkdir(parents=True, exist_ok=True)
    if snapshot.is_dir():
        # The name identifies the content: an existing folder is a whole copy of it, since it came by a rename.
        shutil.rmtree(work)
    else:
        work.rename(snapshot)
    point(hub, dataset_id, revision)
    return snapshot


def remove_snapshot(snapshot: Path) -> None:
    """Remove a snapshot. Whoever looks sees all of it or nothing, also if the process is killed in between."""
    removed = snapshot.with_name(f"{_REMOVED}{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        snapshot.rename(removed)
    for leftover in snapshot.parent.glob(f"{_REMOVED}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def point(hub: Path, dataset_id: str, revision: str) -> None:
    """Let ``main`` name a revision, in one step and without a newline, which Hugging Face would take as part of it."""
    write_whole(repository_folder(hub, dataset_id) / "refs" / "main", revision.encode("ascii"))


def working_copy(hub: Path, dataset_id: str) -> Path:
    """Copy the published snapshot once for this process; the copy is removed when the process ends.

    The vectors are hard links where temporary files are on the hub's file system. ``chroma.sqlite3`` cannot be: opening adds a row.

    Raises:
        SearchError: No snapshot is published.
        OSError: The copy cannot be made.
    """
    with annotate_os_error(
        f"copying the index {dataset_id} into the folder of temporary files (TMPDIR names another one)"
    ):
        copies = _copies()
        while (revision := current_revision(hub, dataset_id)) is not None:
            target = snapshot_path(copies, dataset_id, revision)
            if target.is_dir():
                return target
            try:
                copy = _copy_snapshot(snapshot_path(hub, dataset_id, revision), copies)
            except OSError:
                if current_revision(hub, dataset_id) == revision:
                    raise
                continue  # a build has replaced the snapshot meanwhile
            return publish(copies, dataset_id, revision, copy)
    raise SearchError(f"{hub} has no data set {dataset_id}; build it with python -m agents.search.build_index")


@contextlib.contextmanager
def local_indices(folders: Mapping[str, Path]) -> Iterator[None]:
    """Let the organiser's classes open these folders, by data set id, without a request.

    They call ``snapshot_download`` for a folder: ``CragImageKG`` by the name in its module, ``CragMockWeb`` by that in huggingface_hub
    (cragmm_search 0.5.1). Within the context both names are a function that knows these data sets and passes every other call on, so that
    downloads in other threads go on.

    Raises:
        ImportError: cragmm_search is not installed.
    """
    import huggingface_hub
    from cragmm_search.image_search_mock_api import image_kg

    def find_snapshot(repo_id: str, *arguments: Any, **settings: Any) -> Any:
        if settings.get("repo_type") == "dataset" and repo_id in folders:
            return str(folders[repo_id])
        return download(repo_id, *arguments, **settings)

    with _opening:
        download = huggingface_hub.snapshot_download
        places = {place: getattr(place, _DOWNLOAD) for place in (huggingface_hub, image_kg)}
        try:
            for place in places:
                setattr(place, _DOWNLOAD, find_snapshot)
            yield
        finally:
            for place, function in places.items():
                setattr(place, _DOWNLOAD, function)


def _copy_snapshot(snapshot: Path, copies: Path) -> Path:
    """Copy a snapshot into a new folder below ``copies``, which is removed if that fails.

    Raises:
        OSError: The copy cannot be made; it names the file that was written.
    """
    copy = Path(tempfile.mkdtemp(dir=copies, prefix=".copy-"))
    try:
        _copy_folder(snapshot, copy)
    except OSError as error:
        shutil.rmtree(copy, ignore_errors=True)
        error.filename = error.filename2 or error.filename  # a copy names both files; the second is written
        raise
    return copy


def _copy_folder(source: Path, target: Path) -> None:
    """Copy the content of a folder into an existing one.

    Raises:
        OSError: The first file that fails; ``shutil.copytree`` goes on with the rest and drops the error's number.
    """
    for path in source.iterdir():
        if path.is_dir():
            (target / path.name).mkdir()
            _copy_folder(path, target / path.name)
        else:
            _link_or_copy(path, target / path.name)


def _link_or_copy(source: Path, target: Path) -> None:
    if source.name in _NEVER_WRITTEN and source.with_name(_IDS).is_file():
        with contextlib.suppress(OSError):  # on another file system, or one without links
            os.link(source.resolve(), target)
            return
    shutil.copyfile(source, target)  # not its mode: a shared cache may be read-only, and Chroma writes into its copy


@functools.cache
def _copies() -> Path:
    """Create the folder of this process's working copies, which is removed when the process ends."""
    _remove_orphans()
    begun = Path(tempfile.mkdtemp(prefix=f".{_COPIES}"))
    # Never closed: the lock is held until the process ends, however it ends.
    fcntl.flock(os.open(begun / _OWNER, os.O_CREAT | os.O_RDWR, 0o600), fcntl.LOCK_EX)
    folder = begun.rename(begun.with_name(begun.name[1:]))  # no other process looks at it before it is locked
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove_orphans() -> None:
    """Remove this user's folders of working copies whose processes were killed: nobody holds their locks any more."""
    for owner in Path(tempfile.gettempdir()).glob(f"{_COPIES}*/{_OWNER}"):
        with contextlib.suppress(OSError), owner.open("r+b") as file:
            if os.fstat(file.fileno()).st_uid == os.getuid():
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(owner.parent)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)
