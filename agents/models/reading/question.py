"""What a question asks for: the type of the answer, the relation, the entity named and the words left over."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agents.models.reading.lexicon import WORD, Relation, load_lexicon, stems

COUNTED = re.compile(
    r"\bhow many (?:different |other |more )?((?:[\w'-]+ ){0,2}?[\w'-]+?)"
    r"(?= (?:do|does|did|is|are|was|were|can|could|has|have|had|will|in|on|of|to|people)\b|\?|$)",
    re.IGNORECASE,
)
ASKED_NOUN = re.compile(r"\b(?:what|which) ([\w'-]+)", re.IGNORECASE)
DEICTIC = re.compile(r"\b(this|that|these|those|it|its|they|their|them|he|she|his|her|him|here)\b", re.IGNORECASE)

POINTED = re.compile(r"\b(?:this|that|these|those) ([\w'-]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Question:
    """A question, taken apart.

    Attributes:
        text: As asked.
        type: Answer type of ``data/answer_types.toml``; ``text`` where any phrase may answer.
        relations: What relates the entity to the answer.
        entity: Stems of the entity's name.
        content: Stems that an answering sentence should have: neither frame words, nor the entity's name, nor the
            noun that is pointed at ("this tower").
        counted: Stems of what is counted ("how many columns").
        pointed: Stems of the noun pointed at ("this tower").
        deictic: Whether the entity is only pointed at ("this", "it"), not named.
    """

    text: str
    type: str
    relations: tuple[Relation, ...]
    entity: frozenset[str]
    content: frozenset[str]
    counted: frozenset[str]
    pointed: frozenset[str]
    deictic: bool


def parse_question(text: str, titles: Collection[str]) -> Question:
    """Take a question apart.

    Args:
        text: The question.
        titles: Titles of the passages at hand: names in them are known also where the question does not capitalise.
    """
    lexicon = load_lexicon()
    asked = text.strip().lower()
    relations = tuple(relation for relation in lexicon.relations if any(p.search(asked) for p in relation.ask))
    type_ = _type(asked, relations)
    entity = _entity(text, titles)
    counted_match = COUNTED.search(text)
    counted = frozenset(stems(counted_match.group(1))) - lexicon.frame_stems if counted_match else frozenset()
    pointed = frozenset(stem for match in POINTED.finditer(text) for stem in stems(match.group(1)))
    pointed -= lexicon.frame_stems
    content = frozenset(stems(text)) - lexicon.frame_stems - entity - pointed
    deictic = not entity and DEICTIC.search(text) is not None
    return Question(text, type_, relations, entity, content, counted - entity, pointed, deictic)


def asked_noun(question: Question) -> frozenset[str]:
    """Stems of the noun behind "what" or "which": the class of the answer ("which river ...")."""
    match = ASKED_NOUN.search(question.text)
    return frozenset(stems(match.group(1))) - load_lexicon().frame_stems if match else frozenset()


def _type(asked: str, relations: Sequence[Relation]) -> str:
    for name, patterns in load_lexicon().types:
        if any(pattern.search(asked) for pattern in patterns):
            if name in ("yes_no", "choice"):
                return name
            overruled = next((relation.type for relation in relations if relation.type), None)
            return overruled if overruled and _same_family(name, overruled) else name
    return next((relation.type for relation in relations if relation.type), "text")


def _same_family(found: str, overruling: str) -> bool:
    """A relation may turn one measure into another ("how long do they live"), but not a person into a date."""
    measures = {"length", "mass", "speed", "area", "temperature", "duration", "money", "count", "age", "energy", "percent"}
    return found in measures and overruling in measures


def _entity(text: str, titles: Collection[str]) -> frozenset[str]:
    lexicon = load_lexicon()
    found: set[str] = set()
    for match in WORD.finditer(text):
        if match.start() > 0 and match.group()[0].isupper() and match.group() != "I":
            found.update(stems(match.group()))
    asked = set(stems(text))
    for title in titles:
        name = [stem for stem in stems(title) if stem not in lexicon.frame_stems]
        if name and all(stem in asked for stem in name):
            found.update(name)
    return frozenset(found) - lexicon.frame_stems
