"""Scores passages by the words that they share with a question: a name that an encoder never saw is a word like any other."""

import math
import re
from collections import Counter
from collections.abc import Sequence

_K1, _B = 1.2, 0.75  # how soon further occurrences of a word count no more, and how much the length of a passage counts
_STEM = 6  # letters of a word that are compared: endings differ, and no language needs a stemmer of its own
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # letters of Japanese, Chinese and Korean, compared in pairs
_WORD = re.compile(rf"(?=([{_UNSPACED}]{{2}}))|\b([^\W{_UNSPACED}]{{1,{_STEM}}})")


def score_words(passages: Sequence[str], questions: Sequence[str]) -> list[float]:
    """Score passages against questions by BM25 (Robertson and Zaragoza, 2009, eq. 3.15), over the beginnings of words.

    How rare a word is, is counted in these passages: in a guide book a name weighs more than "the park".

    Returns:
        For each passage its best score over the questions, 0 if it shares no word with any.
    """
    counts = [Counter(split_words(passage)) for passage in passages]
    asked = [set(split_words(question)) for question in questions]
    mean_length = sum(map(Counter.total, counts)) / max(len(counts), 1)
    weights = {}
    for word in set().union(*asked):
        containing = sum(word in own for own in counts)
        weights[word] = math.log(
            1 + (len(counts) - containing + 0.5) / (containing + 0.5)
        )  # never negative, as in Lucene
    scores = []
    for own in counts:
        norm = _K1 * (1 - _B + _B * own.total() / mean_length) if mean_length else _K1
        gains = {
            word: weight * own[word] * (_K1 + 1) / (own[word] + norm) for word, weight in weights.items() if word in own
        }
        scores.append(max((sum(gains.get(word, 0.0) for word in words) for words in asked), default=0.0))
    return scores


def split_words(text: str) -> list[str]:
    """Return the beginnings of the words of a text, in lower case; of Japanese, Chinese and Korean each two letters."""
    return [pair or start for pair, start in _WORD.findall(text.lower())]
