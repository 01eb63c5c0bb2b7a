"""Whether two answers say the same, and so whether sources of knowledge disagree (CoRe-MMRAG, section 3.1)."""

import calendar
import re
from collections.abc import Sequence

from agents.english.dates import DATE, parse_day
from agents.english.plain_text import normalise_text
from agents.texts.orders import list_added_names
from agents.texts.refusals import refuses

YES_OR_NO = re.compile(  # not "No. 10 Downing Street" and "No Time to Die"
    r"\W*(?P<claim>yes|no)(?:\W*$|[,;!:]|\.(?! ?\d)| (?:it|they|he|she|there|this|that|these|those|both|all|none)\b)",
    re.IGNORECASE,
)
"""The beginning of an answer that says yes or no."""

_CHOICE = re.compile(r"\bor\b(?! (?:not|more|less)\b)", re.IGNORECASE)
_ARTICLES = frozenset({"a", "an", "the"})
_TURNS = frozenset(
    "not no never neither nor none without except unlike cannot isn wasn aren weren don doesn didn or instead rather formerly false "
    "wrong denied unknown".split()
)
"""Words that negate the answer beside them, or leave it open: "not Italy", "Italy or France"."""
_WORD = re.compile(r"(?:(?<![\w)])-)?\d+(?:[.,]\d+)*(?:(?:s|st|nd|rd|th)\b)?|%|\w+")
_DATE = re.compile(DATE, re.IGNORECASE)
_SPELLINGS = (
    (re.compile(r"(?<=\d)\s?-\s?(?=\d)"), " to "),
    (re.compile(r"\bminus (?=\d)"), "-"),
    (re.compile(r"\bper ?cent\b"), "%"),
)
_RANGE_WORDS = frozenset({"to", "and"})
_MAKES_ANOTHER_NUMBER = frozenset(("%", "bc", "bce", *map(str.lower, calendar.month_name[1:])))
"""Words after which a number is another one: "5%", "1889 BC", and the day of a date."""


def split_words(answer: str) -> tuple[str, ...]:
    """Split an answer into words in lower case, without accents, articles and punctuation.

    1,250 and 1250 are the same number, three is 3, and July 4, 1776 is 4 July 1776.
    """
    plain = normalise_text(_DATE.sub(_spell_date, answer))
    for pattern, spelling in _SPELLINGS:
        plain = pattern.sub(spelling, plain)
    return tuple(word for word in _WORD.findall(plain) if word not in _ARTICLES)


def _spell_date(match: re.Match[str]) -> str:
    try:
        return str(parse_day(match.group()))
    except ValueError:  # 31 February
        return match.group()


def says_something(answer: str | None) -> bool:
    """Return whether an answer asserts something."""
    return answer is not None and not refuses(answer)


def get_given_words(question: str) -> str:
    """Return the words that an answer may repeat without claiming them: the question, or "" if it offers a choice.

    To "Is it in Paris or London?", a name of the question is the answer.
    """
    return "" if _CHOICE.search(question) else question


def is_same_answer(first: str, second: str, question: str = "") -> bool:
    """Return whether two short answers agree: both say yes or both no, or one contains the words of the other.

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
    shorter, longer = sorted(map(_split_without_claim, (first, second)), key=len)
    if not shorter:
        return not longer
    if _TURNS.intersection(longer) != _TURNS.intersection(shorter):
        return False
    starts = range(len(longer) - len(shorter) + 1)
    return any(
        longer[start : start + len(shorter)] == shorter and _is_whole(longer, start, start + len(shorter))
        for start in starts
    )


def find_claim(answer: str) -> str | None:
    """Return the yes or no that an answer begins with, in lower case; None without one."""
    claim = YES_OR_NO.match(answer)
    return claim["claim"].lower() if claim else None


def find_negations(answer: str) -> frozenset[str]:
    """Return the words of an answer, after its yes or no, that negate it or leave it open."""
    return _TURNS.intersection(_split_without_claim(answer))


def _split_without_claim(answer: str) -> tuple[str, ...]:
    """Split an answer into words, without a yes or no before other words."""
    claim = YES_OR_NO.match(answer)
    return split_words(answer[claim.end("claim") :] if claim else answer) or split_words(answer)


def _is_whole(words: Sequence[str], start: int, end: int) -> bool:
    """Return whether words[start:end] begin and end with no part of a number: "10" of "10 million", "3" of "2 to 3"."""
    before, after = words[max(start - 2, 0) : start], words[end : end + 2]
    if _is_number(words[start]) and len(before) == 2 and _is_number(before[0]) and before[1] in _RANGE_WORDS:
        return False
    if not _is_number(words[end - 1]) or not after:
        return True
    return after[0] not in _MAKES_ANOTHER_NUMBER and not (
        len(after) == 2 and after[0] in _RANGE_WORDS and _is_number(after[1])
    )


def _is_number(word: str) -> bool:
    return word.lstrip("-")[:1].isdigit()


def prki(parametric: str | None, retrieved: str | None, question: str = "") -> bool | None:
    """Return whether parametric and retrieved knowledge are inconsistent (eq. 1): M(Q) differs from M(Q, P).

    Returns:
        None if one of the answers says nothing.
    """
    if parametric is None or retrieved is None or not (says_something(parametric) and says_something(retrieved)):
        return None
    return not is_same_answer(parametric, retrieved, question)
