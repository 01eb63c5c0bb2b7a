"""The facts of an infobox: its attributes in plain text, without those that only say how the box is drawn."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from agents.texts.text import cut_words, format_attribute
from agents.texts.wikitext import flatten

_WORD = re.compile(r"[^\W\d_]+")
_LAYOUT_WORDS = frozenset(
    "image images img imagesize pic picture photo photomontage logo icon mapframe map maps mapsize pushpin alt upright website homepage "
    "url qid wikidata commons signature thumb gallery audio video filename embed autoconvert module nocat bodystyle titlestyle "
    "headerstyle labelstyle datastyle".split()
)
_CAPTIONS = frozenset(("caption", "description", "summary"))
_OF_MAPS = frozenset("map maps mapframe pushpin logo signature icon".split())
_SIZED = frozenset(("flag", "seal", "shield", "emblem", "symbol", "crest", "coa"))
_SIZES = frozenset(("size", "width", "link"))
_COORDINATES = frozenset(("coordinates", "coords", "coord"))
_FILE = re.compile(
    r"(?:(?:file|image):)?[^;|\n]{1,200}\.(?:jpe?g|png|svg|gif|webp|tiff?|og[gva]|webm|pdf)", re.IGNORECASE
)


def is_layout(key: str, value: str) -> bool:
    """Return whether an attribute says how the infobox is drawn (files, sizes, maps, links) and nothing about the entity.

    The caption of a picture is kept, because it describes what is shown. So are coordinates, but not how they are displayed. Keys have
    blanks or underscores, values are plain text.
    """
    return _is_layout_name(key) or ("." in value and _FILE.fullmatch(value.strip()) is not None)


@lru_cache(maxsize=4096)
def _is_layout_name(key: str) -> bool:
    """Return whether the name of an attribute is one of layout; infoboxes of a kind share their names."""
    words = _WORD.findall(key.lower().replace("_", " "))
    if not words:
        return False
    if words[-1] in _CAPTIONS:
        return not _OF_MAPS.isdisjoint(words)
    if words[0] in _COORDINATES:
        return len(words) > 1
    return not _LAYOUT_WORDS.isdisjoint(words) or (words[0] in _SIZED and words[-1] in _SIZES)


def facts(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the attributes of an entity as (key, plain value) pairs.

    Markup, empty values and layout are left out. Keys are spelled with blanks.
    """
    for raw, content in attributes.items():
        for key, value in flatten(str(raw), content):
            if not is_layout(key, value):
                yield key, value


def write_thing(name: str, attributes: Mapping[str, Any], characters: int, identity: str = "") -> list[str]:
    """Write all attributes of a thing in words that people write, such as ``Red Comet. Height: 12 m.``, for a prompt or an index.

    Args:
        name: Name of the thing.
        attributes: Its attributes.
        characters: Longest passage; more attributes go into further ones. A longer attribute is cut.
        identity: Replaces the name at the beginning, such as ``This is Red Comet.``

    Returns:
        The passages; none for a thing without attributes and ``identity``.
    """
    beginning = f"{name.rstrip('.')}."
    passages: list[str] = [identity] if identity else []
    for key, value in facts(attributes):
        added = f"{format_attribute(key, value.rstrip('.'))}."
        if not passages or len(passages[-1]) + 1 + len(added) > characters:
            passages.append(beginning)
        passages[-1] = f"{passages[-1]} {cut_words(added, max(characters - len(beginning) - 1, characters // 2))}"
    return passages
