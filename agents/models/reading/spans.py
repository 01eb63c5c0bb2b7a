"""Spans of a sentence that could answer a question of a given type: quantities, dates, counts, names, colours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from agents.models.reading.lexicon import load_lexicon

Span = tuple[int, int]
"""Start and end of a stretch of text."""

DASH = r"\s?(?:[-–—]|to|and|or|by|x|×)\s?"
NUMBER = r"[+−-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?|[+−-]?\d+(?:\.\d+)?(?:\s?/\s?\d+)?"
ABOUT = r"(?:(?:about|around|approximately|roughly|nearly|almost|over|up to|more than|at least|under|less than|only|some|c\.|circa) )?"
CAPITAL = r"[A-ZÀ-ÖØ-ÞŠŽŁŚŻĐ]"
NAME_WORD = rf"{CAPITAL}(?:\.|[\w'’&-]*)"
NAME = rf"{NAME_WORD}(?:,? (?:of |the |de |da |di |del |della |van |von |der |den |la |le |al-|and |& )*{NAME_WORD})*"
ORDINAL = r"\d{1,2}(?:st|nd|rd|th)"


def typed_spans(text: str, type_: str) -> list[Span]:
    """All spans of one type, in order; none where the type has no shape of its own (``text``)."""
    finder = FINDERS.get(type_)
    return [match.span() for match in finder().finditer(text)] if finder else []


def _words(names: object) -> str:
    return "|".join(sorted((re.escape(str(name)) for name in names), key=len, reverse=True))  # type: ignore[attr-defined]


@cache
def _number() -> str:
    """A number in figures or words, perhaps with a multiplier."""
    spelled = _words(load_lexicon().number_words)
    return rf"(?:(?:{NUMBER})|\b(?i:{spelled})(?:[- ](?i:{spelled}))*\b)(?:\s(?:million|billion|thousand|hundred))?"


@cache
def _quantity(*dimensions: str) -> re.Pattern[str]:
    units = _words([unit for dimension in dimensions for unit in load_lexicon().units[dimension]])
    number = _number()
    # "in" is an inch only where no word follows that it could be the preposition of.
    unit = rf"(?!in\b\s+(?:the|a|an|this|its|their|{CAPITAL}|\d|[a-z]+\b))(?i:{units})(?![\w/])"
    between = rf"(?:[\s-]?(?i:{units})(?![\w/]))?{DASH}"
    one = rf"(?:{number})(?:{between}(?:{number}))?[\s-]?{unit}(?: (?:{number})\s?{unit})?"
    return re.compile(rf"{ABOUT}(?<![\w.,]){one}(?:\s?\((?:{number})[^()]{{0,30}}\))?")


@cache
def _count() -> re.Pattern[str]:
    number = _number()
    every = _words([unit for names in load_lexicon().units.values() for unit in names if len(unit) > 1])
    return re.compile(
        rf"{ABOUT}(?<![\w.,/$€£×-])(?!(?:1[0-9]|20)\d\d(?!\w))(?:{number})(?:{DASH}(?:{number})(?!\w))?\+?(?![\w%°²/×]|[.,]\d)(?![\s-](?i:{every})\b)",
    )


@cache
def _date() -> re.Pattern[str]:
    month = _words(load_lexicon().months)
    year = r"(?:(?:c\.|circa|about|around) )?(?:AD )?(?<![\d,.$€£])[12]?\d{3}(?![\d,]\d|\d|%)(?:\s?(?:BCE?|CE|AD))?"
    old = r"(?:AD \d{1,4}|\d{1,4} (?:AD|CE|BCE?))"
    full = (
        rf"(?:\d{{1,2}}(?:{DASH}\d{{1,2}})? (?:{month})(?:,? {year})?"
        rf"|(?:{month}) \d{{1,2}}(?:{DASH}\d{{1,2}})?(?:,? {year})?|(?:{month})(?:,? {year})?)"
    )
    century = (
        rf"(?:(?:early|mid|late|middle|end of the|beginning of the)[- ])?(?:{ORDINAL}|[a-z]+th|first|second|third)"
        rf"(?:{DASH}{ORDINAL})? (?:century|centuries|millennium)(?:\s?(?:BCE?|CE|AD))?"
    )
    ago = rf"(?:about |around |over |some )?(?:{NUMBER})(?: million| billion)?(?:{DASH}(?:{NUMBER}))? years ago"
    season = r"(?:early |late |mid-)?\b(?:spring|summer|autumn|winter)\b"
    one = rf"(?:{full}|{old}|{century}|{ago}|{year}s?|{season})"
    return re.compile(rf"(?<!\w){one}(?:\s?(?:[-–—]|to|and|until)\s?(?:{one}|present|\d{{2}}(?!\d)))?(?!\w)")


@cache
def _money() -> re.Pattern[str]:
    number = _number()
    after = r"(?i:(?:U\.?S\.? )?dollars?|cents?|euros?|pounds?(?: sterling)?|yen|francs?|USD|EUR|GBP|rupees?)"
    return re.compile(
        rf"(?:US|A|C)?[$€£¥₹]\s?(?:{number})(?:\s?(?:million|billion))?|(?:{number})\s(?:U\.S\. )?{after}\b"
    )


@cache
def _age() -> re.Pattern[str]:
    return re.compile(rf"(?:{_number()})(?:{DASH}(?:{_number()}))?(?:\+| years?(?: old)?| and (?:up|older|over))?")


@cache
def _percent() -> re.Pattern[str]:
    return re.compile(rf"{ABOUT}(?:{_number()})(?:{DASH}(?:{_number()}))?\s?(?:%|per ?cent)")


@cache
def _name() -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){NAME}")


@cache
def _colours() -> re.Pattern[str]:
    one = rf"(?:(?:dark|light|pale|bright|creamy|deep|silver|greyish|grayish|ivory)[- ])?\b(?:{_words(load_lexicon().colours)})\b"
    return re.compile(rf"{one}(?:(?:,? (?:and|or|to)|,|-and-|-)\s?(?:{one}))*", re.IGNORECASE)


def _of(*dimensions: str) -> Callable[[], re.Pattern[str]]:
    return lambda: _quantity(*dimensions)


FINDERS: dict[str, Callable[[], re.Pattern[str]]] = {
    "length": _of("length"),
    "mass": _of("mass"),
    "speed": _of("speed"),
    "area": _of("area"),
    "volume": _of("volume"),
    "temperature": _of("temperature"),
    "duration": _of("duration"),
    "energy": _of("energy"),
    "count": _count,
    "date": _date,
    "money": _money,
    "age": _age,
    "percent": _percent,
    "person": _name,
    "place": _name,
    "language": _name,
    "colour": _colours,
}

NUMERIC = frozenset(FINDERS) - {"person", "place", "language", "colour"}
"""Types whose spans have a shape that cannot be mistaken: a value without one does not answer."""


FUNCTION_WORDS = frozenset(
    "in and of who whose which that was were is are on at to with from for during as by or had has have the a an".split()
)
ADJECTIVE = re.compile(r"(?:\w+(?:an|ese|ish|ch|ic|ist)|Dutch|Greek|Swiss|Thai|Czech)\Z")
NEXT_WORD = re.compile(r"\s([a-z][\w-]*)")


def person_spans(text: str, within: Span) -> list[Span]:
    """Names in a part of a text that are no adjectives of what follows ("Italian artist", "Dutch painter")."""
    found: list[Span] = []
    for start, end in typed_spans(text[within[0] : within[1]], "person"):
        span = (start + within[0], end + within[0])
        following = NEXT_WORD.match(text, span[1])
        word = following.group(1) if following else ""
        adjective = all(ADJECTIVE.match(part) for name in text[slice(*span)].split() for part in name.split("-"))
        if word in load_lexicon().roles or (adjective and word and word not in FUNCTION_WORDS):
            continue
        found.append(span)
    return found


def captured(text: str, patterns: Iterator[re.Pattern[str]] | tuple[re.Pattern[str], ...]) -> list[Span]:
    """What the first group of each pattern captures in a text, without trailing blanks and marks."""
    found: list[Span] = []
    for pattern in patterns:
        for match in pattern.finditer(text):
            group = match.group(1) or ""
            kept = group.rstrip(" ,;:–-").rstrip()
            kept = re.sub(r"(?:,? (?:and|of|in|the|&))+$", "", kept)
            if kept.strip():
                found.append((match.start(1), match.start(1) + len(kept)))
    return list(dict.fromkeys(found))
