"""Answers whose form gives away that they answer something else: "Yes" to "Which of these?", a number to "Who?", the thing's own name."""

import re

from pydantic import Field

from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.english.knowledge_conflict import YES_OR_NO
from agents.english.number_forms import NUMBER_WORD
from agents.english.question_kinds import asks_name_of_shown, classify_question, is_about_several
from agents.turn import Turn

_OR = re.compile(r"\bor\b(?! (?:what|who|whom)\b)", re.IGNORECASE)  # "who or what" leaves no choice
_CHOICE = re.compile(r"\b(?:this|these|that|those|it)\b[^?]*\bor\b|\bor (?:this|these|that|those|it)\b", re.IGNORECASE)
"""Words that offer what is shown beside something else, so that its name may be the answer: "this tower or Big Ben"."""
_START = r"\W*(?:(?:in|on|at|of|by|to|for|from|with) )?"
_ASKS = re.compile(rf"{_START}(?:who|whom|whose|which|what|where|when|why|how)\b", re.IGNORECASE)
_ASKS_NAME = re.compile(rf"{_START}(?:who|whom|whose|which of)\b", re.IGNORECASE)
_ASKS_WHICH_OF = re.compile(rf"{_START}which of\b", re.IGNORECASE)
_ASKS_FIGURE = re.compile(
    rf"{_START}how (?:many|much|old|tall|high|long|wide|deep|heavy|far|fast|large|big)\b", re.IGNORECASE
)
_BY_WORDS = re.compile(r"\bhow (?:much|long|far) (?:of|is it|are they|did|does it matter)\b", re.IGNORECASE)
_FIGURE = re.compile(
    rf"\d|\b(?:{NUMBER_WORD}|\w+teen|no|none|zero|once|twice|dozen|half|quarter|single|pair|both|year|month|week|day|hour|all|never|free"
    r"|decade|centur(?:y|ies)|(?:twen|thir|for|fif|six|seven|eigh|nine)ties)s?\b"
    r"|\ban? (?:[a-z]+ )?(?:second|minute|moment|fortnight|lifetime|generation|cent|penny|dollar|euro|pound|inch|foot|yard|mile"
    r"|(?:milli|centi|kilo)?met(?:re|er)|(?:kilo)?gram|kilo|ounce|tonne|ton|pint|litre|liter|gallon|few|couple|hair)\b",
    re.IGNORECASE,
)
_ASKS_TIME = re.compile(
    rf"{_START}(?:when|(?:which|what) (?:year|month|day|season|century)|what time)\b", re.IGNORECASE
)
_TIME = re.compile(
    r"\d|\b(?:january|february|march|april|may|june|july|august|september|october|november|december|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|spring|summer|autumn|fall|winter|centur(?:y|ies)|decade|millenni(?:um|a)|age|era|period|reign|war|dynasty|morning|noon|afternoon|evening"
    r"|night|midnight|dawn|dusk|sunrise|sunset|today|yesterday|tomorrow|now|daily|weekly|monthly|yearly|annually|always|never|christmas|easter"
    r"|season|past|eve|holiday|during|before|after|ago|while|once|until|since|when(?:ever)?|if|o['’]clock|weekday|weekend|times"
    r"|second|minute|hour|day|week|month|year|(?:by|from|till|at) (?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve))s?\b",
    re.IGNORECASE,
)
_NAMED_TIME = re.compile(  # not "in Paris"
    r"\b(?:[Aa]t|[Oo]n|[Uu]nder|(?:[Ii]n )?[Tt]he)(?: (?:the|late|early|middle|eve of)){0,4} (?P<name>[A-Z]\w+)"
)
_NUMBER = re.compile(r"\W*+\d[\d\W]*+")
_QUANTITY = re.compile(r"\W*+\d[\d.,\s–-]*+\S{0,14}\W*+")
_QUALIFIER = re.compile(r"\([^()]*\)")
_SCIENTIFIC = re.compile(r"\b(?:scientific|latin|botanical) name\b", re.IGNORECASE)  # may be the title of a page
_WORD = re.compile(r"[^\W_]+")
_CARRIER = re.compile(r"\b(?:what|which|who) [^?]{0,200}?\bon (?:the|this|that) (?P<noun>[\w-]+)", re.IGNORECASE)
_SMALL = frozenset("a an the it is was this that these those its his her their he she they are were one called".split())
_OF_PHOTOS = frozenset("photo picture image probably likely most shows show".split())
_DESCRIBES = re.compile(r"\W*(?:the|this) (?:photo|picture|image) shows\b", re.IGNORECASE)
_STATES = re.compile(rf"\d|\b{NUMBER_WORD}\b|(?<!\w)[\"'“‘«]|\bshows that\b", re.IGNORECASE)
"""What a description says beyond what there is to see: a figure, quoted words, a statement."""


