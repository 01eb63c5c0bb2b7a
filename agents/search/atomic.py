"""Files that are there whole or not at all, however a process ends."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place and move it there; what was begun is taken away where that fails.

    Raises:
        OSError: The folder cannot be written to, or the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=".new-", delete=False) as file:
        begun = Path(file.name)
        try:
            file.write(data)
            file.flush()
            begun.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                begun.unlink()
            raise
