"""Sources of an index: JSON lines of knowledge-graph images and of web pages, validated line by line; page text cut into chunks."""

import html
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from semantic_text_splitter import TextSplitter

from agents.base.files import first_fault
from agents.search.hits import Entity, SearchError

_MAX_REPORTED = 20

CHUNK_WORDS = 200  # most words of a chunk: about 270 tokens, well inside the 512 that the text encoder sees

_WITHOUT_BLANKS = re.compile(  # signs of Thai, Lao, Burmese, Khmer, Japanese and Chinese
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_SIGNS = 2  # of those that count as a word: the text encoder takes each for a token
_MOST_CHARACTERS = 12  # that count as one word: what has fewer blanks is no prose
_LINE = 20_000  # characters; the splitter's time grows with the square of a longer line

KIND, THING = "kind", "thing"
"""Key and value by which things of a table are told from parts of pages in the metadata of an index of pages."""

CHUNK, CHUNK_IN_URL = "_chunk", "%5Fchunk"  # pages are told apart by the part before the first "_chunk" of an id

Text = Annotated[str, Field(strict=True)]
Filled = Annotated[str, Field(strict=True, pattern=r"\S")]


class _KgEntity(BaseModel):
    entity_name: Filled
    entity_attributes: dict[str, Any] | None = None


class _KgLine(BaseModel):
    image: Filled
    image_url: Text
    entities: list[_KgEntity]


@dataclass(frozen=True)
class Page:
    """A page as it is cut into chunks, and as a line of a file has it."""

    page_url: Filled
    page_name: Text
    page_snippet: Text


_KG_LINE, _PAGE_LINE = TypeAdapter(_KgLine), TypeAdapter(Page)
_Line = TypeVar("_Line", _KgLine, Page)


class SourceError(SearchError):
    """The sources of an index cannot be used; the message names file, line and reason of each bad line."""


@dataclass(frozen=True)
class ImageRow:
    """One image of the knowledge graph."""

    path: Path
    url: str
    entities: tuple[Entity, ...]


@dataclass(frozen=True)
class ChunkRow:
    """One chunk of a web page; ``id`` is ``URL_chunk_N``."""

    id: str
    page_name: str
    page_snippet: str
    page_url: str
    is_thing: bool = False  # whether it has the attributes of a thing of a table, and is no part of a page

    @property
    def embedded_text(self) -> str:
        """Text to embed: name and text together, as in the organiser's index, without HTML entities."""
        return html.unescape(f"{self.page_name} {self.page_snippet}")


def read_images(kg: Path, folder: Path) -> list[ImageRow]:
    """Read the rows of a knowledge-graph file, in order.

    Each line is ``{"image": PATH, "image_url": URL, "entities": [{"entity_name": .., "entity_attributes": {..}}]}``,
    its path relative to ``folder``.

    Raises:
        SourceError: The file is missing, lines are malformed, or images are not there.
    """
    rows: list[ImageRow] = []
    problems: list[str] = []
    for where, line in _lines(kg, _KG_LINE, problems):
        if not (folder / line.image).is_file():
            problems.append(f"{where}: there is no image {folder / line.image}")
        entities = (Entity(each.entity_name, each.entity_attributes or {}) for each in line.entities)
        rows.append(ImageRow(folder / line.image, line.image_url, tuple(entities)))
    report(problems)
    return rows


def read_pages(files: Sequence[Path], words: int = CHUNK_WORDS) -> list[ChunkRow]:
    """Read pages and return their chunks of at most ``words`` words, in order of first appearance.

    Each line is ``{"page_url": URL, "page_name": NAME, "page_snippet": TEXT}``. A URL that comes again adds the chunks
    that are new; a page without text is found by its name.

    Raises:
        SourceError: A file is missing, or lines are malformed.
    """
    pages: list[Page] = []
    problems: list[str] = []
    for file in files:
        for where, page in _lines(file, _PAGE_LINE, problems):
            if not (page.page_name.strip() or page.page_snippet.strip()):
                problems.append(f"{where}: the page has neither name nor text")
            pages.append(page)
    report(problems)
    return chunk_pages(pages, words)


def chunk_pages(pages: Iterable[Page], words: int = CHUNK_WORDS) -> list[ChunkRow]:
    """Return the chunks of pages, in order of first appearance; a URL that comes again adds its new chunks."""
    names: dict[str, str] = {}  # the first one that says something
    texts: dict[str, dict[str, None]] = {}
    for page in pages:
        names[page.page_url] = names.get(page.page_url) or page.page_name
        texts.setdefault(page.page_url, {}).update(dict.fromkeys(split_text(page.page_snippet, words) or [""]))
    return [
        ChunkRow(f"{url.replace(CHUNK, CHUNK_IN_URL)}{CHUNK}_{number}", names[url], text, url)
        for url, chunks in texts.items()
        for number, text in enumerate(chunks)
    ]


def _lines(file: Path, kind: TypeAdapter[_Line], problems: list[str]) -> Iterator[tuple[str, _Line]]:
    try:
        content = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read {file}: {error}") from error
    # Not splitlines(): JSON strings may contain U+2028 and similar characters unescaped.
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            try:
                yield f"{file}:{number}", kind.validate_json(line)
            except ValidationError as error:
                problems.append(f"{file}:{number}: {first_fault(error)}")


def report(problems: Sequence[str]) -> None:
    """Raise SourceError for the problems of sources, if any; the message names the first ones."""
    if problems:
        more = f"\n... and {len(problems) - _MAX_REPORTED} more" if len(problems) > _MAX_REPORTED else ""
        raise SourceError("\n".join(problems[:_MAX_REPORTED]) + more)


def split_text(text: str, words: int = CHUNK_WORDS) -> list[str]:
    """Split a text into pieces of at most ``words`` words (``_count_words``), each cut at the coarsest possible border.

    Returns:
        Pieces of at least one word.
    """
    return TextSplitter.from_callback(_count_words, words).chunks(_break_lines(text))


def _count_words(text: str) -> int:
    """Count words; of scripts without blanks and of very long words, as many as take about the same number of tokens."""
    words = len(text.split()) + len(_WITHOUT_BLANKS.findall(text)) // _SIGNS
    return max(words, len(text) // _MOST_CHARACTERS)


def _break_lines(text: str) -> str:
    """Break lines too long for the splitter, between words if possible."""
    return "\n".join(part for line in text.split("\n") for part in (_wrap(line) if len(line) > _LINE else [line]))


def _wrap(line: str) -> list[str]:
    return textwrap.wrap(line, _LINE, expand_tabs=False, replace_whitespace=False, break_on_hyphens=False)
