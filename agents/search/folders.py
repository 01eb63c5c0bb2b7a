"""Where caches and indices live unless a caller says otherwise, and how files are written there: whole or not at all."""

import contextlib
import os
import tempfile
from pathlib import Path


def default_cache() -> Path:
    """The folder named by the environment's ``CRAG_CACHE``, or ``.cache`` in the repository's root."""
    named = os.environ.get("CRAG_CACHE")
    return Path(named) if named else Path(__file__).resolve().parents[2] / ".cache"


def organiser_pages() -> Path:
    """Where the starter kit keeps full pages, filled before an evaluation: one file a page, named by the SHA-256 of its URL."""
    named = os.environ.get("CRAG_WEBSEARCH_CACHE_DIR")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "crag" / "web_search_results"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place and move it there; what was begun is taken away where that fails with an OSError."""
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
