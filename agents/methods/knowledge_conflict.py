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


def words_of(answer: str) -> tuple[str, ...]:
    """The words of an answer in lower case, without accents, articles and punctuation; 1,250 and 1250 are one number."""
    plain = "".join(ch for ch in unicodedata.normalize("NFKD", answer.casefold()) if not unicodedata.combining(ch))
    words = (re.sub(r",(?=\d{3}\b)", "", word) for word in _WORD.findall(plain))
    return tuple(word for word in words if word not in _ARTICLES)


def says_something(answer: str | None) -> bool:
    """Whether an answer asserts anything."""
    return answer is not None and not refuses(answer)


def same_answer(first: str, second: str) -> bool:
    """Whether two short answers say the same: equal words, or one within the other (Italy, the island belongs to Italy).

    Not where the longer one turns what it repeats, or gives an alternative to it (not Italy; Italy or France).
    """
    shorter, longer = sorted((words_of(first), words_of(second)), key=len)
    if not shorter:
        return not longer
    if _TURNS.intersection(longer) != _TURNS.intersection(shorter):
        return False
    return any(longer[start : start + len(shorter)] == shorter for start in range(len(longer) - len(shorter) + 1))


def prki(parametric: str | None, retrieved: str | None) -> bool | None:
    """Parametric-retrieved knowledge inconsistency, eq. 1: M(Q) differs from M(Q, P); None where one of them says nothing."""
    if parametric is None or retrieved is None or not (says_something(parametric) and says_something(retrieved)):
        return None
    return not same_answer(parametric, retrieved)


def preferred(scores: Sequence[float]) -> int | None:
    """The index of the best score, the first of equals; None where there is none, NaN is never the best."""
    best: int | None = None
    for index, score in enumerate(scores):
        if score == score and (best is None or score > scores[best]):
            best = index
    return best


def vtki(titles: Sequence[str], visual: Sequence[float], textual: Sequence[float]) -> bool | None:
    """Visual-textual knowledge inconsistency, eq. 2 and 4: the best entry by likeness of picture is not the best one by relevance of text.

    None where there are not two entries to choose from. Two pictures of one entity do not contradict each other: entries are compared
    by their titles, not by their places.
    """
    by_picture, by_text = preferred(visual), preferred(textual)
    if len(titles) < 2 or by_picture is None or by_text is None:
        return None
    return titles[by_picture] != titles[by_text]


def joint_choice(visual: Sequence[float], textual: Sequence[float]) -> int | None:
    """Eq. 5 where the model names no entry: argmax over the entries of visual + textual; None without entries."""
    return preferred([sight + text for sight, text in zip(visual, textual, strict=True)])
