"""References of a follow-up's words: rules over the dialog so far.

A dialog begins with the thing in the picture. ``this`` goes back to the picture; ``he``, ``that city`` or ``there`` take up a
name of the last answer; ``it`` stays with whatever the dialog is about, at the place where an earlier question pointed.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from agents.base_agent import Message
from agents.english.object_phrases import find_pointed_phrase, find_position
from agents.english.question_kinds import is_about_several
from agents.english.thing_kinds import find_kind
from agents.texts.text import count_phrases
from agents.turn import Position

_TIMES = "(?:year|month|week|day|season|spring|summer|autumn|fall|winter|morning|afternoon|evening)"
_SHOWN = (
    "picture",
    "photo",
    "image",
    "pictured",
    "shown",
    "left one",
    "right one",
    "middle one",
    "bottom one",
    "top one",
)
_PLACES = ("on the left", "on the right", "in the middle", "here")
_IMAGE = re.compile(rf"\b(?:this|these)\b(?! {_TIMES}\b)", re.IGNORECASE)
_POINTING = re.compile(
    rf"\b(?:this|these)\b(?! (?:{_TIMES}|garden|place|shop)s?\b)|^how (?:tall|old) (?:is|are|was|were) (?:it|he|she|they)\b",
    re.IGNORECASE,
)
_HANDS = ("left hand", "right hand")
_PERSON = re.compile(r"\b(he|him|she)\b|\b(his|her)\b", re.IGNORECASE)
_PERSON_INSIDE = re.compile(r"\bthe man\b.{0,100}\b(?:after|before|when|while|until) (?:he|she)\b", re.IGNORECASE)
"""A person whom the question itself names before its pronoun: "the man it is named after ... when he"."""
_PREPOSITIONS = frozenset("from to near in around of through over".split())
_WENT = frozenset("get got go went come came".split())
_NAMED = re.compile(
    r"\bthat (?:city|company|country)\b|"
    # "How many are there?" names no place.
    r"(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )\bthere\b(?! (?:is|are|was|were)\b)",
    re.IGNORECASE,
)
_THING = re.compile(  # not "the car that they make"
    r"\b(?:it|they|them|those|its|their)\b|\bthat\b(?=\W*$)|(?<=\bis )that\b|(?<=\bwas )that\b|(?<=\bdoes )that\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?:[A-Z][\w'’.-]*|\d{3,4})(?:[ -](?:(?:of|the|de|van|von) )*(?:[A-Z]\.(?= [A-Z])|[A-Z][\w'’-]*))*")
_AWAY = "in|of|to|from|for|at|near|on|with|into|over"
_MADE_BY = re.compile(rf"\b(?:by|is|was|are|were|shows?) (?:the )?(?:(?!(?:{_AWAY})\b)[a-z]+ ){{0,2}}$")
_AWAY_FROM = re.compile(rf"\b(?:{_AWAY}) (?:the )?(?:[a-z]+ )?$|\b[Tt]he $")
_COMPARED = re.compile(r"\b(?:longer|more \w+)\b", re.IGNORECASE)
_NOT_NAMES = frozenset(
    "i the a an it its this that these those he she they yes no in on what who when where which how why does do did is are was".split()
)
_OTHER = re.compile(r"\bthe other (?P<noun>[a-z]+)\b", re.IGNORECASE)
_NEW_THING = re.compile(r"\W*(?:and )?the (?:[\w-]+ ){1,3}(?:on|in|at) the [\w -]+,", re.IGNORECASE)
_OPPOSITE: dict[Position, Position] = {"left": "right", "right": "left", "top": "bottom", "bottom": "top"}
_PREPOSITION = {"middle": "in the", "top": "at the", "bottom": "at the"}


@dataclass(frozen=True)
class Pointing:
    """Thing in the picture that a question points at: its name in the question, and its place."""

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
        """Return the thing that the next question points at: another thing, the other one of two, or this still."""
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
    """A standalone query."""

    question: str  # the query with names in place of its pronouns
    topic: str | None  # the name the dialog is about now, or None where it is about the thing in the picture
    person: bool = False  # whether that name is known to be a person's
    sure: bool = True  # False where a pronoun was found and no name for it
    pointing: str = ""  # what an earlier question pointed at, if the query is about it and does not point itself

    @property
    def needs_image(self) -> bool:
        """True if only a look at the picture can answer the question."""
        return self.topic is None


def points_at_picture(query: str) -> bool:
    """Return whether a question that begins a dialog points at something that only a picture can show."""
    return _POINTING.search(query) is not None or count_phrases(query, (*_SHOWN, *_HANDS)) > 0


def extract_names(text: str) -> list[str]:
    """Extract the capitalised names of a text, in order. A single word that begins a sentence is no name."""
    return [name for _, name in _find_names(text)]


def _find_names(text: str) -> Iterator[tuple[str, str]]:
    """Yield the text before each name, and the name."""
    for match in _NAME.finditer(text):
        before, words = text[: match.start()], match.group().strip(" .'’-").split()
        while words and words[0].lower() in _NOT_NAMES:
            before += f"{words.pop(0)} "
        if words and words[0][0].isalpha():
            yield before, " ".join(words)


def _find_query_names(query: str) -> list[str]:
    rest = query.split(" ", 1)
    return extract_names(rest[1]) if len(rest) > 1 else []


def _is_circumstance(query: str, name: str) -> bool:
    """Return whether a name only says where or by whom: "the price on Amazon", "one in the US"."""
    return re.search(rf"\b(?:on|in|at|from|via|across|outside|within) (?:the )?{re.escape(name)}", query) is not None


def _find_person(answer: str, query_names: Collection[str]) -> str | None:
    """Return the name that is likeliest a person's: by whom, or who is shown; else the first one that is no place."""
    names = [(before, name) for before, name in _find_names(answer) if name.lower() not in query_names]
    likely = [name for before, name in names if _MADE_BY.search(before)]
    others = (name for before, name in names if not _AWAY_FROM.search(before))
    return next(iter(likely), None) or next(others, None)


