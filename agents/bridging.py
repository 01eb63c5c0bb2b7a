"""Splitting a multi-hop question by the attributes of the entity: the bridge from the picture to a further page.

``In which country was the designer of this born?`` about an entity whose architect is Stephen Sauvestre becomes a query about Stephen
Sauvestre: the attribute that the question mentions is looked up, and its value asked about. This is the rule behind query splitting
(QA-Dragon, section 3.5.1) where no model can be asked.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from agents.search.types import Entity
from agents.wikitext import flatten

_WORD = re.compile(r"[a-z]+")
_NAME_WORD = r"(?:[A-Z][\w'’.-]*|of|the|de|da|van|von|and|le|la|du|di)"
_NAME = re.compile(rf"^{_NAME_WORD}(?: {_NAME_WORD})*$")
_SYNONYMS: dict[str, list[str]] = tomllib.loads(
    (Path(__file__).parent / "data" / "bridges.toml").read_text(encoding="utf-8")
)
_LEAVE = frozenset(
    "what which who whom whose where when why how in on at of from to is are was were the a an this that these those it its did do does "
    "and s".split()
)


def bridge_queries(question: str, entity: Entity | None) -> list[str]:
    """Queries about the values that the question reaches through an attribute, the likeliest bridge first; [] where there is none."""
    if entity is None:
        return []
    words = _WORD.findall(question.lower())
    wanted = {key for word in words for key in _SYNONYMS.get(word, ())}
    rest = " ".join(word for word in words if word not in _LEAVE and word not in _SYNONYMS)
    if not wanted or not rest:
        return []
    queries: list[str] = []
    for key, value in (pair for name, raw in entity.attributes.items() for pair in flatten(str(name), raw)):
        if wanted & set(_WORD.findall(key.lower())):
            queries.extend(f"{name} {rest}" for name in names_in_value(value))
    return list(dict.fromkeys(queries))


def names_in_value(value: str) -> list[str]:
    """The proper names among the items of an attribute value: ``Gustave Eiffel; Paris, France`` -> three names."""
    items = (item.strip(" .") for part in value.split(";") for item in re.split(r",|\band\b|\(|\)", part))
    return [item for item in items if item and item[0].isupper() and _NAME.match(item)]
