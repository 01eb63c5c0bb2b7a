"""What the words of a follow-up refer to: rules over the dialog so far.

A dialog begins with what the picture shows. ``this`` goes back to the picture; ``he``, ``that city`` or ``there`` take up a
name of the last answer; ``it`` stays with whatever the dialog is about, at the place where an earlier question pointed.
``the bridge`` goes back to the picture too, if a question pointed at ``this bridge`` before.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from agents.base_agent import Message
from agents.english.object_phrases import find_definite_noun, find_pointed_phrase, find_position
from agents.english.question_kinds import is_about_several
from agents.english.thing_kinds import find_kind
from agents.turn import Position

_IMAGE = re.compile(
    r"\b((?:this|these)(?! (?:year|month|week|weekend|decade|century)\b)(?! (?:season|spring|summer|autumn|fall|winter|morning|afternoon|"
    r"evening)(?:\W*$|[,;]))|picture|photo|image|pictured|shown|in front of me|on the (left|right|top|bottom)|"
    r"in the (middle|back|background|foreground)|(left|right|middle|bottom|top|left-hand|right-hand) one|here)\b",
    re.IGNORECASE,
)
_POINTING = re.compile(
    r"\b(?:this|these)\b(?! (?:year|month|week|weekend|season|spring|summer|autumn|fall|winter|morning|afternoon|evening|museum|zoo|park|"
    r"garden|gallery|collection|exhibition|place|site|shop)s?\b)"
    r"|\b(?:picture|photo|image|pictured|shown|in front of me|left[- ]hand|right[- ]hand|(?:left|right|middle|bottom|top) one)\b"
    r"|^(?:what|who) (?:is|are|was|were) (?:it|that|those|he|she)\W*$"
    r"|^how (?:tall|high|old|big|large|heavy|wide|deep) (?:is|are|was|were) (?:it|that|they|those|he|she)\b",
    re.IGNORECASE,
)
_PERSON = re.compile(r"\b(he|him|she)\b|\b(his|her)\b", re.IGNORECASE)
_PLACE_KINDS = "country|city|town|state|continent|capital|river|island|region|place|province|village|area"
_PERSONS = "person|man|woman|architect|artist|author|writer|designer|inventor|king|queen|emperor|president"
_PERSON_INSIDE = re.compile(rf"\bthe ({_PERSONS})\b.*\b(after|before|when|while|until) (he|she)\b", re.IGNORECASE)
"""A person whom the question itself names before its pronoun: "the man it is named after ... when he"."""
_PREPOSED = re.compile(r"\b(?:from|to|near|in|around|of|through|over) $", re.IGNORECASE)
_WENT = re.compile(
    r"\b(?:get|gets|got|go|goes|went|travel|travels|travelled|drive|fly|walk|sail|sailed|come|came) $", re.IGNORECASE
)
_KINDS_OF_ANSWERS = f"{_PLACE_KINDS}|{_PERSONS}|company|brand|language"
_TIMES = "year|month|week|weekend|day|decade|century|season|spring|summer|autumn|fall|winter|morning|afternoon|evening"
_NOT_SHOWN = re.compile(rf"(?:{_KINDS_OF_ANSWERS}|{_TIMES})s?")
"""Nouns that take up an answer rather than the picture ("the country", after "Which country is this from?"), and times."""
_NAMED = re.compile(
    rf"\bthat ({_KINDS_OF_ANSWERS})\b|"
    # "How many are there?" names no place.
    r"(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )(?<!\bbe )(?<!\bbeen )\b(there)\b(?! (?:is|are|was|were|any|a)\b)",
    re.IGNORECASE,
)
_THING = re.compile(  # not "the car that they make"
    r"\b(it|they|them|those)\b|\b(its|their)\b|\b(that)\b(?=\W*$|[,;])"
    r"|(?:(?<=\bis )|(?<=\bwas )|(?<=\bare )|(?<=\bdid )|(?<=\bdoes ))that\b",
    re.IGNORECASE,
)
_SINGLE_THING = re.compile(r"\bits?\b", re.IGNORECASE)
_NAME = re.compile(
    r"(?:[A-Z][\w'’.-]*|\d{3,4})(?:[ -](?:(?:of|the|de|da|di|du|la|le|van|von|and|al|el|on|upon|y) )*(?:[A-Z]\.(?= [A-Z])|[A-Z][\w'’-]*))*"
)
_AWAY = "in|of|to|from|for|at|near|on|with|into|over|around|across"
_MADE_BY = re.compile(
    rf"\b(?:by|is|was|are|were|shows?|depicts?|named|called|after|honou?rs) (?:the )?(?:(?!(?:{_AWAY})\b)[a-z]+ ){{0,2}}$"
)
_AWAY_FROM = re.compile(rf"\b(?:{_AWAY}) (?:the )?(?:[a-z]+ )?$|\b[Tt]he $")
_LIKENESS = re.compile(
    r"\b(?:statue|bust|portrait|painting|picture|photo|image|figure|head|likeness|work|design|invention|idea) of (?:the )?(?:[a-z]+ )?$"
)
_PERSON_KINDS = re.compile(rf"\bthat ({_PERSONS})\b", re.IGNORECASE)
_WHO_IS = re.compile(r"^who (is|was|were) [A-Z]", re.IGNORECASE)
_COMPARED = re.compile(
    r"\b(?:bigger|smaller|larger|taller|shorter|longer|faster|slower|heavier|lighter|older|younger|newer|cheaper|stronger|weaker|higher|lower|"
    r"deeper|wider|hotter|colder|safer|better|worse|rarer|harder|softer|healthier|sweeter|(?:more|less) \w+)\b",
    re.IGNORECASE,
)
_NOT_NAMES = frozenset(
    "i the a an it its this that these those he she they there yes no in on at by for from to of and or but as is "
    "are was were what who when where which how why does do did can could has have had will would about if also "
    "most some all each both one two three".split()
)
_MONTHS = frozenset("january february march april may june july august september october november december".split())


_OTHER = re.compile(r"\bthe other (?P<noun>[a-z]+)\b(?! (?:two|three|ones)\b)", re.IGNORECASE)
_NEW_THING = re.compile(
    r"\W*(?:(?:ok|okay|and|but|now),? )*the (?:[\w-]+ ){1,3}(?:on|in|at|with|under|beside) the [\w -]+,", re.IGNORECASE
)
_OPPOSITE: dict[Position, Position] = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}
_PREPOSITION = {"middle": "in the", "top": "at the", "bottom": "at the"}


@dataclass(frozen=True)
class Pointing:
    """What a question points at in the picture: the name that it uses, and the place."""

    phrase: str | None = None
    position: Position | None = None

    def __str__(self) -> str:
        """Point at it again: ``the planet on the left``, ``this bird``; "" if there is neither a place nor a known kind of thing."""
        if self.position is not None:
            return f"the {self.phrase or 'thing'} {_PREPOSITION.get(self.position, 'on the')} {self.position}"
        if self.phrase is None or find_kind(self.phrase) is None:
            return ""
        return f"{'these' if self.phrase.endswith('s') else 'this'} {self.phrase}"

    def follow(self, query: str) -> "Pointing":
        """Return what the next question points at: another thing, the other one of two, or this still."""
        phrase, position = find_pointed_phrase(query), find_position(query)
        if position is not None:
            return Pointing(phrase or self.phrase, position)
        if (other := _OTHER.search(query)) is not None:
            noun = other.group("noun").lower()
            opposite = None if self.position is None else _OPPOSITE.get(self.position)
            return Pointing(self.phrase if noun == "one" else noun, opposite)
        return self if phrase is None and _NEW_THING.match(query) is None else Pointing(phrase)


@dataclass(frozen=True)
class ResolvedQuery:
    """A query that stands alone."""

    question: str  # the query with the names that its pronouns stand for
    topic: str | None  # the name the dialog is about now, or None where it is about what the picture shows
    person: bool = False  # whether that name is known to be a person's
    sure: bool = True  # False where a pronoun was found and nothing it could stand for
    pointing: str = ""  # what an earlier question pointed at, if the query is about it and does not point itself
    he: str | None = None  # the last person that the dialog called "he", and "she"
    she: str | None = None
    thing: str | None = None  # the topic before a person: what "it" goes back to; None is the picture

    @property
    def needs_image(self) -> bool:
        """True if only a look at the picture can answer the question."""
        return self.topic is None


def points_at_picture(query: str) -> bool:
    """Return whether a question that begins a dialog points at something that only a picture can show."""
    return _POINTING.search(query) is not None


def extract_names(text: str) -> list[str]:
    """Extract the capitalised names of a text, in order. A single word that begins a sentence is no name."""
    return [name for _, name in _find_names(text)]


def _find_names(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text before each name, and the name."""
    for match in _NAME.finditer(text):
        before, words = text[: match.start()], match.group().strip(" .'’-").split()
        while words and words[0].lower() in _NOT_NAMES:
            before += f"{words.pop(0)} "
        if words and words[0][0].isalpha() and words[0].lower() not in _MONTHS:
            yield before, " ".join(words)


