"""Which object a question is about, from its words: the rules behind object extraction where no model can be asked."""

import re
from collections.abc import Iterable, Iterator

from agents.english.number_forms import NUMBER_WORD
from agents.models.base import Box
from agents.turn import Position

_POSITIONS: dict[str, Position] = {
    "left": "left", "leftmost": "left", "right": "right", "rightmost": "right", "top": "top", "topmost": "top", "upper": "top",
    "above": "top", "bottom": "bottom", "bottommost": "bottom", "lower": "bottom", "below": "bottom", "middle": "middle",
    "center": "middle", "centre": "middle", "central": "middle",
}  # fmt: skip
_PICTURE = r"(?:image|photo(?:graph)?|picture|pic|screenshot|frame|shot)"
_WORDS = "left|right|top|bottom|middle|cent(?:er|re)"
_POSITION = re.compile(
    # "on the left", "at the top of the photo", but not "at the top of this plant"
    rf"\b(?:on|at|in|to|from|towards?) (?:the|my|your) (?:far |very |upper |lower |bottom |"
    rf"top )?(?P<place>{_WORDS})\b(?:[ -]?(?:hand )?(?:side|corner))?"
    rf"(?! of (?!(?:the|this|my|that) {_PICTURE}\b))(?! (?:ages?|east|class|school|way|time|now)\b)(?=\W*$|,? )(?! to\b)"
    # "the left car", "the middle one", but not "the right time"
    r"|\b(?:the|this|that|these|those) (?:very |far )?(?P<kind>left|right|top|bottom|middle|cent(?:er|re)|central|upper|lower)(?:-?hand)?"
    r" (?:one|ones|car|bottle|shelf|row|building|picture|painting|book|plant|flower|animal|dog|cat|bird|person|man|woman|girl|"
    r"boy|child|item|"
    r"object|thing|box|bag|shoe|dish|plate|cup|bowl|glass|can|sign|flag|statue|tower|house|tree|fruit|phone|watch|poster|logo|"
    r"half|corner|"
    r"side|part|part of the image|door|window|vehicle|truck|bike|boat|plane|player|toy|tool|device)s?\b(?! to\b)(?! of (?:this|the) (?!"
    + _PICTURE
    + r"))"
    r"|\b(?P<most>(?:left|right|top|bottom)most)\b|\b(?P<after>above|below)(?=\W*$)",
    re.IGNORECASE,
)
_FIRST_OF_TWO = re.compile(
    r"\b(?:on|at|in) (?:the|my) (?P<word>top|bottom|upper|lower) (?:left|right)\b", re.IGNORECASE
)
_VERBS = (
    "is|are|was|were|be|been|can|could|do|does|did|has|have|had|will|would|should|must|may|might|get|gets|got|made|make|makes|come|comes|came|"
    "belong|belongs|live|lives|grow|grows|eat|eats|weigh|weighs|cost|costs|need|needs|sold|built|fly|flies|run|runs|use|used|originate|"
    "originated|reach|stand|say|says|mean|means|play|take|takes|took|contain|contains|survive|rely|relies|work|works|look|looks|sleep|"
    "become|became|turn|turns|open|opened|happen|start|begin|began|end|find|found|called|named|known|shown|seen|depicted|pictured|located|"
    "lie|lies|hunt|swim|reproduce|taste|smell|produce|produced|manufactured|designed|invented|founded|discovered|painted|written|owned|"
    "carry|carries|connect|connects"
)
_LINKS = (
    "on|in|at|of|from|to|with|without|that|which|who|whose|for|by|and|or|than|as|first|originally|usually|normally|typically|"
    "ever|still|it|its|next|near|behind|beside|here|there|so|if|when|while|before|after|during|through|under|over|into|between|against|"
    "compared|raw|faster|taller|heavier|older|bigger|larger|longer|smaller|lighter|newer|higher|safe|good|edible|poisonous|toxic"
)
_STOP = f"{_VERBS}|{_LINKS}"
_NOUN = rf"(?!(?:{_STOP})\b)[a-z]+(?:-[a-z]+)*"
_PHRASE = re.compile(
    rf"(?P<before>\b\w+ |^)?\b(?P<article>this|these|that|those|the) "
    rf"(?:(?:kind|type|sort|breed|species|variety|style|make|model|brand|piece|pair|class)s? of )?"
    rf"(?P<words>{_NOUN}(?: {_NOUN}){{0,3}})(?P<rest>[^?.!]*)",
    re.IGNORECASE,
)
_NOT_IN_NAME = re.compile(
    rf"(?! (?!(?:now|today|worth|last|each|every|per|daily(?=\W*$)|\w{{4,}}ed|\w{{3,}}ally)\b){_NOUN})", re.IGNORECASE
)
"""What follows the whole name of a thing: no noun that makes another thing of it ("the bridge loan")."""
_LONE_VERB = re.compile(
    rf" {_NOUN}(?:\W*$|[,;]"
    rf"| (?!(?:{_VERBS})\b)(?:{_LINKS}|because|due to|down|up|out|off|over|away|the|an?|\w+ly|\d+|{NUMBER_WORD})\b"
    # At the end, since a name may be followed by them before its verb: "the car insurance per year cost".
    r"| (?:yesterday|today|well|itself|(?:each|every|per) \w+)\W*$)",
    re.IGNORECASE,
)
_LAST_WORD = re.compile(r" [\w-]+\W*$")
_IN_PICTURE = re.compile(
    rf"^\W*(?:(?:that (?:is|are) )?(?:shown|seen|depicted|pictured|visible) )?(?:(?:in|on|from) (?:this|the|my|that|"
    rf"these) {_PICTURE}|(?:shown |seen |pictured )?here)\b",
    re.IGNORECASE,
)
_AT_A_PLACE = re.compile(rf"^\W*(?:on|in|at) (?:the|my) (?:far |very )?(?:{_WORDS})\b", re.IGNORECASE)
_NAMED_BY_QUESTION = re.compile(
    rf"\b(?:what|which) (?P<words>{_NOUN}(?: {_NOUN}){{0,2}}) "
    r"(?:(?:is|are|was|were) (?:this|that|these|those|it|on the|in the)\b|am i looking at\b|(?:this|that|it) is\b)",
    re.IGNORECASE,
)
_AUXILIARY = re.compile(r"^(?:do|does|did|can|could|will|would|should|must|may|might|has|have|had) $", re.IGNORECASE)
_COPULA = re.compile(r"^(?:is|are|was|were) $", re.IGNORECASE)
_VERB_NEXT = re.compile(rf"^\W*(?:{_VERBS})\b", re.IGNORECASE)
_POINTING = re.compile(
    r"^(?:|(?:of|is|are|was|were|do|does|did|on|in|at|for|with|about|to|by|and|or|from|can|has|have|had|will|would|like|see|call|"
    r"buy|than|near|around|inside|owns?|made|eat) )$",
    re.IGNORECASE,
)
_ABSTRACT = frozenset(
    "name height weight length capital country population price cost year date color colour size age number designer architect "
    "maker author inventor lifespan diet habitat speed kind type picture photo image answer time order family scientific average "
    "maximum total left right top bottom middle word words text sign sum founder language continent currency species use purpose "
    "origin sound term meaning requirement requirements benefit benefits status conservation process best most main world "
    "difference history story breed brand model make manufacturer company owner king queen president wingspan area volume depth range "
    "period gestation effect effects ingredient ingredients side way reason cause material capacity same only other process artist "
    "one ones thing things us uk".split()
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


def find_definite_noun(question: str, nouns: Iterable[str]) -> str | None:
    """Return the first of some nouns, in lower case, that a question takes up; None if it takes up none.

    It takes up "bridge" in "When did the bridge collapse?", but not in "How much is the bridge loan?".
    """
    text, choice = question.strip().lower(), "|".join(map(re.escape, nouns)) or "(?!)"
    for match in re.finditer(rf"(?P<before>\b\w+ )?\b(?:the|that|those) (?P<noun>{choice})(?![\w-])", text):
        before = match["before"] or ""
        has_verb_next = _AUXILIARY.match(before) and _LONE_VERB.match(text, match.end())
        # The last word of "Is the bridge tall?" is its predicate; "Where is the bridge loan?" has another one.
        has_predicate_next = match.start() == 0 and _COPULA.match(before) and _LAST_WORD.match(text, match.end())
        if has_verb_next or has_predicate_next or _NOT_IN_NAME.match(text, match.end()):
            return match["noun"]
    return None


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
    if match.group("article").lower() in ("that", "those") and not _POINTING.match(match.group("before") or ""):
        return []  # a relative clause
    words = match.group("words").lower().split()
    if len(words) > 1 and _AUXILIARY.match(match.group("before") or "") and not _VERB_NEXT.match(match.group("rest")):
        words.pop()  # "do these wild animals migrate"
    while words and (words[-1] in _ABSTRACT or words[-1] in _POSITIONS):
        words.pop()
    return words[-3:] if words and words[0] not in _ABSTRACT and words != ["wild"] else []


def find_position(question: str) -> Position | None:
    """Return the position of the thing that a question is about; None if it names no part of the picture.

    ``the building on the left`` is at the ``left``.
    """
    match = _FIRST_OF_TWO.search(question)
    if match:
        return _POSITIONS[match.group("word").lower()]
    match = _POSITION.search(question)
    if match is None:
        return None
    word = next(value for value in match.groupdict().values() if value)
    return _POSITIONS[word.lower()]


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
