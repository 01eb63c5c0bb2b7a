"""Sessions of the public data sets that need special care, as the research release has it."""

from __future__ import annotations

SKIPPED_SESSIONS = frozenset(
    {
        "04d98259-27af-41b1-a7be-5798fd1b8e95",
        "695b4b5c-7c65-4f7b-8968-50fe10482a16",
    }
)
"""Left out by the research release (facebookresearch/CRAG-MM)."""

REPLACED_IMAGE_URLS: dict[str, str | None] = {
    "0df99a9a-6a5d-4ff4-b8e4-e3ee90209dfe": (
        "https://web.archive.org/web/20250521025904/https://upload.wikimedia.org/wikipedia/commons/1/13/"
        "BMW_5_SERIES_LWB_SEDAN_(G30)_China_(82).jpg"
    ),
}
"""Sessions whose ``image_url`` is dead, with the URL that the research release puts in its place.

With None for a session nothing is fetched, its turns are asked without an image, and a note says so.
"""