def _find_query_names(query: str) -> list[str]:
    rest = query.split(" ", 1)
    return extract_names(rest[1]) if len(rest) > 1 else []


def _is_circumstance(query: str, name: str) -> bool:
    """Return whether a name only says where or by whom: "the price on Amazon", "one in the US"."""
    return re.search(rf"\b(?:on|in|at|from|via|across|outside|within) (?:the )?{re.escape(name)}", query) is not None


def _find_place(answer: str) -> str | None:
    """Return the last name after ``in``, ``of`` or ``to``, because answers give places so."""
    names = re.findall(rf"\b(?:in|of|to|near|from|is|called|named) (?:the )?({_NAME.pattern})", answer)
    return names[-1].strip(" .") if names else None


def _find_person(answer: str, query_names: Collection[str]) -> str | None:
    """Return the name that is likeliest a person's: by whom, or who is shown; else the first one that is no place."""
    names = [(before, name) for before, name in _find_names(answer) if name.lower() not in query_names]
    likely = [name for before, name in names if _LIKENESS.search(before) or _MADE_BY.search(before)]
    others = (name for before, name in names if not _AWAY_FROM.search(before))
    return next(iter(likely), None) or next(others, None)


def _antecedent(query: str, answer: str, topic: str | None, *, personal: bool) -> str | None:
    query_names = {word.lower() for word in _find_query_names(query)}
    if topic:
        query_names.add(topic.lower())
    if personal:
        return _find_person(answer, query_names)
    candidates = [name for name in extract_names(answer) if name.lower() not in query_names]
    if _NAMED.search(query):
        place = _find_place(answer)
        if place is not None:
            return place
    return candidates[-1] if candidates else None


