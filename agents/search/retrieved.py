"""Sanitises search results before any stage sees them: bounded in size, plain text, without orders to the model."""

import dataclasses
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any

from agents.search.hits import Entity, ImageHit, WebHit
from agents.search.pages.page_text import main_content
from agents.texts.injection import gives_orders, neutral
from agents.texts.text import clean, one_line, visible_text
from agents.texts.wikitext import KEPT_VALUES, plain

MAX_VALUES = 400  # values of an entity to read; real infoboxes have some dozens
MAX_CHARACTERS = 8_000  # characters of one raw value to read
KEPT_ENTITIES = 1_000  # entities that are remembered as they were made safe, of a few kilobytes each
MAX_OF_ENTITY = 200_000  # characters of all values of an entity to read

_MAX_NAME = 300
_MAX_DEPTH = 6
_MAX_STEPS = 6
_MARKS = re.compile("[&<>]")
_MARKUP = re.compile(r"[&<{\[]|''")
_TORN = re.compile(r"<!--.{0,300}?-->|<[^<>]{0,200}>|&#?\w{1,8};", re.DOTALL)


def safe_page(hit: WebHit) -> WebHit:
    """Name and snippet as plain text, as a reader sees it, with ``neutral`` applied; without the whole page (``page_reader``)."""
    return dataclasses.replace(
        hit, page_name=_name(hit.page_name), page_snippet=safe_text(hit.page_snippet), page_text=None
    )


def safe_full_text(page: str) -> str:
    """Extract the main content of a whole page and make it harmless as ``safe_text`` does."""
    return safe_text(main_content(page))


def cleaned_page(hit: WebHit) -> WebHit:
    """Name and snippet as plain text, whatever they say: where ``guard.injection`` is off; the whole page as for ``safe_page``."""
    return dataclasses.replace(
        hit, page_name=clean(hit.page_name), page_snippet=clean(visible_text(hit.page_snippet)), page_text=None
    )


def cleaned_full_text(page: str) -> str:
    """Extract the main content of a whole page and clean it as ``cleaned_page`` does."""
    return clean(main_content(page))


def safe_text(page: str) -> str:
    """Convert a page, or a part of it, to plain text as a reader sees it, and apply ``neutral``.

    A second call changes nothing more.
    """
    return _disarm(page, lambda text: clean(visible_text(text)))


def safe_picture(hit: ImageHit) -> ImageHit:
    """Make the names and attributes of a picture's entities harmless."""
    return dataclasses.replace(hit, entities=tuple(safe_entity(entity) for entity in hit.entities))


def safe_entity(entity: Entity) -> Entity:
    """Bound an entity to ``MAX_VALUES`` values and ``MAX_OF_ENTITY`` characters, and make it harmless.

    Cycles are cut where they close. Attributes are made safe when the first of them is read: crops find dozens of entities, and few
    of them become evidence.
    """
    try:
        text = json.dumps(entity.attributes)
    except (TypeError, ValueError, RecursionError):  # no JSON, a cycle, nested too deep
        text = ""
    if 0 < len(text) <= MAX_OF_ENTITY:
        return _made_safe(entity.name, text)
    return Entity(_name(entity.name), _WhenRead(lambda: entity.attributes))


@lru_cache(maxsize=KEPT_ENTITIES)
def _made_safe(name: str, attributes: str) -> Entity:
    """Make an entity with attributes as JSON harmless, and remember it.

    Crops of a photo, and photos of a batch, find the same entities again and again.
    """
    return Entity(_name(name), _WhenRead(lambda: json.loads(attributes)))


class _WhenRead(Mapping[str, Any]):
    """Attributes, made safe at their first reading."""

    def __init__(self, raw: Callable[[], Mapping[str, Any]]) -> None:
        self._raw = raw

    def __getitem__(self, key: str) -> Any:
        return self._safe[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._safe)

    def __len__(self) -> int:
        return len(self._safe)

    @cached_property
    def _safe(self) -> dict[str, Any]:
        return _BoundedCopy().mapping(self._raw(), ())


def _name(name: str) -> str:
    return _disarm(name[:_MAX_NAME], lambda text: one_line(clean(text)))


def _disarm(text: str, decode: Callable[[str], str]) -> str:
    """Decode a text and apply ``neutral``, as often as it takes."""
    decoded = decode(text)
    harmless = neutral(decoded)
    if harmless == decoded and _MARKS.search(decoded) is None:  # ordinary text: once more would change nothing
        return harmless
    return harmless if harmless == text else _repeat(harmless, lambda once: neutral(decode(once)), first_step=1)


def _repeat(text: str, step: Callable[[str], str], first_step: int = 0) -> str:
    """Apply a step until the text stops changing.

    Entities may hide tags and entities, and removals may leave new ones behind.

    Returns:
        "" if the text still changes after ``2 * _MAX_STEPS`` steps.
    """
    for number in range(first_step, 2 * _MAX_STEPS):
        if number >= _MAX_STEPS:  # wrapped more often than ordinary text is
            text = _MARKS.sub(" ", text)
        once, text = text, step(text)
        if text == once:
            return text
    return ""


class _BoundedCopy:
    """Copies of attribute values until there have been too many."""

    def __init__(self) -> None:
        self._remaining = MAX_VALUES
        self._characters = MAX_OF_ENTITY

    def mapping(self, value: Mapping[Any, Any], path: tuple[int, ...]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for key, inner in value.items():
            if self._remaining <= 0:
                break
            name = _key(key if isinstance(key, str) else str(key))
            if name is not None:
                entries[name] = self._value(inner, (*path, id(value)))
        return entries

    def _value(self, value: Any, path: tuple[int, ...]) -> Any:
        self._remaining -= 1
        if self._remaining <= 0 or len(path) > _MAX_DEPTH or id(value) in path:
            return None
        if isinstance(value, Mapping):
            return self.mapping(value, path)
        if isinstance(value, list | tuple):
            return [self._value(item, (*path, id(value))) for item in value[: max(0, self._remaining)]]
        if isinstance(value, str):
            read = value[: min(MAX_CHARACTERS, self._characters)]
            self._characters -= len(read)
            return _harmless(read)
        return value if value is None or isinstance(value, bool | int | float) else None


@lru_cache(maxsize=KEPT_VALUES)
def _key(key: str) -> str | None:
    """Clean the name of an attribute, which becomes "The <key> of <entity> is <value>".

    Only a name other than plain words is looked at closely: ``system`` is a key, not a header.

    Returns:
        None for a name that gives orders.
    """
    key = key[:_MAX_NAME]
    name = key if key.isascii() and key.replace("_", "").replace(" ", "").isalnum() else _name(key)
    return None if gives_orders(f"the {name.replace('_', ' ')}") else name


@lru_cache(maxsize=KEPT_VALUES)
def _harmless(value: str) -> str:
    """Neutralise a raw value, and turn it into plain text if something has to be taken out.

    Orders are found however the value's markup tears the words. A value without orders stays unchanged.
    """
    decoded = _repeat(value, html.unescape) if "&" in value else value
    torn = (_TORN.sub("", value), _TORN.sub(" ", value)) if _MARKS.search(value) else (value,)
    texts = (*torn, plain(decoded)) if _MARKUP.search(value) else torn
    harmless = neutral(value, citations=False)
    if harmless == value and not any(gives_orders(" ".join(text.split())) for text in texts):
        return value
    # Taking a sentence out of markup would open its comments and tags.
    return _repeat(decoded, lambda text: neutral(plain(text), citations=False))
