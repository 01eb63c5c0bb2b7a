"""Loads the tables of answer types, relations and units; stems words."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import Stemmer

WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*", re.UNICODE)
_STEMMER = Stemmer.Stemmer("english")


@dataclass(frozen=True)
class AnswerType:
    """A type of answer and the lower-cased questions that ask for it."""

    name: str
    patterns: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None

    def asked(self, question: str) -> bool:
        """Whether a lower-cased question asks for this type."""
        found = any(pattern.search(question) for pattern in self.patterns)
        return found and not (self.unless and self.unless.search(question))


@dataclass(frozen=True)
class Relation:
    """One way of asking and the words by which it is answered; see ``data/answer_types.toml``."""

    name: str
    ask: tuple[re.Pattern[str], ...]
    phrases: tuple[tuple[str, ...], ...]
    patterns: tuple[re.Pattern[str], ...]
    type: str | None


@dataclass(frozen=True)
class Lexicon:
    """The tables of ``data/answer_types.toml``, compiled.

    Attributes:
        types: Answer types, in order of precedence.
        relations: All relations.
        units: Unit words, lower case, by the dimension they measure.
        number_words: Numbers spelled out.
        colours: Colour words.
        months: Names of the months.
        roles: Occupations and offices that follow an adjective of origin.
        frame_stems: Stems that say nothing of what is asked.
    """

    types: tuple[AnswerType, ...]
    relations: tuple[Relation, ...]
    units: dict[str, frozenset[str]]
    number_words: tuple[str, ...]
    colours: frozenset[str]
    months: tuple[str, ...]
    roles: frozenset[str]
    frame_stems: frozenset[str]


def words(text: str) -> list[str]:
    """The words of a text, lower-cased."""
    return [match.group().lower() for match in WORD.finditer(text)]


def stems(text: str) -> list[str]:
    """The stems (Snowball, English) of the words of a text, possessive endings left out."""
    return stem_all(re.sub(r"['’]s$", "", word) for word in words(text))


def stem_all(items: Iterable[str]) -> list[str]:
    """The stem of each lower-case word."""
    found: list[str] = _STEMMER.stemWords(list(items))
    return found


@cache
def load_lexicon() -> Lexicon:
    """The tables, read once."""
    raw = tomllib.loads((files("agents.models") / "data" / "answer_types.toml").read_text(encoding="utf-8"))
    relations = tuple(
        Relation(
            name=row["name"],
            ask=_compiled(row["ask"], re.IGNORECASE),
            phrases=tuple(dict.fromkeys(tuple(stems(phrase)) for phrase in row["words"])),
            patterns=_compiled(row.get("patterns", ()), 0),
            type=row.get("type"),
        )
        for row in raw["relation"]
    )
    values = raw["values"]
    return Lexicon(
        types=tuple(
            AnswerType(
                row["name"], _compiled(row["patterns"], 0), re.compile(row["unless"]) if "unless" in row else None
            )
            for row in raw["type"]
        ),
        relations=relations,
        units={dimension: frozenset(names) for dimension, names in raw["units"].items()},
        number_words=tuple(values["number_words"]),
        colours=frozenset(values["colours"]),
        months=tuple(values["months"]),
        roles=frozenset(values["roles"]),
        frame_stems=frozenset(stem_all(values["frame_words"])),
    )


def _compiled(patterns: Iterable[str], flags: int) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, flags) for pattern in patterns)
