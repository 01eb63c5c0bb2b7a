"""Parses the evidence that the research release passes with each turn (``rag_context_list``), since it searches itself.

The text has the names of the entities whose pictures look like the question's (cosine above 0.75), best first, the attributes of those
that have any (``Entity 1: NAME`` and ``Entity attributes: {JSON}``), and web pages, best first, between ``<DOC>`` and ``</DOC>``.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents.search.hits import Entity, ImageHit, WebHit

MIN_IMAGE_SCORE = 0.75
"""Cosine above which the research release lists an entity: all that is known of the score of one that it lists, beside their order."""

PAGE_SCORE = 0.5
"""Placeholder score of every page: the context has none. Equal scores keep the pages in their order."""

MAX_CHARACTERS = 400_000  # characters of a context to read; the research release writes about 40,000 at most

_NAMES = re.compile(r"\blist of entity names\b[^:\n]{0,200}:(?P<names>[^\n]*)")
_ENTITY = re.compile(r"^Entity \d+:(?P<name>[^\n]*)$", re.MULTILINE)
_ATTRIBUTES = re.compile(r"\s*Entity attributes:\s*")
_PAGE = re.compile(r"^<DOC>[ \t]*\n(?:Webpage ID:[ \t]*\[?(?P<number>\d{1,6})\]?[ \t]*\n)?", re.MULTILINE)
_TITLE = re.compile(r"[ \t]*Title:[ \t]?(?P<title>.*?)(?:\n|^)Web content snippet:[ \t]?", re.DOTALL)
_END = "\n</DOC>"


@dataclass(frozen=True)
class ProvidedContext:
    """Evidence supplied by the evaluator for one turn, best first; both are empty if it found nothing."""

    pictures: tuple[ImageHit, ...] = ()
    pages: tuple[WebHit, ...] = ()


def parse_provided(text: Any) -> ProvidedContext:
    """Parse a context of the research release into hits. Never raises.

    Returns:
        No hits for a malformed value.
    """
    if not isinstance(text, str):
        return ProvidedContext()
    text = text[:MAX_CHARACTERS].replace("\r\n", "\n")
    starts = list(_page_starts(text))
    about_picture = text[: starts[0].start()] if starts else text
    return ProvidedContext(tuple(_pictures(about_picture)), tuple(_pages(text, starts)))


def _page_starts(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches at which pages begin.

    Numbered pages count on from one, so that a page which quotes another is not split.
    """
    expected = 1
    for start in _PAGE.finditer(text):
        number = start.group("number")
        if number is None or int(number) == expected:
            expected += number is not None
            yield start


def _pages(text: str, starts: list[re.Match[str]]) -> Iterator[WebHit]:
    for number, start in enumerate(starts, 1):
        block = text[start.end() - 1 : starts[number].start() if number < len(starts) else len(text)]
        close = block.rfind(_END)
        block = block[1:close] if close >= 0 else block[1:]
        title = _TITLE.match(block)
        name, snippet = (title.group("title"), block[title.end() :]) if title else ("", block)
        if snippet.strip():
            url = f"given:{number}"  # the text names none
            yield WebHit(f"{url}_chunk_0", PAGE_SCORE, name.strip(), snippet.strip(), url)


def _pictures(text: str) -> Iterator[ImageHit]:
    attributes = dict(_attributes(text))
    listed = _NAMES.search(text)
    names = _split(listed.group("names").strip(" \t").removesuffix("."), attributes) if listed else []
    for number, name in enumerate(dict.fromkeys([*names, *attributes])):
        yield ImageHit(number, MIN_IMAGE_SCORE, "", (Entity(name, attributes.get(name, {})),))


def _attributes(text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for entity in _ENTITY.finditer(text):
        name = entity.group("name").strip(" \t")
        label = _ATTRIBUTES.match(text, entity.end())
        if name and label:
            yield name, _mapping(text, label.end())


def _mapping(text: str, start: int) -> Mapping[str, Any]:
    """Parse JSON, or Python's print of a dict if the evaluator could not write JSON."""
    try:
        value = json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        end = text.find("\n\n", start)
        try:
            value = ast.literal_eval(text[start : end if end >= 0 else len(text)].strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return {}
    return value if isinstance(value, Mapping) else {}


def _split(names: str, attributes_by_entity: Mapping[str, Any]) -> list[str]:
    """Split a list of names at its commas, but not inside a known name.

    Names with attributes are known, and may have commas of their own.
    """
    parts: list[str] = []
    longest = sorted(attributes_by_entity, key=len, reverse=True)
    while names:
        name = next((name for name in longest if names == name or names.startswith(f"{name}, ")), None)
        if name is None:
            name = names.partition(", ")[0]
        names = names[len(name) + 2 :]
        if name.strip():
            parts.append(name.strip())
    return parts
