"""Lock of an output folder: one command writes at a time. A second one fails and names the first."""

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

from agents.base.files import annotate_os_error, one_line, parse_json, shorten_name, write_whole
from agents.base.secrets import scrub
from evaluation.records import EvaluationError

LOCK, WRITER = ".lock", ".lock.json"
"""Files of a locked folder: the lock, and who holds it. The system frees the lock when the process ends, however it ends."""

_NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL})

log = logging.getLogger(__name__)


@contextmanager
def lock_folders(*folders: Path | None) -> Iterator[None]:
    """Hold the locks of folders while the context lasts.

    Missing folders are made; an empty one is removed again. A file system without locks causes a warning, and the
    folder is used without a lock. None: no folder.

    Raises:
        EvaluationError: Another process, or this one a second time, writes into one of them; the message says who.
        OSError: A folder cannot be made, or nothing can be written into it.
    """
    with ExitStack() as stack:
        for folder in dict.fromkeys(folder for folder in folders if folder is not None):
            stack.enter_context(_lock_folder(folder))
        yield


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    lock = FileLock(folder / LOCK, timeout=0)
    with annotate_os_error(f"writing into {folder}"):
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout as error:
            raise EvaluationError(
                f"{folder} is being written into by {_describe_holder(folder)}; wait for its end, end it, or name another folder"
            ) from error
        except (NotImplementedError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
                raise
            log.warning("%s: the file system has no locks (%s): start no second run into it", folder, error)
    if not lock.is_locked:
        yield
        return
    try:
        write_whole(folder / WRITER, json.dumps(_describe_this_process(), ensure_ascii=False))
        yield
    finally:
        with suppress(OSError):  # the disk may be gone by now
            (folder / WRITER).unlink(missing_ok=True)
            if is_new and not {path.name for path in folder.iterdir()} - {LOCK}:
                (folder / LOCK).unlink()
                folder.rmdir()
        lock.release()


def _describe_this_process() -> dict[str, object]:
    command = scrub(shlex.join([Path(sys.executable).name, *sys.orig_argv[1:]]))
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return {"process": os.getpid(), "host": socket.gethostname(), "since": since, "command": one_line(command)}


def _describe_holder(folder: Path) -> str:
    """Describe the holder of a folder's lock from the file that it has written."""
    try:
        fields = parse_json((folder / WRITER).read_bytes())
        holder = (fields[name] for name in ("process", "host", "since", "command"))
        return "process {} on {} since {} ({})".format(*map(shorten_name, holder))
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
