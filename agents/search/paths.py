"""Where the organiser's pages live unless a caller says otherwise."""

import os
from pathlib import Path


def organiser_pages() -> Path:
    """Return the starter kit's folder of full pages, one file a page, named by the SHA-256 of its URL."""
    named = os.environ.get("CRAG_WEBSEARCH_CACHE_DIR")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "crag" / "web_search_results"
