"""Whether two answers say the same, and so whether sources of knowledge disagree (CoRe-MMRAG, section 3.1)."""

import re
from functools import lru_cache

from agents.english.answer_text import AnswerText, Policy
from agents.texts.orders import list_added_names
from agents.texts.refusals import refuses

YES_OR_NO = re.compile(  # not "No. 10 Downing Street" and "No Time to Die"
    r"\W*(?P<claim>yes|no)(?:\W*$|[,;!:]|\.(?! ?\d)| (?:it|they|he|she|there|this|that|these|those|both|all|none)\b)",
    re.IGNORECASE,
)
"""The beginning of an answer that says yes or no."""

_CHOICE = re.compile(r"\bor\b(?! (?:not|more|less)\b)", re.IGNORECASE)
_TURNS = frozenset(
    "not no never neither nor none without except unlike or instead rather formerly false wrong denied unknown".split()
)
"""Words that negate the answer beside them, or leave it open: "not Italy", "Italy or France"."""
_POLICY = Policy()
_MAX_CHARACTERS = 2_000  # of an answer that are read


def says_something(answer: str | None) -> bool:
    """Return whether an answer asserts something."""
    return answer is not None and not refuses(answer)


def get_given_words(question: str) -> str:
    """Return the words that an answer may repeat without claiming them: the question, or "" if it offers a choice.

    To "Is it in Paris or London?", a name of the question is the answer.
    """
    return "" if _CHOICE.search(question) else question


def is_same_answer(first: str, second: str, question: str = "") -> bool:
    """Return whether two short answers agree: both say yes or both no, or one states the other.

    If both add a name or a number to the question after a yes or no ("No, it is by Koch"), that has to agree too.
    "Italy" and "the island belongs to Italy" agree. They do not if the longer one negates the other, adds an alternative or makes
    another number of it ("not Italy", "Italy or France", "10 million" for "10").
    """
    claims = [YES_OR_NO.match(answer) for answer in (first, second)]
    if claims[0] and claims[1]:
        if claims[0]["claim"].lower() != claims[1]["claim"].lower():
            return False
        if not all(list_added_names(answer, get_given_words(question)) for answer in (first, second)):
            return True
    one, two = map(_read, (first, second))
    if one.plain == two.plain:
        return True
    return one.words & _TURNS == two.words & _TURNS and (one.states(two, _POLICY) or two.states(one, _POLICY))


def find_claim(answer: str) -> str | None:
    """Return the yes or no that an answer begins with, in lower case; None without one."""
    claim = YES_OR_NO.match(answer)
    return claim["claim"].lower() if claim else None


def find_negations(answer: str) -> frozenset[str]:
    """Return the words of an answer, after its yes or no, that negate it or leave it open."""
    return _read(answer).words & _TURNS


@lru_cache(maxsize=1024)
def _read(answer: str) -> AnswerText:
    """Analyse an answer without a yes or no before other words."""
    answer = answer[:_MAX_CHARACTERS]
    claim = YES_OR_NO.match(answer)
    rest = answer[claim.end("claim") :] if claim else answer
    return AnswerText(rest if any(map(str.isalnum, rest)) else answer)


def prki(parametric: str | None, retrieved: str | None, question: str = "") -> bool | None:
    """Return whether parametric and retrieved knowledge are inconsistent (eq. 1): M(Q) differs from M(Q, P).

    Returns:
        None if one of the answers says nothing.
    """
    if parametric is None or retrieved is None or not (says_something(parametric) and says_something(retrieved)):
        return None
    return not is_same_answer(parametric, retrieved, question)
