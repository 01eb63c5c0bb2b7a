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

JOINT = re.compile(
    r"\b(which (one )?of (these|those|the|them)( \w+)? (two|three|four)|than|both|altogether|in total|add(ed)? (them )?up|more|the other|"
    r"difference|all (of )?(these|the)|combined|together|by how much)\b"
)
NAMED = re.compile(r"\s\(((?:[^()]|\([^()]*\))+)\)\s*$")
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
        named: The name put behind the question in brackets ("How tall is this? (Eiffel Tower)"); "" where there is none.
        chained: Whether another relation stands between entity and answer ("where was its architect born").
        joint: Whether facts have to be put together (a comparison, a sum): no single span says the answer.
    """

    text: str
    type: str
    relations: tuple[Relation, ...]
    entity: frozenset[str]
    content: frozenset[str]
    counted: frozenset[str]
    pointed: frozenset[str]
    named: str
    chained: bool
    joint: bool


def parse_question(text: str, titles: Collection[str]) -> Question:
    """Take a question apart.

    Args:
        text: The question.
        titles: Titles of the passages at hand: names in them are known also where the question does not capitalise.
    """
    lexicon = load_lexicon()
    bracket = NAMED.search(text)
    named = bracket.group(1) if bracket else ""
    asked = NAMED.sub("", text).strip().lower()
    relations = tuple(relation for relation in lexicon.relations if any(p.search(asked) for p in relation.ask))
    type_ = _type(asked, relations)
    fitting = tuple(relation for relation in relations if relation.type is None or _fits(relation.type, type_))
    chained = 0 < len(fitting) < len(relations)
    entity = _entity(text, titles)
    counted_match = COUNTED.search(NAMED.sub("", text))
    counted = frozenset(stems(counted_match.group(1))) - lexicon.frame_stems if counted_match else frozenset()
    pointed = frozenset(stem for match in POINTED.finditer(text) for stem in stems(match.group(1)))
    pointed -= lexicon.frame_stems
    content = frozenset(stems(text)) - lexicon.frame_stems - entity - pointed
    return Question(
        text=text,
        type=type_,
        relations=fitting or relations,
        entity=entity,
        content=content,
        counted=counted - entity,
        pointed=pointed,
        named=named,
        chained=chained,
        joint=JOINT.search(asked) is not None,
    )


def asked_noun(question: Question) -> frozenset[str]:
    """Stems of the noun behind "what" or "which": the class of the answer ("which river ...")."""
    match = ASKED_NOUN.search(question.text)
    return frozenset(stems(match.group(1))) - load_lexicon().frame_stems if match else frozenset()


def _type(asked: str, relations: Sequence[Relation]) -> str:
    found = next((type_.name for type_ in load_lexicon().types if type_.asked(asked)), None)
    told = next((relation.type for relation in relations if relation.type), None)
    if found is None:
        return told or "text"
    return told if told and _same_family(found, told) else found


def _fits(type_: str, asked: str) -> bool:
    """Whether a relation's type goes with the question's; questions without a type of their own take any."""
    return type_ == asked or asked in ("text", "identity", "yes_no", "choice") or _same_family(type_, asked)


def _same_family(found: str, overruling: str) -> bool:
    """A relation may turn one measure into another ("how long do they live"), but not a person into a date."""
    measures = {
        "length",
        "mass",
        "speed",
        "area",
        "temperature",
        "duration",
        "money",
        "count",
        "age",
        "energy",
        "percent",
    }
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