def _list_asked_names(query: str, topic: str | None) -> set[str]:
    """List the names that a query or the topic of its dialog has already, in lower case."""
    return {name.lower() for name in (*_find_query_names(query), topic) if name}


def _replace(pattern: re.Pattern[str], query: str, name: str) -> str:
    def put(match: re.Match[str]) -> str:
        word, before = match.group().lower(), query[: match.start()]
        last = next(reversed(before.lower().split()), "")
        if word == "there" and last not in _PREPOSITIONS:
            return f"{'to' if last in _WENT else 'in'} {name}"
        owns = word in ("his", "its", "their") or (word == "her" and re.match(r"\s+[a-z]", query[match.end() :]))
        return f"{name}'s" if owns else name

    return pattern.sub(put, query, count=1)


def _step(query: str, last_answer: str, before: ResolvedQuery) -> ResolvedQuery:
    topic = before.topic
    if _IMAGE.search(query) or count_phrases(query, (*_SHOWN, *_PLACES)):
        return ResolvedQuery(query, None)
    if _NAMED.search(query):
        asked = _list_asked_names(query, topic)
        name = next((name for name in reversed(extract_names(last_answer)) if name.lower() not in asked), topic)
        return (
            ResolvedQuery(query, None, sure=False)
            if name is None
            else ResolvedQuery(_replace(_NAMED, query, name), name)
        )
    if _PERSON.search(query):
        person = topic if before.person else _find_person(last_answer, _list_asked_names(query, topic)) or topic
        if person is None:
            return ResolvedQuery(query, None, sure=_PERSON_INSIDE.search(query) is not None)
        return ResolvedQuery(_replace(_PERSON, query, person), person, person=True)
    if _THING.search(query):
        question = query if topic is None else _replace(_THING, query, topic)
        return replace(before, question=question, sure=True)
    named = [name for name in _find_query_names(query) if not _is_circumstance(query, name)]
    if len(named) == 1 and _COMPARED.search(query):
        named = []  # with what the dialog is about
    return ResolvedQuery(query, named[-1]) if named else replace(before, question=query, sure=topic is None)


def resolve(query: str, history: Sequence[Message]) -> ResolvedQuery:
    """Replace the references of a query that its dialog explains.

    Args:
        query: The query.
        history: The dialog, oldest message first. Malformed messages are skipped.
    """
    if not history:
        return ResolvedQuery(query, None)
    state, pointing, answer = ResolvedQuery("", None), Pointing(), ""
    for message in history:
        content = message.get("content")
        if not isinstance(content, str):
            continue
        if message.get("role") == "user":
            state = _step(content, answer, state) if answer else ResolvedQuery(content, None)
            if state.needs_image:
                pointing = pointing.follow(content)
        elif message.get("role") == "assistant":
            answer = content
    resolved = _step(query, answer, state)
    points = find_pointed_phrase(query) is not None or find_position(query) is not None or is_about_several(query)
    return replace(resolved, pointing=str(pointing.follow(query)) if resolved.needs_image and not points else "")