def _replace(pattern: re.Pattern[str], query: str, name: str) -> str:
    def put(match: re.Match[str]) -> str:
        word, before = match.group().lower(), query[: match.start()]
        if word == "there" and not _PREPOSED.search(before):
            return f"{'to' if _WENT.search(before) else 'in'} {name}"
        owns = word in ("his", "its", "their") or (word == "her" and re.match(r"\s+[a-z]", query[match.end() :]))
        return f"{name}'s" if owns else name

    return pattern.sub(put, query, count=1)


def _recall_person(query: str, last_answer: str, before: ResolvedQuery, *, is_she: bool) -> str | None:
    """Return whom "he" or "she" means: whom the dialog is about, unless that one was called otherwise; else a name of the last answer."""
    recalled, other = (before.she, before.he) if is_she else (before.he, before.she)
    named = _antecedent(query, last_answer, before.topic, personal=True)
    if before.person:
        return recalled or (before.topic if before.topic != other else named)
    return named or recalled or before.topic


def _step(query: str, last_answer: str, before: ResolvedQuery, *, points_back: bool) -> ResolvedQuery:
    topic = before.topic
    if _IMAGE.search(query):
        return ResolvedQuery(query, None)
    thing = before.thing if before.person else topic
    if _NAMED.search(query):
        personal = _PERSON_KINDS.search(query) is not None
        name = (
            topic if personal and before.person else _antecedent(query, last_answer, topic, personal=personal) or topic
        )
        if name is None:
            return ResolvedQuery(query, None, sure=False)
        return ResolvedQuery(_replace(_NAMED, query, name), name, person=personal, thing=thing if personal else None)
    if (pronoun := _PERSON.search(query)) is not None:
        is_she = pronoun.group().lower() in ("she", "her")
        name = _recall_person(query, last_answer, before, is_she=is_she)
        if name is None:
            return ResolvedQuery(query, None, sure=_PERSON_INSIDE.search(query) is not None)
        he, she = (before.he, name) if is_she else (name, before.she)
        return ResolvedQuery(_replace(_PERSON, query, name), name, person=True, he=he, she=she, thing=thing)
    if _THING.search(query):
        if before.person and _SINGLE_THING.search(query):
            topic, before = thing, replace(before, person=False)
        return replace(
            before, question=query if topic is None else _replace(_THING, query, topic), topic=topic, sure=True
        )
    named = [name for name in _find_query_names(query) if not _is_circumstance(query, name)]
    if len(named) == 1 and _COMPARED.search(query):
        named = []  # with what the dialog is about
    if named:
        return ResolvedQuery(query, named[-1], person=_WHO_IS.search(query) is not None, thing=thing)
    if points_back:
        return replace(before, question=query, topic=None, person=False, sure=True, thing=None)
    return replace(before, question=query, sure=topic is None)


