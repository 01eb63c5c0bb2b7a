"""Where caches and indices live unless a caller says otherwise."""

import os
from pathlib import Path

CACHE_VARIABLE = "CRAG_CACHE"  # environment variable that names the folder
DEFAULT_CACHE = Path(__file__).resolve().parents[2] / ".cache"


def default_cache() -> Path:
    """Return the folder that ``CRAG_CACHE`` in the environment names, else the repository's ``.cache``."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else DEFAULT_CACHE


def organiser_pages() -> Path:
    """Return the starter kit's folder of full pages, one file a page, named by the SHA-256 of its URL."""
    named = os.environ.get("CRAG_WEBSEARCH_CACHE_DIR")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "crag" / "web_search_results"
