"""Typed results of the two searches, parsed from the organiser's dicts; a malformed hit is dropped, the others are kept."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

MAX_NAME = 2_000  # characters of a page's name to read
MAX_SNIPPET = 100_000  # characters of a page's found part to read: 0.04 s to clean at most; chunks have some thousands


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

    @property
    def record(self) -> Hashable:
        """Deduplication key of a hit: equal for all hits of one record of the index, within one search."""
        # By identity, since attributes cannot be hashed: results that number their own hits may have two entities of one name.
        return self.index, self.url, tuple((entity.name, id(entity.attributes)) for entity in self.entities)


@dataclass(frozen=True)
class WebHit:
    """A page found by web search; ``index`` is ``URL_chunk_N`` and ``score`` the cosine to the query.

    ``page_text`` is the whole page if the result (``page_content``) or the page cache has it; empty for a page that shows no text without
    its scripts. ``page_snippet`` is the found part; empty if the result has the whole page alone.
    """

    index: str
    score: float
    page_name: str
    page_snippet: str
    page_url: str
    page_text: str | None = None

    @property
    def record(self) -> Hashable:
        """Deduplication key of a hit: equal for all hits of one record of the index, within one search."""
        return self.index, self.page_name, self.page_snippet, self.page_url, self.page_text


@dataclass(frozen=True)
class PageText:
    """The text of a whole page; ``text`` is None if it was not read; ``note`` says why it was not read, or not completely."""

    text: str | None
    note: str | None = None


Hit = TypeVar("Hit", ImageHit, WebHit)


@dataclass(frozen=True)
class Results(Generic[Hit]):
    """The hits of one query, or the reason why the search failed; ``notes`` tell of hits dropped and pages not read."""

    hits: tuple[Hit, ...] = ()
    error: str | None = None
    notes: tuple[str, ...] = ()


def image_results(raw: Any) -> Results[ImageHit]:
    """Typed results of one image search; malformed hits are dropped and noted."""
    return _each(raw, _image_hit)


def web_results(raw: Any) -> Results[WebHit]:
    """Typed results of one web search; malformed hits are dropped and noted."""
    return _each(raw, _web_hit)


def _each(raw: Any, convert: Callable[[Mapping[str, Any]], Hit]) -> Results[Hit]:
    if not isinstance(raw, Sequence) or isinstance(raw, str | bytes):
        return Results(error=f"the search returned {type(raw).__name__} instead of a list")
    hits: list[Hit] = []
    notes: list[str] = []
    for position, value in enumerate(raw):
        try:
            if not isinstance(value, Mapping):
                raise TypeError(f"a hit has to be a dict, not {type(value).__name__}")
            hits.append(convert(value))
        except Exception as error:  # noqa: BLE001 - whatever a foreign search put into a hit costs that hit: infinite indices, own mappings
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            notes.append(f"hit {position} dropped: {reason}")
    return Results(tuple(hits), notes=tuple(notes))


def _image_hit(value: Mapping[str, Any]) -> ImageHit:
    entities = value["entities"]
    if not isinstance(entities, Sequence) or isinstance(entities, str | bytes):
        raise TypeError("'entities' is not a list")
    named = (_entity(entity) for entity in entities)
    return ImageHit(
        index=int(value["index"]),
        score=_score(value),
        url=_text_or_nothing(value, "url"),
        entities=tuple(entity for entity in named if entity is not None),
    )


def _entity(value: Any) -> Entity | None:
    name = value.get("entity_name") if isinstance(value, Mapping) else None
    if not isinstance(name, str):
        return None
    attributes = value.get("entity_attributes")
    return Entity(name, attributes if isinstance(attributes, Mapping) else {})


def _web_hit(value: Mapping[str, Any]) -> WebHit:
    content = value.get("page_content")
    page = content if isinstance(content, str) and content.strip() else None
    read_snippet = _text if page is None else _text_or_nothing  # one of both has to be there
    return WebHit(
        index=str(value["index"]),
        score=_score(value),
        page_name=_text_or_nothing(value, "page_name")[:MAX_NAME],
        page_snippet=read_snippet(value, "page_snippet")[:MAX_SNIPPET],
        page_url=_text_or_nothing(value, "page_url"),
        page_text=page,
    )


def _score(value: Mapping[str, Any]) -> float:
    score = float(value["score"])
    if not math.isfinite(score):
        raise ValueError(f"score {score}")
    return score


def _text_or_nothing(value: Mapping[str, Any], key: str) -> str:
    """Return a text that a hit can do without; "" for None and for a missing one."""
    return "" if value.get(key) is None else _text(value, key)


def _text(value: Mapping[str, Any], key: str) -> str:
    text = value[key]
    if not isinstance(text, str):
        raise TypeError(f"{key!r} is {type(text).__name__} instead of str")
    return text
