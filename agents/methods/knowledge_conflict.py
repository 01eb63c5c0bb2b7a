"""Where sources of knowledge disagree (CoRe-MMRAG, section 3.1), and the choice of one entry from both modalities (eq. 5)."""

import re
import unicodedata
from collections.abc import Sequence

from agents.texts.refusals import refuses

_ARTICLES = frozenset({"a", "an", "the"})
_TURNS = frozenset(
    "not no never neither nor none without except unlike cannot isn wasn aren weren don doesn didn or instead rather formerly false "
    "wrong denied unknown".split()
)
"""Words that negate the answer beside them, or leave it open: "not Italy", "Italy or France"."""
_WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+")


def split_words(answer: str) -> tuple[str, ...]:
    """Split an answer into words in lower case, without accents, articles and punctuation.

    1,250 and 1250 are the same number.
    """
    plain = "".join(ch for ch in unicodedata.normalize("NFKD", answer.casefold()) if not unicodedata.combining(ch))
    words = (re.sub(r",(?=\d{3}\b)", "", word) for word in _WORD.findall(plain))
    return tuple(word for word in words if word not in _ARTICLES)


def says_something(answer: str | None) -> bool:
    """Return whether an answer asserts something."""
    return answer is not None and not refuses(answer)


def is_same_answer(first: str, second: str) -> bool:
    """Return whether two short answers agree: equal words, or one contains the other.

    "Italy" and "the island belongs to Italy" agree. They do not if the longer one negates the other or adds an alternative
    ("not Italy", "Italy or France").
    """
    shorter, longer = sorted((split_words(first), split_words(second)), key=len)
    if not shorter:
        return not longer
    if _TURNS.intersection(longer) != _TURNS.intersection(shorter):
        return False
    return any(longer[start : start + len(shorter)] == shorter for start in range(len(longer) - len(shorter) + 1))


def prki(parametric: str | None, retrieved: str | None) -> bool | None:
    """Return whether parametric and retrieved knowledge are inconsistent (eq. 1): M(Q) differs from M(Q, P).

    Returns:
        None if one of the answers says nothing.
    """
    if parametric is None or retrieved is None or not (says_something(parametric) and says_something(retrieved)):
        return None
    return not is_same_answer(parametric, retrieved)


def find_best(scores: Sequence[float]) -> int | None:
    """Return the index of the best score, the first of equal ones; None without scores. NaN never wins."""
    best: int | None = None
    for index, score in enumerate(scores):
        if score == score and (best is None or score > scores[best]):
            best = index
    return best


def vtki(titles: Sequence[str], visual: Sequence[float], textual: Sequence[float]) -> bool | None:
    """Return whether visual and textual knowledge are inconsistent (eq. 2 and 4).

    They are if the entry with the most similar picture is not the entry with the most relevant text. Entries are compared by their titles:
    two pictures of one entity do not contradict each other.

    Returns:
        None if fewer than two entries have scores.
    """
    by_picture, by_text = find_best(visual), find_best(textual)
    if len(titles) < 2 or by_picture is None or by_text is None:
        return None
    return titles[by_picture] != titles[by_text]


def choose_jointly(visual: Sequence[float], textual: Sequence[float]) -> int | None:
    """Choose the entry with the highest visual + textual score (eq. 5); None without entries.

    It decides if the model names no entry.
    """
    return find_best([sight + text for sight, text in zip(visual, textual, strict=True)])
