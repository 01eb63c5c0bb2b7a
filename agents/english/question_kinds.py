"""Kinds of questions by their words: text or sums in the picture, a name, facts of the world, the present.

Also tells whether it asks about several objects of the picture at once. The phrases are those of recorded questions.
"""

import re
from dataclasses import dataclass

from agents.english.plain_text import AUXILIARIES
from agents.texts.text import count_phrases

_SURFACE = r"(?:the|this|my) (?:[\w-]+ )?(?:label|receipt|sign|tag)s?\b"
_TEXT = re.compile(
    # "Written" and "translate" are those of QA-Dragon's table 1.
    rf"\b(?:according to|printed on|what does|what is the price on) {_SURFACE}|\bwhat is written\b|\btranslate\b",
    re.IGNORECASE,
)
_CALCULATION = re.compile(
    r"\bhow much change\b|\bwhat (?:is|does) [^?.]{0,300}\b(?:come to|the total(?: on this [^?]*)?\W*$)",
    re.IGNORECASE,
)
_VISIBLE = re.compile(
    r"\bhow many\b[^?.]{0,100}\b(?:on the table|can you see|are (?:standing|laid out))\b",
    re.IGNORECASE,
)
_SHOWN = "(?:this|that|these|those)"
_PLACE = r"(?:on|in|at) the (?:[\w-]+ ){0,2}(?:left|right|top|bottom|middle|card|poster)"
_RECOGNITION = re.compile(
    rf"\b(?:what|which)(?! else\b)(?: [\w-]+){{0,3}}(?:'s| is| are) (?:the name of )?{_SHOWN}\b(?! [\w-]+ (?:made|used|for)\b)"
    rf"|\b(?:what|which)(?: [\w-]+){{1,3}} (?:is|are) (?:shown )?{_PLACE}\b"
    r"|\bwhat(?:'s| is) the (?:name of the\b|[^?.]{0,300}\bcalled\b)"
    rf"|\bdo you call (?:{_SHOWN}|the (?:[\w-]+ )?(?:thing|tool))\b"
    r"|\bam i looking at\b"
    r"|\b(?:what|which) (?:kind|variety) (?:of (?:[\w-]+ ){1,3})?(?:is|am)\b",
    re.IGNORECASE,
)
_NOW = (
    *"now nowadays currently today tonight tomorrow yesterday latest".split(),
    *(
        "the current",
        "last night",
        "at this moment",
        "at the moment",
        "at present",
        "this week",
        "this month",
        "this year",
    ),
)
_NOW_AT_END = ("minute", "hour", "day", "morning", "afternoon", "evening", "spring", "summer", "autumn", "winter")
_NUMBERS = {"both": 2, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_NUMBERED = re.compile(
    r"\b(?:these|those|of the|all) (?P<number>two|three|four|five|six)\b|\b(?P<both>both)\b", re.IGNORECASE
)
_SEVERAL = re.compile(
    rf"\bwhich of {_SHOWN}\b|\bthan (?:the|this|that) (?:other|one|[\w-]+ (?:on|in|at) )|(?<!put )\b(?:together|in total)\b",
    re.IGNORECASE,
)
_FIRST_WORD = re.compile(r"\W*(\w*)")
_PACKAGED = ("package", "packaged", "packaging", "logo")  # the paper's own words


@dataclass(frozen=True)
class QuestionKind:
    """Kind of a question; several may apply."""

    text: bool  # words in the picture
    calculation: bool  # a sum over what the picture shows
    visible: bool  # a count visible in the picture
    recognition: bool  # the name of the thing shown
    open_world: bool  # a fact of the world that no picture shows
    now: bool  # the present: prices, weather, results, who holds an office

    @property
    def self_contained(self) -> bool:
        """True if the picture alone can answer (table 1 of QA-Dragon: arithmetic, OCR)."""
        return (self.text or self.calculation or self.visible) and not (self.now or self.open_world)


def classify_question(question: str) -> QuestionKind:
    """Classify a standalone question."""
    plain = question.replace("\u2019", "'")
    text, calculation, visible, recognition = (
        bool(pattern.search(plain)) for pattern in (_TEXT, _CALCULATION, _VISIBLE, _RECOGNITION)
    )
    return QuestionKind(
        text=text,
        calculation=calculation,
        visible=visible,
        recognition=recognition,
        open_world=not (text or calculation or visible or recognition),
        now=_is_about_now(plain),
    )


def _is_about_now(question: str) -> bool:
    plain = question.lower().replace("this very ", "this ")
    ends = tuple(f"this {word}" for word in _NOW_AT_END)
    return count_phrases(plain, _NOW) > 0 or plain.rstrip(" .?!").endswith(ends)


def parse_named_number(question: str) -> int | None:
    """Return how many objects a question names ("these two", "both", "of the three"); None if it gives no number."""
    match = _NUMBERED.search(question)
    return None if match is None else _NUMBERS[(match["number"] or match["both"]).lower()]


def is_about_several(question: str) -> bool:
    """Return whether a question compares, counts or adds up several objects of the picture.

    Facts about one of them cannot answer it.
    """
    return parse_named_number(question) is not None or _SEVERAL.search(question) is not None


def asks_yes_or_no(question: str) -> bool:
    """Return whether a question begins with an auxiliary verb, so that yes or no answers it."""
    first = _FIRST_WORD.match(question)
    return first is not None and first[1].lower() in AUXILIARIES


def is_about_packaged(question: str) -> bool:
    """Return whether a question is about packaged goods.

    Image search finds the package and seldom the product (QA-Dragon, appendix A, rule 4).
    """
    return count_phrases(question, _PACKAGED) > 0
