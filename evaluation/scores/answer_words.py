"""Metrics over the words of an answer that need no judge: overlap, exact match, F1, VQA with relaxed numbers.

Each takes one answer and its references. ``metrics.py`` registers them.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from agents.english.plain_text import normalise_text, tokenise, tokenise_content
from agents.english.quantities import Quantity, find_quantities, is_same_quantity, normalise_quantities

RELAXED = 0.05
"""Share by which a number may differ from the true one (Methani et al., 2020; Masry et al., 2022, section 5.1)."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def overlap(answer: str, ground_truth: str) -> float:
    """Return the share of the ground truth's content words that are in the answer, 0 to 1.

    QA-Dragon (section 4.1) calls it "rule-based Overlap matching", section 4.3 "entity overlap with ground truth". Neither the paper nor
    its released code gives a formula. This is its plain reading as a recall of words: both texts are normalised (case, accents, number
    words, plurals), stopwords are left out, each word counts once. A long answer has it easier. A ground truth of stopwords alone
    ("It is.") is compared by all of its words.
    """
    for words in (tokenise_content, tokenise):
        truth_words, answer_words = set(words(normalise_text(ground_truth))), set(words(normalise_text(answer)))
        if truth_words:
            return len(truth_words & answer_words) / len(truth_words)
    return 0.0


def squad_words(text: str) -> list[str]:
    """Normalise a text as SQuAD's evaluation does: lower case, no punctuation or articles; split it."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def exact_match(answer: str, references: Sequence[str]) -> float:
    """Return 1 if the answer equals a reference after normalisation, else 0 (SQuAD)."""
    answer_words = squad_words(answer)
    return float(any(answer_words == squad_words(reference) for reference in references))


def word_f1(answer: str, references: Sequence[str]) -> float:
    """Return the F1 of the answer's words against its nearest reference, 0 to 1 (SQuAD)."""
    return max((_f1(squad_words(answer), squad_words(reference)) for reference in references), default=0.0)


def _f1(answer_words: Sequence[str], reference_words: Sequence[str]) -> float:
    if not answer_words or not reference_words:
        return float(answer_words == reference_words)
    shared = (Counter(answer_words) & Counter(reference_words)).total()
    return 2 * shared / (len(answer_words) + len(reference_words))


def vqa(answer: str, references: Sequence[str]) -> float:
    """Return 1 if the answer equals a reference, or its number to within 5%, else 0.

    VQA accuracy (Marino et al., 2019) with relaxed accuracy of numbers, as CoRe-MMRAG takes both for InfoSeek. VQA accuracy asks for three
    of ten people; here, as in InfoSeek, one reference is enough. A year has to be exact.
    """
    answer_words = _vqa_words(answer)
    return float(any(answer_words == _vqa_words(reference) or _near(answer, reference) for reference in references))


def _vqa_words(text: str) -> list[str]:
    return squad_words(normalise_text(text))


def _near(answer: str, reference: str) -> bool:
    """Return whether the reference is a bare quantity and the answer's only quantity is near it."""
    text = normalise_quantities(normalise_text(reference)).strip(" .")
    expected, actual = find_quantities(text), find_quantities(normalise_quantities(normalise_text(answer)))
    return len(expected) == 1 and len(actual) == 1 and expected[0].text == text and _relaxed(expected[0], actual[0])


def _relaxed(reference: Quantity, answer: Quantity) -> bool:
    if reference.unit is not None and answer.unit is not None:
        return is_same_quantity(reference, answer, RELAXED)
    if "year" in (reference.dimension, answer.dimension):
        return reference.value == answer.value
    return abs(reference.value - answer.value) <= RELAXED * abs(reference.value)
