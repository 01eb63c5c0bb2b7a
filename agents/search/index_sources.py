"""What an index is made of: JSON lines of knowledge-graph images and of web pages, checked line by line; page text cut into chunks."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.search.hits import Entity, SearchError

_MOST_REPORTED = 20

CHUNK_WORDS = 200
"""Words a chunk holds at most: about 270 tokens, well inside the 512 that the text encoder sees."""

# From the coarsest border to the finest, with what is put between two pieces that share a chunk.
_BORDERS = (
    (re.compile(r"\n\s*\n"), "\n\n"),  # paragraphs
    (re.compile(r"\n"), "\n"),  # lines of lists and tables
    (re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"'”’)\]])\s+"), " "),  # sentences
    (re.compile(r"\s+"), " "),  # words
)


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

    @property
    def embedded_text(self) -> str:
        """What is embedded: name and text together, as the organiser's index has it, without HTML entities."""
        return html.unescape(f"{self.page_name} {self.page_snippet}")


@dataclass(frozen=True)
class Page:
    """A page as it is cut into chunks."""

    url: str
    name: str
    text: str


def read_images(kg: Path, folder: Path) -> list[ImageRow]:
    """The rows of a knowledge-graph file, in order.

    Each line is ``{"image": PATH, "image_url": URL, "entities": [{"entity_name": .., "entity_attributes": {..}}]}``,
    its path relative to ``folder``.

    Raises:
        SourceError: The file is missing, or lines are malformed, or images are not there.
    """
    rows: list[ImageRow] = []
    problems: list[str] = []
    for where, value in _lines(kg, problems):
        try:
            path = folder / _text(value, "image")
            if not path.is_file():
                raise ValueError(f"there is no image {path}")
            entities = value.get("entities")
            if not isinstance(entities, list):
                raise ValueError("'entities' has to be a list")
            rows.append(ImageRow(path, _text(value, "image_url", may_be_empty=True), tuple(map(_entity, entities))))
        except ValueError as error:
            problems.append(f"{where}: {error}")
    report(problems)
    return rows


def read_pages(files: Sequence[Path]) -> list[ChunkRow]:
    """The chunks of all pages, in order of first appearance.

    Each line is ``{"page_url": URL, "page_name": NAME, "page_snippet": TEXT}``. A URL that comes again adds the chunks
    that are new; a page without text is found by its name.

    Raises:
        SourceError: A file is missing, or lines are malformed.
    """
    pages: list[Page] = []
    problems: list[str] = []
    for file in files:
        for where, value in _lines(file, problems):
            try:
                url = _text(value, "page_url")
                name = _text(value, "page_name", may_be_empty=True)
                snippet = _text(value, "page_snippet", may_be_empty=True)
                if not (name.strip() or snippet.strip()):
                    raise ValueError("the page has neither name nor text")
            except ValueError as error:
                problems.append(f"{where}: {error}")
                continue
            pages.append(Page(url, name, snippet))
    report(problems)
    return chunked(pages)


def chunked(pages: Iterable[Page]) -> list[ChunkRow]:
    """The chunks of pages, in order of first appearance; a URL that comes again adds the chunks that are new."""
    names: dict[str, str] = {}
    texts: dict[str, dict[str, None]] = {}
    for page in pages:
        names.setdefault(page.url, page.name)
        texts.setdefault(page.url, {}).update(dict.fromkeys(split_text(page.text) or [""]))
    return [
        ChunkRow(f"{url}_chunk_{number}", names[url], text, url)
        for url, chunks in texts.items()
        for number, text in enumerate(chunks)
    ]


def _lines(file: Path, problems: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        content = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read {file}: {error}") from error
    # Not splitlines(): JSON strings may hold U+2028 and similar characters unescaped.
    for number, line in enumerate(content.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            problems.append(f"{where}: no JSON: {error}")
            continue
        if isinstance(value, dict):
            yield where, value
        else:
            problems.append(f"{where}: a JSON object is wanted, not {type(value).__name__}")


def _text(value: Mapping[str, Any], key: str, may_be_empty: bool = False) -> str:
    text = value.get(key)
    if not isinstance(text, str):
        raise ValueError(f"{key!r} has to be a string")
    if not (may_be_empty or text.strip()):
        raise ValueError(f"{key!r} is empty")
    return text


def _entity(value: Any) -> Entity:
    if not isinstance(value, dict):
        raise ValueError("an entity has to be an object")
    attributes = value.get("entity_attributes") or {}
    if not isinstance(attributes, dict):
        raise ValueError("'entity_attributes' has to be an object or null")
    return Entity(_text(value, "entity_name"), attributes)


def report(problems: Iterable[str]) -> None:
    """Nothing for sources without problems.

    Raises:
        SourceError: There are some; names the first of them.
    """
    found = list(problems)
    if found:
        more = f"\n... and {len(found) - _MOST_REPORTED} more" if len(found) > _MOST_REPORTED else ""
        raise SourceError("\n".join(found[:_MOST_REPORTED]) + more)


def split_text(text: str, words: int = CHUNK_WORDS) -> list[str]:
    """The text in pieces of at most ``words`` words, cut at the coarsest border at which it can be.

    No word is lost or doubled. A text that fits is returned as it is, stripped; an empty one gives no piece.

    Raises:
        ValueError: ``words`` is below 1.
    """
    if words < 1:
        raise ValueError(f"a chunk has to hold at least one word, not {words}")
    return _split(text.strip(), words, 0)


def _split(text: str, words: int, level: int) -> list[str]:
    if _count(text) <= words:
        return [text] if text else []
    border, joint = _BORDERS[level]
    parts = [part.strip() for part in border.split(text)]
    return _packed((piece for part in parts for piece in _split(part, words, level + 1)), words, joint)


def _packed(pieces: Iterable[str], words: int, joint: str) -> list[str]:
    """Neighbouring pieces put together as long as they fit."""
    packed: list[str] = []
    count = 0
    for piece in pieces:
        length = _count(piece)
        if packed and count + length <= words:
            packed[-1] += joint + piece
            count += length
        else:
            packed.append(piece)
            count = length
    return packed


def _count(text: str) -> int:
    return len(text.split())