class _Pointings:
    """What the questions of a dialog pointed at: the latest, and the latest of each noun."""

    def __init__(self) -> None:
        self.latest = Pointing()
        self._by_noun: dict[str, Pointing] = {}

    def recall(self, query: str) -> Pointing | None:
        """Return what a query that does not point itself takes up by its noun: "the bridge" after "this bridge"."""
        noun = None if _IMAGE.search(query) else find_definite_noun(query, self._by_noun)
        return None if noun is None else self._by_noun[noun]

    def follow(self, query: str) -> Pointing:
        """Return what a query about the picture points at."""
        return (self.recall(query) or self.latest).follow(query)

    def add(self, query: str) -> None:
        """Note what a query about the picture points at."""
        self.latest = self.follow(query)
        phrase = find_pointed_phrase(query)
        if phrase is not None and not _NOT_SHOWN.fullmatch(noun := phrase.split()[-1]):
            self._by_noun |= {phrase: self.latest, noun: self.latest}

    def forget(self, text: str) -> None:
        """Forget the nouns of a text that is not about the picture: they may mean what it speaks of."""
        words = set(re.findall(r"\w+", text.lower()))
        self._by_noun = {noun: each for noun, each in self._by_noun.items() if not words & set(noun.split())}


def resolve(query: str, history: Sequence[Message]) -> ResolvedQuery:
    """Replace the references of a query that its dialog explains.

    Args:
        query: The query.
        history: The dialog, oldest message first. Malformed messages are skipped.
    """
    if not history:
        return ResolvedQuery(query, None)
    state, pointings = ResolvedQuery("", None), _Pointings()
    answer = ""
    for message in history:
        content = message.get("content")
        if not isinstance(content, str):
            continue
        if message.get("role") == "user":
            state = (
                _step(content, answer, state, points_back=pointings.recall(content) is not None)
                if answer
                else ResolvedQuery(content, None)
            )
            if state.needs_image:
                pointings.add(content)
        elif message.get("role") == "assistant":
            answer = content
        if not state.needs_image:
            pointings.forget(content)
    resolved = _step(query, answer, state, points_back=pointings.recall(query) is not None)
    points = find_pointed_phrase(query) is not None or find_position(query) is not None or is_about_several(query)
    return replace(resolved, pointing=str(pointings.follow(query)) if resolved.needs_image and not points else "")
