"""Splitting a multi-hop question by the attributes of the entity: the bridge from the picture to a further page.

``In which town was the man who designed this statue born?`` about an entity whose designer is Bartholdi becomes ``In which town was
Bartholdi born?``: the thing that the question goes through is found among the attributes and put in its place. This is the rule behind
query splitting (QA-Dragon, section 3.5.1) where no model can be asked.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agents.search.hits import Entity
from agents.texts.infobox import facts

_MAX_HOPS = 2
_WORD = re.compile(r"[a-z]+")
_NAME_WORD = r"(?:[A-Z][\w'’.-]*|of|the|de|da|van|von|and|le|la|du|di)"
_NAME = re.compile(rf"^{_NAME_WORD}(?: {_NAME_WORD})*$")
_PARENTHESIS = re.compile(r"(?<!\s)\s*\([^)]*\)?")
_AT_A_PLACE = re.compile(
    r"the (?:[a-z-]+ )?[a-z]+s?(?: (?:here|there|shown|(?:up|down|over) (?:here|there)"
    r"|(?:on|in|at|to|under|below|above|behind|beside|near|by|with|next to|in front of)(?! (?:which|whom|whose|what)\b)\b.*))?",
    re.IGNORECASE,
)
_SMALL = ("by", "for", "after")
_EMPTY = frozenset(
    "who what which where whom is was are were s the of this that these those name named called do does did you call".split()
)


@dataclass(frozen=True)
class Bridge:
    """A kind of thing that questions go through."""

    heads: tuple[str, ...]  # nouns that name it in a question (``the architect of ...``, ``the country that ...``)
    keys: tuple[str, ...]  # words of attribute keys that hold its name, the likeliest first
    bare: tuple[str, ...] | None = None  # of what photos show: keys of another one than "the animal" points at

    @property
    def phrase(self) -> re.Pattern[str]:
        """Pattern of the noun phrase in a question: the head and its description, up to the verb that asks."""
        verbs = "|".join(_rules()[1])
        return re.compile(
            rf"\bthe (?:[a-z-]+ )?(?P<head>{'|'.join(self.heads)})\b[^?,:;]*?(?= (?:{verbs})\b|[?,:;]|$)", re.IGNORECASE
        )

    def is_shown(self, match: re.Match[str]) -> bool:
        """Return whether a noun phrase may be the thing in the photo itself, since it says no more than where that is."""
        return self.bare is not None and _AT_A_PLACE.fullmatch(match.group()) is not None

    def can_name(self, key: str, match: re.Match[str]) -> bool:
        """Return whether an attribute may name what a noun phrase means, and not where the thing in the photo is."""
        of_another = {match["head"].lower(), *(self.bare or ()), *_SMALL}
        return not self.is_shown(match) or of_another.issuperset(_WORD.findall(key.lower()))


@lru_cache(maxsize=1)
def _rules() -> tuple[tuple[Bridge, ...], tuple[str, ...]]:
    table = tomllib.loads((Path(__file__).parent / "bridges.toml").read_text(encoding="utf-8"))
    bridges = (
        Bridge(tuple(rule["heads"]), tuple(rule["keys"]), tuple(rule["bare"]) if "bare" in rule else None)
        for rule in table["bridge"]
    )
    return tuple(bridges), tuple(table["verbs"])


def has_bridge(question: str) -> bool:
    """Return whether a question describes a thing by its relation to another one and asks more than its name.

    An example is "the botanist who named this plant".
    """
    for bridge in _rules()[0]:
        match = bridge.phrase.search(question)
        if match is not None and not bridge.is_shown(match) and not _rest(question, match) <= _EMPTY:
            return True
    return False


def _rest(question: str, match: re.Match[str]) -> set[str]:
    return set(_WORD.findall((question[: match.start()] + question[match.end() :]).lower()))


def write_hop_questions(question: str, entity: Entity | None) -> list[str]:
    """Return standalone questions in which a name replaces the description of the thing in between.

    Returns:
        One question for each name that the entity's attributes give, at most two; [] if the question goes through nothing.
    """
    if entity is None:
        return []
    pairs = list(facts(entity.attributes))
    for bridge in _rules()[0]:
        match = bridge.phrase.search(question)
        if match is None or match.start() == 0:
            continue
        if _rest(question, match) <= _EMPTY:  # the bridge itself is asked for: "Who was the architect of this?"
            continue
        described = set(_WORD.findall(match.group().lower()))
        able = ((key, value) for key, value in pairs if bridge.can_name(key, match))
        ranked = sorted(((_rank(key, bridge, described), value) for key, value in able), key=lambda pair: pair[0])
        names = [name for rank, value in ranked if rank < len(bridge.keys) for name in split_names(value)]
        hops = [question[: match.start()] + name + question[match.end() :] for name in dict.fromkeys(names)]
        if hops:
            return hops[:_MAX_HOPS]
    return []


def _rank(key: str, bridge: Bridge, described: set[str]) -> int:
    """Rank how likely an attribute holds the bridge's name; 0 and below come first.

    A key that the question itself uses beats all others. The rest follow the order of the table.
    """
    words = _WORD.findall(key.lower())
    if not any(word in bridge.keys for word in words):
        return len(bridge.keys)
    if any(word in described for word in words):
        return -1
    return min(bridge.keys.index(word) for word in words if word in bridge.keys)


def split_names(value: str) -> list[str]:
    """Extract the proper names from an attribute value.

    ``Gustave Eiffel (engineer); Paris, France`` holds three names.
    """
    items = (
        item.strip(" .") for part in _PARENTHESIS.sub("", value).split(";") for item in re.split(r",|\band\b", part)
    )
    return [item for item in items if item and item[0].isupper() and _NAME.match(item)]
