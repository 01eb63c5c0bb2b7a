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
    "0df99a9a-6a5d-4ff4-b8e4-e3ee90209dfe": None,
}
"""Sessions whose ``image_url`` is dead and which image stands in for it.

The research release replaces the URL of this session; the replacement is not part of what we know, so the entry is
None: nothing is fetched, the turns are asked without an image, and a note says so. Put the new URL (or the URL under
which a copy was laid into ``image_cache``) here and it is used.
"""
