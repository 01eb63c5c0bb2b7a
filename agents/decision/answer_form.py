"""Answers whose form gives away that they answer something else: "Yes" to "Which of these?", a number to "Who?"."""

import calendar
import re

from pydantic import Field

from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.english.knowledge_conflict import YES_OR_NO
from agents.english.plain_text import normalise_text, tokenise
from agents.english.question_kinds import is_about_several
from agents.turn import Turn

_OR = re.compile(r"\bor\b", re.IGNORECASE)
_START = r"\W*(?:(?:in|on|at|of|by|to|for|from|with) )?"
_ASKS = re.compile(rf"{_START}(?:who|whom|whose|which|what|where|when|why|how)\b", re.IGNORECASE)
_ASKS_NAME = re.compile(rf"{_START}(?:who|whom|whose|(?P<choice>which of))\b", re.IGNORECASE)
_ASKS_FIGURE = re.compile(
    rf"{_START}how (?:many|much(?! of)|old|tall|high|long(?! did)|wide|deep|heavy|far|fast|large|big)\b", re.IGNORECASE
)
_COUNTS = frozenset(
    "hundred thousand no none once twice half quarter single never second minute hour day week month year decade".split()
)
"""Words that a figure may be said by, beside its own."""
_ASKS_TIME = re.compile(rf"{_START}(?:when|(?:which|what) (?:time|year|month|day|season|century))\b", re.IGNORECASE)
_TIMES = frozenset(
    (
        *map(str.lower, (*calendar.month_name[1:], *calendar.day_name)),
        *"spring summer autumn winter season morning noon afternoon evening night midnight today yesterday tomorrow now".split(),
        *"christma easter alway never during before after ago until since when hour day week month year century".split(),
    )
)
"""Stems of words that say a time."""
_NUMBER = re.compile(r"\W*+\d[\d\W]*+")
_QUANTITY = re.compile(r"\W*+\d[\d.,\s–-]*+\S{0,14}\W*+")
_QUALIFIER = re.compile(r"\([^()]*\)")
_WORD = re.compile(r"[^\W_]+")
_SMALL = frozenset("a an the it is was this that these those its his her their he she they are were one called".split())
_OF_PHOTOS = frozenset("photo picture image probably likely most shows show".split())


class AnswerForm(Rule):
    """An answer in a form that cannot answer the question is withheld, unless the model saw the photo.

    The rules were read off wrong answers of a small model on validation (lab/notes/answer_form.md), each with the right ones that it costs.
    """

    class Options(RuleOptions):
        form: bool = Field(
            False,
            description='withhold answers of the wrong type, such as "yes" to "which" or no number to "how many", unless the model saw the '
            "photo",
        )

    options: Options

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer whose form does not fit the question."""
        if not self.options.form or context.sees:
            return None
        return find_misfit(turn.question, context.candidate.text)


def find_misfit(question: str, answer: str) -> str | None:
    """Say why an answer cannot answer a standalone question, by its form alone; None if it may."""
    if not _ASKS.match(question):
        return None
    has_choice = _OR.search(question) is not None
    if YES_OR_NO.match(answer) and not has_choice:
        return "yes or no does not answer the question"
    if _ASKS_FIGURE.match(question) and not _says(answer, _COUNTS):
        return "the question asks for a figure, and the answer has none"
    if _ASKS_TIME.match(question) and not _says(answer, _TIMES):
        return "the question asks for a time, and the answer has none"
    if asks_name := _ASKS_NAME.match(question):
        is_figure = _QUANTITY.fullmatch(answer) if asks_name["choice"] else _NUMBER.fullmatch(answer)
        if is_figure:  # "3M" may have made it
            return "the question asks for a name, and the answer is a figure"
    if has_choice or is_about_several(question):
        return None
    return None if _list_new_words(question, answer) else "the answer says no more than the question"


def adds_only_name(question: str, answer: str, entity: str) -> bool:
    """Return whether an answer adds to its question a name of an entity, or a word of it, and nothing else."""
    new_words = _list_new_words(question, answer)
    return bool(new_words) and new_words <= _list_words(entity)


def _list_new_words(question: str, answer: str) -> set[str]:
    return _list_words(answer) - _SMALL - _OF_PHOTOS - _list_words(question)


def _says(answer: str, stems: frozenset[str]) -> bool:
    """Return whether an answer has a figure, or one of some words."""
    plain = normalise_text(answer)
    return any(map(str.isdigit, plain)) or not stems.isdisjoint(tokenise(plain))


def _list_words(text: str) -> set[str]:
    return set(_WORD.findall(_QUALIFIER.sub(" ", text).lower()))
