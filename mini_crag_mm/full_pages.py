"""Full texts of the pages of the web index, in the organiser's page cache.

    python -m mini_crag_mm.full_pages --split all    # count pages and characters in a prepared cache

A search returns a snippet of a page. The evaluator keeps the page itself in a folder: HTML, in a file named by the SHA-256 of the URL. Some
pages are missing there. ``mini_crag_mm.prepare`` writes such a folder. The sources of this set are short: the snippet of almost every page
is all that its author wrote. So a full page joins that text with Wikipedia summaries. It takes those of the titles that the text mentions,
then of those that these mention. Each is a section under its own title, which chunks of the page carry. No sentence is written for it.
"""

from __future__ import annotations

import hashlib
import html
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup
from pydantic import Field

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Options
from agents.base.files import write_whole
from agents.search.pages.page_text import main_content
from agents.search.pages.web_cache import PageCache
from mini_crag_mm import wikipedia
from mini_crag_mm.content_models import SPLITS, Split
from mini_crag_mm.index_contents import BACKGROUND, list_pages
from mini_crag_mm.loader import SET, SetPaths, WebPage, read_pages

FOLDER = "page_cache"
MISSING_ONE_IN = 5
"""One page in so many is left out, chosen by the hash of its URL, so that a search falls back to its snippet."""

MAX_SECTIONS = 12
_MAX_TITLE_WORDS = 6
_SHORTEST_IN_LOWER_CASE = (
    8  # letters of a title that counts in lower case too: shorter common nouns mean something else too often
)
_WORD = re.compile(r"\w[\w'’.-]*\w|\w")
_BLOCK_END = re.compile(
    r"(</(?:h\d|ol|p|table|ul)>)\n(?=\S)"
)  # text that follows at once would stand outside of any paragraph
_TEMPLATE = "full_page.html.j2"
_LICENCES = {
    "wiki": "Text of Wikipedia, licence CC BY-SA 4.0.",
    "own": "Text of the mini CRAG-MM. Sections: text of Wikipedia, licence CC BY-SA 4.0.",
}


@dataclass(frozen=True)
class _Section:
    heading: str
    body: Markup


def locate_page(cache: Path, url: str) -> Path:
    """Return the path of a URL's full page below a cache folder; the organiser's file name has no ending."""
    return PageCache(cache / FOLDER).path(url).with_suffix("")


def is_missing(url: str) -> bool:
    """Return whether a page is left out of the cache on purpose."""
    return _draw("missing", url) % MISSING_ONE_IN == 0


class PageMaker:
    """Writer of full pages as HTML, from a page's own text and the Wikipedia summaries that it mentions."""

    def __init__(self, summaries: Mapping[str, str], claims: Mapping[str, set[Split | None]]) -> None:
        """Index the titles of summaries.

        Args:
            summaries: Title to text.
            claims: Title to the splits whose pages have it. A page takes no summary that only another split has.
        """
        self._summaries, self._claims = summaries, claims
        self._titles = {title: title for title in summaries}
        for title in summaries:
            if len(title) >= _SHORTEST_IN_LOWER_CASE:
                self._titles.setdefault(title[0].lower() + title[1:], title)
        templates = Environment(
            loader=FileSystemLoader(Path(__file__).parent),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
        )
        self._template = templates.get_template(_TEMPLATE)
        self._markdown = MarkdownIt("commonmark", {"html": True}).enable("table")

    @classmethod
    def load(cls, paths: SetPaths = SET) -> PageMaker:
        """Load the maker for the pages of the set.

        Raises:
            WikiError: The summaries are not installed.
        """
        claims: dict[str, set[Split | None]] = {}
        for page in read_pages(paths=paths):
            if page["kind"] == "wiki":
                claims.setdefault(page["page_name"], set()).add(page["split"])
        return cls(wikipedia.read_summaries(), claims)

    def make(self, page: WebPage) -> str:
        """Render a page as HTML; the hash of its URL decides where its own text stands among the sections."""
        related = [_Section(title, _format_paragraphs(self._summaries[title])) for title in self._find_related(page)]
        is_wiki = page["kind"] == "wiki"
        # Pages of the set are written as on the web: with entities, tags, lists and tables of Markdown.
        own = _format_paragraphs(page["page_snippet"]) if is_wiki else self._render(page["page_snippet"])
        at = _draw("place", page["page_url"]) % (len(related) + 1)
        return self._template.render(
            title=page["page_name"],
            site=urlsplit(page["page_url"]).hostname,
            sections=[*related[:at], _Section(page["page_name"] if at else "", own), *related[at:]],
            licence=_LICENCES["wiki" if is_wiki else "own"],
        )

    def _render(self, text: str) -> Markup:
        return Markup(self._markdown.render(_BLOCK_END.sub(r"\1\n\n", text)))

    def _find_related(self, page: WebPage) -> list[str]:
        """Return the titles of a page's further sections: those it mentions, then those that these mention."""
        titles: list[str] = []
        texts = [html.unescape(page["page_snippet"])]
        for text in texts:
            mentions = dict(self._find_mentions(text))
            # Names come before common nouns.
            for title in sorted(mentions, key=lambda title: not mentions[title]):
                is_new = title not in titles and title != page["page_name"]
                if len(titles) < MAX_SECTIONS and is_new and self._can_use(page["split"], title):
                    titles.append(title)
                    texts.append(self._summaries[title])
        return titles

    def _can_use(self, split: Split | None, title: str) -> bool:
        return title not in self._claims or split in self._claims[title]

    def _find_mentions(self, text: str) -> Iterator[tuple[str, bool]]:
        """Yield the titles in a text, the longest at each place, and whether each begins with a capital there."""
        words = [(match.start(), match.end()) for match in _WORD.finditer(text)]
        at = 0
        while at < len(words):
            start = words[at][0]
            for count in range(min(_MAX_TITLE_WORDS, len(words) - at), 0, -1):
                named = text[start : words[at + count - 1][1]]
                if (title := self._titles.get(named)) is not None:
                    yield title, named[0].isupper()
                    at += count - 1
                    break
            at += 1


