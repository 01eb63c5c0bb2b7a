"""Which object a question is about, from its words: the rules behind object extraction where no model can be asked."""

import re
from collections.abc import Iterator

from agents.models.base import Box
from agents.turn import Position

_POSITIONS: dict[str, Position] = {
    "left": "left", "right": "right", "top": "top", "upper": "top", "bottom": "bottom", "lower": "bottom", "middle": "middle",
    "center": "middle", "centre": "middle",
}  # fmt: skip
_WORDS = "|".join(_POSITIONS)
_POSITION = re.compile(
    # "on the left", "on the upper right", "on the left poster", but not "at the top of this plant"
    rf"\b(?:on|in|at) the (?P<place>{_WORDS})\b(?! (?:of|to)\b|-)|\bthe (?P<one>{_WORDS}) one\b",
    re.IGNORECASE,
)
_VERBS = (
    "is|are|was|were|be|been|can|could|do|does|did|has|have|had|will|would|should|must|may|might|built|called|came|carries|come|"
    "fly|get|grows|live|made|named|open|say|stand|start|take|takes|took|used|weigh"
)
_LINKS = (
    "on|in|at|of|from|to|with|without|that|which|who|whose|for|by|and|or|than|as|it|its|next|near|behind|beside|here|there|if|when|"
    "while|before|after|during|through|under|over|into|between|against|first|ever|bigger|longer|smaller|taller"
)
_NOUN = rf"(?!(?:{_VERBS}|{_LINKS})\b)[a-z]+(?:-[a-z]+)*"
_PHRASE = re.compile(
    rf"(?P<before>\b\w+ |^)?\b(?P<article>this|these|that|those|the) (?:(?:kind|type|breed|species)s? of )?"
    rf"(?P<words>{_NOUN}(?: {_NOUN}){{0,3}})(?P<rest>[^?.!]*)",
    re.IGNORECASE,
)
_IN_PICTURE = re.compile(
    r"^\W*(?:shown )?(?:in (?:the|this) (?:picture|photo|image)|here)\b",
    re.IGNORECASE,
)
_AT_A_PLACE = re.compile(rf"^\W*(?:on|in|at) the (?:{_WORDS})\b", re.IGNORECASE)
_NAMED_BY_QUESTION = re.compile(
    rf"\b(?:what|which) (?P<words>{_NOUN}(?: {_NOUN}){{0,2}}) "
    r"(?:(?:is|are|was|were) (?:this|that|these|those|it|on the|in the)\b|am i looking at\b|(?:this|that|it) is\b)",
    re.IGNORECASE,
)
_AUXILIARIES = frozenset("do does did can could will would should must may might has have had".split())
_VERB_NEXT = re.compile(rf"^\W*(?:{_VERBS})\b", re.IGNORECASE)
_ENDS = re.compile(r"^(?: of)?\W*$")
_POINTING = frozenset(("", *"of is are was were do does did on in for".split()))
_ABSTRACT = frozenset(
    "name weight capital country price cost year colour number designer architect maker author inventor speed kind picture family total "
    "left right sign founder conservation best most main world story brand model company owner king side way same other one thing photo "
    "image".split()
)


def extract_object_phrases(question: str, limit: int) -> list[str]:
    """Extract names of the things that a question points at: ``this tall tower`` -> ``tall tower``.

    Things that the question places in the picture come first, then things after a demonstrative, then the rest. In ``the roof of the
    church`` the church comes before its roof.

    Args:
        question: The question.
        limit: Maximum number of names.

    Returns:
        Names of at most three words, in the question's spelling.
    """
    ranked_phrases: list[tuple[int, str]] = []
    for phrase, demonstrative, rest in _find_phrases(question):
        if _IN_PICTURE.match(rest):
            rank = 0
        elif demonstrative:
            rank = 1
        else:
            rank = 3 if re.match(r"^\W*of\b", rest) else 2
        ranked_phrases.append((rank, phrase))
    return list(dict.fromkeys(phrase for _, phrase in sorted(ranked_phrases, key=lambda entry: entry[0])))[:limit]


def find_pointed_phrase(question: str) -> str | None:
    """Return what a question calls the thing that it points at; None if it points at nothing, or calls it nothing.

    It is named with a demonstrative (``this coin``), by its place (``the coin on the left``) or by what is asked (``which bird is this``).
    The ship of "the ship in it" need not be in the picture.
    """
    for phrase, demonstrative, rest in _find_phrases(question):
        if demonstrative or _IN_PICTURE.match(rest) or _AT_A_PLACE.match(rest):
            return phrase
    named = _NAMED_BY_QUESTION.search(question)
    return None if named is None else named.group("words").lower()


def _find_phrases(question: str) -> Iterator[tuple[str, bool, str]]:
    """Yield the noun phrases after an article, whether it is a demonstrative, and what follows the phrase."""
    at = 0
    while (match := _PHRASE.search(question, at)) is not None:
        at = match.start("rest")
        if words := _noun_words(match):
            demonstrative = match.group("article").lower() in ("this", "these", "that", "those")
            yield " ".join(words), demonstrative, match.group("rest")


def _noun_words(match: re.Match[str]) -> list[str]:
    """Return the words of a match's noun phrase, without a following verb, relations and positions; maybe none."""
    if match.group("article").lower() in ("that", "those") and (match["before"] or "").strip().lower() not in _POINTING:
        return []  # a relative clause
    words = match.group("words").lower().split()
    is_verb_next = _VERB_NEXT.match(match.group("rest"))
    if (
        (match["before"] or "").strip().lower() in _AUXILIARIES
        and not is_verb_next
        and (len(words) > 1 or _ENDS.match(match["rest"]))
    ):
        words.pop()  # "do these wild animals migrate", "does this belong"
    while words and (words[-1] in _ABSTRACT or words[-1] in _POSITIONS):
        words.pop()
    return words[-3:] if words and words[0] not in _ABSTRACT and words != ["wild"] else []


def find_position(question: str) -> Position | None:
    """Return the position of the thing that a question is about; None if it names no part of the picture.

    ``the building on the left`` is at the ``left``.
    """
    match = _POSITION.search(question)
    return None if match is None else _POSITIONS[(match["place"] or match["one"]).lower()]


_MIDDLE = (
    0.3  # of the photo's sides; all 100 things of the composed scenes that are between others are as near to its centre
)


def is_at(box: Box, position: Position, width: int, height: int) -> bool:
    """Return whether a box's centre is in the half of the image that a position names, or near the centre for ``middle``."""
    if position == "middle":
        across = (box.left + box.right) / 2 / width
        down = (box.top + box.bottom) / 2 / height
        return max(abs(across - 0.5), abs(down - 0.5)) <= _MIDDLE
    return measure_offset(box, position, width, height) < 0.5


def measure_offset(box: Box, position: Position, width: int, height: int) -> float:
    """Compute how far a box's centre is from a position, as a fraction of the image; 0 is right there."""
    across = (box.left + box.right) / 2 / width
    down = (box.top + box.bottom) / 2 / height
    return {
        "left": across,
        "right": 1 - across,
        "top": down,
        "bottom": 1 - down,
        "middle": abs(across - 0.5) + abs(down - 0.5),
    }[position]
