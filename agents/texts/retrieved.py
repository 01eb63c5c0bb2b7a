"""What a search found, made harmless before any stage sees it: bounded, plain, and without orders to the model."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from agents.search.types import Entity, ImageHit, WebHit
from agents.texts.injection import gives_orders, neutral
from agents.texts.text import clean, one_line, visible_text
from agents.texts.wikitext import plain

MOST_VALUES = 400
"""Values of an entity that are read; real infoboxes have some dozens."""

MOST_CHARACTERS = 8_000
"""Characters of one raw value that are read."""

_MOST_NAME = 300
_MOST_DEPTH = 6
_TORN = re.compile(r"<!--.{0,300}?-->|<[^<>]{0,200}>|&#?\w{1,8};", re.DOTALL)


def safe_page(hit: WebHit) -> WebHit:
    """The page as plain text, as a reader sees it, with ``neutral`` applied."""
    return dataclasses.replace(hit, page_name=_name(hit.page_name), page_snippet=safe_text(hit.page_snippet))


def safe_text(page: str) -> str:
    """A page, or a part of it, as plain text, as a reader sees it, with ``neutral`` applied."""
    return neutral(_decoded(page))


def safe_picture(hit: ImageHit) -> ImageHit:
    """The picture with names and attributes of its entities made harmless."""
    return dataclasses.replace(hit, entities=tuple(safe_entity(entity) for entity in hit.entities))


def safe_entity(entity: Entity) -> Entity:
    """The entity with at most ``MOST_VALUES`` values; cycles are cut where they close."""
    attributes = _Bounded().mapping(entity.attributes, ())
    return Entity(_name(entity.name), attributes)


def _decoded(page: str) -> str:
    """Plain text; entities may hide tags, so that what they decode to is looked at again, once."""
    text = clean(visible_text(page))
    again = visible_text(text)
    return text if again == text else clean(again)


def _name(name: str) -> str:
    return neutral(one_line(clean(name[:_MOST_NAME])))


class _Bounded:
    """Copies of attribute values until there have been too many."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def mapping(self, value: Mapping[Any, Any], path: tuple[int, ...]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, inner in value.items():
            if self._left <= 0:
                break
            name = key if isinstance(key, str) else str(key)[:_MOST_NAME]
            if not gives_orders(name.replace("_", " ")):
                made[name[:_MOST_NAME]] = self._value(inner, (*path, id(value)))
        return made

    def _value(self, value: Any, path: tuple[int, ...]) -> Any:
        self._left -= 1
        if self._left <= 0 or len(path) > _MOST_DEPTH or id(value) in path:
            return None
        if isinstance(value, Mapping):
            return self.mapping(value, path)
        if isinstance(value, list | tuple):
            return [self._value(item, (*path, id(value))) for item in value[: max(0, self._left)]]
        if isinstance(value, str):
            return _harmless(value[:MOST_CHARACTERS])
        return value if value is None or isinstance(value, bool | int | float) else None


def _harmless(value: str) -> str:
    """A raw value as it is, or as plain text where it has something to be taken out, however its markup tears the words."""
    joined = " ".join(_TORN.sub("", value).split())
    if not gives_orders(joined) and not gives_orders(" ".join(_TORN.sub(" ", value).split())):
        return neutral(value, citations=False)
    return neutral(plain(value), citations=False)
