"""Whether a chunk of evidence holds the answer to a question, by words: the label of the yes/no questions on relevance."""

from __future__ import annotations

from collections.abc import Sequence

from evaluation.judge.plain_text import content, plain, tokens
from evaluation.judge.rule_judge import KEY_SHARE


def holds_answer(chunk: str, question: str, ground_truth: str, accept: Sequence[str] = ()) -> bool:
    """Whether one of the accept forms stands in the chunk as a run of words.

    Without accept forms: whether the chunk has all figures and at least ``KEY_SHARE`` of the words that the ground truth has beyond
    those of the question; False where it has none beyond them.
    """
    given = tokens(plain(chunk))
    if accept:
        return any(_runs(given, tokens(plain(form))) for form in accept)
    asked = set(content(plain(question)))
    key = [word for word in dict.fromkeys(content(plain(ground_truth))) if word not in asked]
    if not key:
        return False
    words = set(given)
    figures = [word for word in key if word[0].isdigit()]
    return all(word in words for word in figures) and sum(word in words for word in key) >= KEY_SHARE * len(key)


def _runs(words: Sequence[str], form: Sequence[str]) -> bool:
    return bool(form) and any(
        list(words[start : start + len(form)]) == list(form) for start in range(len(words) - len(form) + 1)
    )
