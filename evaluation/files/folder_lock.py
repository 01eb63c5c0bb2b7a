"""Lock of an output folder: one command writes at a time; a second one fails and names the first."""

from __future__ import annotations

import errno
import json
import logging
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from agents.base.files import doing, one_line, parse_json, shortened, write_whole
from agents.base.secrets import scrubbed
from evaluation.records import EvaluationError

LOCK, WRITER = ".lock", ".lock.json"
"""Of a folder: what is locked, and who holds it. The system frees a lock when its process ends, however it ends."""

_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL})

log = logging.getLogger(__name__)


@contextmanager
def writing_into(*folders: Path | None) -> Iterator[None]:
    """Hold the locks of folders, which are made where they are missing; where nothing was written into one that was made it goes again.

    Where a file system has no locks that is logged as a warning, and the folder is written into without one. None: nothing is written.

    Raises:
        EvaluationError: Another process, or this one a second time, writes into one of them; says who.
        OSError: A folder cannot be made, or nothing can be written into it.
    """
    with ExitStack() as stack:
        for folder in dict.fromkeys(folder for folder in folders if folder is not None):
            stack.enter_context(_locked(folder))
        yield


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = FileLock(folder / LOCK, timeout=0)
    with doing(f"writing into {folder}"):
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout as error:
            raise EvaluationError(
                f"{folder} is being written into by {_writer(folder)}; wait for its end, end it, or name another folder"
            ) from error
        except (NotImplementedError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
                raise
            log.warning("%s: the file system has no locks (%s): start no second run into it", folder, error)
    if not lock.is_locked:
        yield
        return
    try:
        write_whole(folder / WRITER, json.dumps(_me(), ensure_ascii=False))
        yield
    finally:
        with suppress(OSError):  # a disk that is gone by now
            (folder / WRITER).unlink(missing_ok=True)
            if made and not {path.name for path in folder.iterdir()} - {LOCK}:
                (folder / LOCK).unlink()
                folder.rmdir()
        lock.release()


def _me() -> dict[str, object]:
    command = scrubbed(shlex.join([Path(sys.executable).name, *sys.orig_argv[1:]]))
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return {"process": os.getpid(), "host": socket.gethostname(), "since": since, "command": one_line(command)}


def _writer(folder: Path) -> str:
    """Who holds the lock of a folder, as far as that process has said it by now."""
    try:
        said = parse_json((folder / WRITER).read_bytes())
        who = (said[name] for name in ("process", "host", "since", "command"))
        return "process {} on {} since {} ({})".format(*map(shortened, who))
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
