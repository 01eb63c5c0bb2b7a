"""A Hugging Face cache laid out by hand, so that the organiser's pipeline finds local indices with no network.

Layout (huggingface_hub, "Understand caching"): ``HUB/datasets--ORG--NAME/refs/main`` holds the 40 hexadecimal digits of
a revision, without a newline, and ``HUB/datasets--ORG--NAME/snapshots/<those digits>/`` the files.

Opening a Chroma collection writes into its folder. Hence a process never opens a published snapshot: it gets a hub of
its own (``use_local_hub``), into which ``serve`` copies what is asked for.
"""

import atexit
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from agents.files import write_whole
from agents.search.hits import SearchError

_ENV_CACHE, _ENV_OFFLINE = "HF_HUB_CACHE", "HF_HUB_OFFLINE"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_REVISION = re.compile(r"[0-9a-f]{40}")


def repository_folder(hub: Path, dataset_id: str) -> Path:
    """Where a hub keeps the data set ``ORG/NAME``; SearchError for another form: a path is no id of a data set for Hugging Face."""
    if not _REPOSITORY.fullmatch(dataset_id):
        raise SearchError(f"{dataset_id!r} is no data set id; it has to look like ORG/NAME")
    return hub / f"datasets--{dataset_id.replace('/', '--')}"


def snapshot_path(hub: Path, dataset_id: str, revision: str) -> Path:
    """Where a hub keeps the files of one revision of a data set; SearchError where that is not 40 hexadecimal digits, or the id none."""
    if not _REVISION.fullmatch(revision):
        raise SearchError(f"{revision!r} is no revision; it has to be 40 hexadecimal digits")
    return repository_folder(hub, dataset_id) / "snapshots" / revision


def current_revision(hub: Path, dataset_id: str) -> str | None:
    """The revision that ``main`` of a data set points to, or None where it has no files here."""
    reference = repository_folder(hub, dataset_id) / "refs" / "main"
    revision = reference.read_text(encoding="ascii", errors="replace").strip() if reference.is_file() else ""
    there = _REVISION.fullmatch(revision) and snapshot_path(hub, dataset_id, revision).is_dir()
    return revision if there else None


def publish(hub: Path, dataset_id: str, revision: str, work: Path) -> Path:
    """Move a finished folder into the hub, on its file system, and point ``main`` to it; whoever looks sees the old or the new one whole.

    ``revision`` stands for the content in 40 hexadecimal digits. SearchError where the id or the revision has another form.
    """
    snapshot = snapshot_path(hub, dataset_id, revision)
    snapshot.parent.mkdir(parents=True, exist_ok=True)
    if snapshot.is_dir():
        # The name stands for the content: what is there is a whole copy of the same, since it came by a rename.
        shutil.rmtree(work)
    else:
        work.rename(snapshot)
    point(hub, dataset_id, "main", revision)
    return snapshot


def point(hub: Path, dataset_id: str, tag: str, revision: str) -> None:
    """Let a tag name a revision, in one step and without a newline, which Hugging Face would take as part of it."""
    write_whole(repository_folder(hub, dataset_id) / "refs" / tag, revision.encode("ascii"))


def served_tag(revision: str) -> str:
    """What to ask Hugging Face for a served revision by.

    Not by its digits: huggingface_hub 1.31 to 1.33 would ask the network which files they stand for, offline too
    (``snapshot_download``), where 0.36 and 2.4 take the snapshot that is there. All of them look a tag up in ``refs/``.
    """
    return f"served-{revision}"


_serving: Path | None = None


def use_local_hub(hub: Path | None = None) -> Path:
    """Turn Hugging Face's libraries to a hub of this process alone, offline, which is returned; removed again when the process ends.

    Call it before anything of Hugging Face is imported: they read these settings once. Further calls change nothing. ``hub``, where indices
    are published, need not exist yet. SearchError where it is a file, or huggingface_hub has been imported already with other settings.
    """
    global _serving
    if hub is not None and hub.exists() and not hub.is_dir():
        raise SearchError(f"{hub} is not a folder")
    if _serving is not None:
        return _serving
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:
        # Somebody may have set the environment for us before the import; that is as good.
        cache, offline = str(constants.HF_HUB_CACHE), bool(constants.HF_HUB_OFFLINE)
        if not offline or os.environ.get(_ENV_CACHE) != cache:
            raise SearchError(
                "use_local_hub() came too late: huggingface_hub (transformers, datasets ...) has been imported already "
                f"and looks for data in {cache} ({'offline' if offline else 'online'}). Call it first, or start the "
                f"process with {_ENV_CACHE}=FOLDER and {_ENV_OFFLINE}=1."
            )
        _serving = Path(cache)
        _serving.mkdir(parents=True, exist_ok=True)
        return _serving
    folder = Path(tempfile.mkdtemp(prefix="crag-hub-"))
    atexit.register(_remove, folder, os.getpid())
    os.environ[_ENV_CACHE] = str(folder)
    os.environ[_ENV_OFFLINE] = "1"
    _serving = folder
    return folder


def serve(hub: Path, dataset_id: str) -> str:
    """Copy a published snapshot into the hub of this process; its revision, to ask for by ``served_tag``; SearchError without it."""
    revision = current_revision(hub, dataset_id)
    if revision is None:
        raise SearchError(f"{hub} holds no data set {dataset_id}")
    served = use_local_hub(hub)
    if served.resolve() == hub.resolve():
        raise SearchError(
            f"{_ENV_CACHE} names {hub} itself, where indices are published; opening one writes into it. "
            f"Leave {_ENV_CACHE} unset, or let it name another folder."
        )
    target = snapshot_path(served, dataset_id, revision)
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = Path(tempfile.mkdtemp(dir=served, prefix=".copy-"))
        shutil.copytree(snapshot_path(hub, dataset_id, revision), copy, dirs_exist_ok=True)
        publish(served, dataset_id, revision, copy)
    point(served, dataset_id, served_tag(revision), revision)
    return revision


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)
