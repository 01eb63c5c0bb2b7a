"""Typed results of the two searches: the fields are the organiser's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class SearchError(RuntimeError):
    """A search could not be made; the message says why."""


@dataclass(frozen=True)
class Entity:
    """An entity of the image knowledge graph; attribute values are raw infobox values (wiki markup, dict, list, None)."""

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ImageHit:
    """A picture found by image search; ``score`` is the cosine to the query image."""

    index: int
    score: float
    url: str
    entities: tuple[Entity, ...]


@dataclass(frozen=True)
class WebHit:
    """A page found by web search; ``index`` is ``URL_chunk_N`` and ``score`` the cosine to the query.

    ``page_text`` is the whole page, where the result brings it (``page_content``) or the page cache has it; empty for a page that shows no
    text without its scripts. ``page_snippet`` is the part of it that was found.
    """

    index: str
    score: float
    page_name: str
    page_snippet: str
    page_url: str
    page_text: str | None = None


@dataclass(frozen=True)
class ImageResults:
    """What one image query found, or the reason why nothing could be searched; ``notes`` tell of hits that had to be dropped."""

    hits: tuple[ImageHit, ...] = ()
    error: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class WebResults:
    """What one text query found, or the reason why nothing could be searched; ``notes`` tell of hits that had to be dropped."""

    hits: tuple[WebHit, ...] = ()
    error: str | None = None
    notes: tuple[str, ...] = ()