class AnswerForm(Rule):
    """An answer in a form that cannot answer the question is withheld.

    The rules were read off wrong answers of a small model on validation (lab/notes/answer_form.md), each with the right ones that it costs.
    """

    class Options(RuleOptions):
        form: bool = Field(
            False,
            description="withhold what has the wrong form: yes to which, no figure to how many, no time to when, words of the question "
            "alone, the entity's own name",
        )

    options: Options

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer whose form does not fit the question."""
        if not self.options.form:
            return None
        draft = turn.draft.answer if context.sees and turn.draft is not None else ""
        return find_misfit(turn.question, context.candidate.text, turn.entity_name, sees=context.sees, draft=draft)


def find_misfit(
    question: str, answer: str, entity: str | None = None, *, sees: bool = False, draft: str = ""
) -> str | None:
    """Say why an answer cannot answer a question, by its form alone; None if it may.

    Args:
        question: The standalone question.
        answer: An answer that is no refusal.
        entity: Name of what was recognised in the photo, if anything.
        sees: Whether the model saw the photo, so that a description may answer what is asked of it.
        draft: What a model that sees answered before anything was recognised: a name that it gives too is no echo.
    """
    if not _ASKS.match(question):
        return None
    if YES_OR_NO.match(answer) and not _OR.search(question):
        return "yes or no does not answer the question"
    if _ASKS_FIGURE.match(question) and not _BY_WORDS.search(question) and not _FIGURE.search(answer):
        return "the question asks for a figure, and the answer has none"
    if _ASKS_TIME.match(question) and not _TIME.search(answer) and not _names_time(answer, question, entity or ""):
        return "the question asks for a time, and the answer has none"
    is_figure = _QUANTITY.fullmatch(answer) if _ASKS_WHICH_OF.match(question) else _NUMBER.fullmatch(answer)
    if _ASKS_NAME.match(question) and is_figure:  # "3M" may have made it
        return "the question asks for a name, and the answer is a figure"
    if is_about_several(question):
        return None
    question_words = _list_words(question)
    new_words = _list_words(answer) - _SMALL - _OF_PHOTOS - question_words
    if not _OR.search(question) and not new_words:
        return "the answer says no more than the question"
    if asks_name_of_shown(question) and not _is_carrier(question, entity or ""):
        return None
    if _DESCRIBES.match(answer) and not (sees and _may_describe(question, answer)):
        return "the answer describes the photo"
    named = _list_words(entity or "") - _SMALL - question_words
    is_echo = bool(named) and named == new_words and not named <= _list_words(draft)
    if is_echo and not _SCIENTIFIC.search(question) and not _CHOICE.search(question):
        return "the answer is the name of what was recognised"
    return None


def _may_describe(question: str, answer: str) -> bool:
    """Return whether a description of the photo may answer a question: one about what the photo shows, or by what it states."""
    kind = classify_question(question)
    return kind.text or kind.calculation or kind.visible or _STATES.search(answer) is not None


def _names_time(answer: str, question: str, entity: str) -> bool:
    """Return whether an answer may name a time, as "On Halloween" and "The Renaissance" do: a name that is not that of the thing itself."""
    known_words = _list_words(question) | _list_words(entity)
    return any(match["name"].lower() not in known_words for match in _NAMED_TIME.finditer(answer))


def _is_carrier(question: str, entity: str) -> bool:
    """Return whether a question asks what is on an entity that it names by its kind: "this coin", if that is a "Dime (Canadian coin)"."""
    match = _CARRIER.search(question)
    return match is not None and match["noun"].lower() in _WORD.findall(entity.lower())


def _list_words(text: str) -> set[str]:
    return set(_WORD.findall(_QUALIFIER.sub(" ", text).lower()))
