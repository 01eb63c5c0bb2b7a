"""A collection's own pages and things beside its index: whole texts of pages, things as texts, and the languages of the pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import exp
from pathlib import Path

from agents.base.files import write_whole
from agents.search.collection import find_kept
from agents.search.hits import Entity
from agents.search.index_sources import CHUNK, CHUNK_IN_URL, ChunkRow, ImageRow, Page, split_text
from agents.search.pages.web_cache import PageCache
from agents.texts.infobox import write_thing
from agents.texts.text import looks_like_markup

_THING_CHARACTERS = 100_000  # of all attributes of a thing
_NO_PROSE = re.compile(r"https?://\S+|[^\w\s]|\d+")
_MIN_LETTERS = 40  # fewer tell no language
_MIN_SURE = 0.5  # probability of a page's language
_MIN_SHARE = 0.05  # of the letters of all pages: a word of welcome in ten languages makes none of them one of the pages
_WHOLE_PAGE, _QUITE_SURE = 200, 0.9  # letters and probability of a page, such as a leaflet, that is enough by itself


def find_own_pages(cache: Path, split: str) -> Path:
    """Return the folder below a cache with the whole texts of a split's own pages."""
    return find_kept(cache, split) / "pages"


def keep_pages(pages: Sequence[Page], folder: Path) -> None:
    """Keep the whole texts of pages, by their URLs, and remove those of earlier pages.

    Raises:
        OSError: A file cannot be written.
    """
    store = PageCache(folder)
    kept = set()
    for page in pages:
        # Readers have taken the text out of its markup already; what looks like a tag now is text.
        text = page.page_snippet
        data = (text.replace("<", "&lt;") if looks_like_markup(text) else text).encode("utf-8", errors="replace")
        path = store.path(page.page_url)
        kept.add(path)
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path not in kept:
            path.unlink()


def write_things(rows: Sequence[ImageRow]) -> list[ChunkRow]:
    """Write each thing of a table as a text of the index of pages: its name and attributes, under the URL of its first photo.

    Questions without a photo, comparisons and second searches find it by words. A thing without attributes has no text.
    """
    urls: dict[str, str] = {}
    things: dict[str, Entity] = {}
    for row in rows:
        for number, entity in enumerate(row.entities):
            # Hits of one URL count as one page, so that of several things in a photo the others are told apart.
            urls.setdefault(entity.name, f"{row.url}#{entity.name}" if number else row.url)
            things.setdefault(entity.name, entity)
    return [
        ChunkRow(f"{urls[name].replace(CHUNK, CHUNK_IN_URL)}{CHUNK}_{number}", name, chunk, urls[name], is_thing=True)
        for name, thing in things.items()
        for text in write_thing(name, thing.attributes, _THING_CHARACTERS)
        for number, chunk in enumerate(split_text(text))
    ]


def detect_languages(pages: Sequence[Page]) -> tuple[str, ...]:
    """Detect the languages of pages, as ISO 639-1 codes.

    Returns:
        Each language of a whole page, or with at least ``_MIN_SHARE`` of the letters, the most frequent first. Pages of figures and names
        have none.
    """
    letters: Counter[str] = Counter()
    whole: set[str] = set()
    for page in pages:
        prose = " ".join(_NO_PROSE.sub(" ", page.page_snippet).split())
        if len(prose) >= _MIN_LETTERS:
            language, probability = _identify(prose)
            if probability >= _MIN_SURE:
                letters[language] += len(prose)
                if len(prose) >= _WHOLE_PAGE and probability >= _QUITE_SURE:
                    whole.add(language)
    total = letters.total()
    return tuple(
        language for language, count in letters.most_common() if language in whole or count >= _MIN_SHARE * total
    )


def _identify(prose: str) -> tuple[str, float]:
    """Return the most probable language of a text and its probability."""
    import py3langid  # its model takes a second or two to load, and no other command needs it

    (language, best), *others = py3langid.rank(prose)
    return str(language), 1 / (1 + sum(exp(float(score) - float(best)) for _, score in others))
