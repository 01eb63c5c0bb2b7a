"""Splitting a multi-hop question by the attributes of the entity: the bridge from the picture to a further page.

``In which town was the man who designed this statue born?`` about an entity whose designer is Bartholdi becomes ``In which town was
Bartholdi born?``: the thing that the question goes through is found among the attributes and put in its place. This is the rule behind
query splitting (QA-Dragon, section 3.5.1) where no model can be asked.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agents.search.hits import Entity
from agents.texts.infobox import facts

_MAX_HOPS = 2
_WORD = re.compile(r"[a-z]+")
_NAME_WORD = r"(?:[A-Z][\w'’.-]*|of|the|de|da|van|von|and|le|la|du|di)"
_NAME = re.compile(rf"^{_NAME_WORD}(?: {_NAME_WORD})*$")
_PARENTHESIS = re.compile(r"(?<!\s)\s*\([^)]*\)?")
_AT_A_PLACE = re.compile(
    r"the (?:[a-z-]+ )?[a-z]+(?: (?:in|on|to|under|with)\b(?! (?:which|whom|whose|what)\b).*)?", re.IGNORECASE
)
_SMALL = ("by", "for", "after")
_EMPTY = frozenset("who what which where is was s the of this that these name called do you call".split())


@dataclass(frozen=True)
class Bridge:
    """A kind of thing that questions go through."""

    phrase: re.Pattern[str]  # its noun phrase in a question: the head and its description, up to the verb that asks
    keys: tuple[str, ...]  # words of attribute keys with its name, the likeliest first
    is_shown: bool  # whether a photo may show it itself

    def can_name(self, key: str, match: re.Match[str]) -> bool:
        """Return whether an attribute may name what a noun phrase means, and not where the thing in the photo is."""
        return not self.is_in_photo(match) or {match["head"].lower(), *_SMALL}.issuperset(_WORD.findall(key.lower()))

    def is_in_photo(self, match: re.Match[str]) -> bool:
        """Return whether a noun phrase may be the thing in the photo itself, since it says no more than where that is."""
        return self.is_shown and _AT_A_PLACE.fullmatch(match.group()) is not None

    def rank(self, key: str, described: set[str]) -> int:
        """Rank how likely an attribute holds the name; a key that the question itself uses comes first."""
        words = _WORD.findall(key.lower())
        ranks = [self.keys.index(word) for word in words if word in self.keys]
        return -1 if ranks and not described.isdisjoint(words) else min(ranks, default=len(self.keys))


@cache
def _load_bridges() -> tuple[Bridge, ...]:
    table = tomllib.loads((Path(__file__).parent / "bridges.toml").read_text(encoding="utf-8"))
    end = rf"(?= (?:{'|'.join(table['verbs'])})\b|[?,:;]|$)"
    return tuple(
        Bridge(
            re.compile(rf"\bthe (?:[a-z-]+ )?(?P<head>{'|'.join(rule['heads'])})\b[^?,:;]*?{end}", re.IGNORECASE),
            tuple(rule["keys"]),
            rule.get("shown", False),
        )
        for rule in table["bridge"]
    )


def _find_bridges(question: str) -> Iterator[tuple[Bridge, re.Match[str]]]:
    """Yield the bridges of a question that asks more than the name of its bridge."""
    for bridge in _load_bridges():
        match = bridge.phrase.search(question)
        if match is not None:
            rest = (question[: match.start()] + question[match.end() :]).lower()
            if not _EMPTY.issuperset(_WORD.findall(rest)):
                yield bridge, match


def has_bridge(question: str) -> bool:
    """Return whether a question describes a thing by its relation to another one and asks more than its name.

    An example is "the botanist who named this plant".
    """
    return any(not bridge.is_in_photo(match) for bridge, match in _find_bridges(question))


def write_hop_questions(question: str, entity: Entity | None) -> list[str]:
    """Return standalone questions in which a name replaces the description of the thing in between.

    Returns:
        One question for each name that the entity's attributes give, at most two; [] if the question goes through nothing.
    """
    pairs = [] if entity is None else list(facts(entity.attributes))
    for bridge, match in _find_bridges(question) if pairs else ():
        described = set(_WORD.findall(match.group().lower()))
        able = [(bridge.rank(key, described), value) for key, value in pairs if bridge.can_name(key, match)]
        ranked = sorted((pair for pair in able if pair[0] < len(bridge.keys)), key=lambda pair: pair[0])
        names = [name for _, value in ranked for name in split_names(value)]
        if names and match.start() > 0:
            return [question[: match.start()] + name + question[match.end() :] for name in dict.fromkeys(names)][
                :_MAX_HOPS
            ]
    return []


def split_names(value: str) -> list[str]:
    """Extract the proper names from an attribute value.

    ``Gustave Eiffel (engineer); Paris, France`` has three names.
    """
    items = (
        item.strip(" .") for part in _PARENTHESIS.sub("", value).split(";") for item in re.split(r",|\band\b", part)
    )
    return [item for item in items if item and item[0].isupper() and _NAME.match(item)]