def write_pages(pages: Sequence[WebPage], cache: Path, make: Callable[[WebPage], str]) -> int:
    """Bring the page cache up to date: write new and changed pages, remove those left out on purpose.

    Returns:
        Number of the pages that are in the cache now.
    """
    count = 0
    for page in pages:
        target = locate_page(cache, page["page_url"])
        if is_missing(page["page_url"]):
            target.unlink(missing_ok=True)
            continue
        content = make(page).encode()
        if not target.is_file() or target.read_bytes() != content:
            write_whole(target, content)
        count += 1
    return count


def _draw(purpose: str, url: str) -> int:
    """Return a number for a URL that is the same every time.

    It is not the hash in its file name, by which an index samples pages.
    """
    return int.from_bytes(hashlib.sha256(f"{purpose} {url}".encode()).digest()[:8], "big")


def _format_paragraphs(text: str) -> Markup:
    return Markup("\n").join(Markup("<p>{}</p>").format(line) for line in text.split("\n") if line.strip())


class PagesOptions(Options):
    """Count the full pages of a prepared cache."""

    split: Literal["validation", "public_test", "all"] = Field("all", description="splits to count")
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder that mini_crag_mm.prepare filled")
    background: int = Field(BACKGROUND, description="other summaries in the index, as it was prepared")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of the pages with a full text, and of the lengths of snippets and texts.

    Returns:
        1 if a split has no full page, else 0.
    """
    options = PagesOptions.parse(arguments)
    print("| split | pages | pages of | cached | snippet, median characters | full text, median characters |")
    print("|---|---|---|---|---|---|")
    empty = False
    for split in SPLITS if options.split == "all" else (options.split,):
        of_kind: dict[str, list[WebPage]] = {"the set": [], "Wikipedia, listed": [], "Wikipedia, background": []}
        for page in list_pages(split, options.background):
            kind = "the set" if page["kind"] != "wiki" else "Wikipedia, listed"
            of_kind[kind if page["split"] else "Wikipedia, background"].append(page)
        cached = 0
        for kind, pages in of_kind.items():
            files = [file for page in pages if (file := locate_page(options.cache, page["page_url"])).is_file()]
            texts = [len(main_content(file.read_text(encoding="utf-8"))) for file in files]
            snippets = [len(page["page_snippet"]) for page in pages]
            cached += len(files)
            print(
                f"| {split} | {len(pages)} | {kind} | {len(files)} | {_format_median(snippets)} | {_format_median(texts)} |"
            )
        if not cached:
            print(f"{options.cache} has no full pages of {split}: run python -m mini_crag_mm.prepare", file=sys.stderr)
            empty = True
    return int(empty)


def _format_median(values: Sequence[int]) -> str:
    return f"{statistics.median(values):,.0f}" if values else "-"


if __name__ == "__main__":
    sys.exit(main())
