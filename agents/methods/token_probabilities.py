"""What the probabilities of a reply's tokens say: how sure a model was of its words, how near to abstaining, how sure of yes or no."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.turn import IDK

_AROUND = " \t\r\n\"'`*“”‘’"  # blanks, quotation marks and markdown that may stand around the first word of a reply


@dataclass(frozen=True)
class TokenProbabilities:
    """The statistics of a reply's token probabilities t_1..t_T: their minimum and their mean (QA-Dragon, section 3.7.2)."""

    minimum: float
    mean: float
    geometric_mean: float  # the "normalized" probability of QA-Dragon's released code


def token_probabilities(logprobs: Sequence[float] | None) -> TokenProbabilities | None:
    """The statistics of natural log-probabilities; None where there are none."""
    if not logprobs:
        return None
    logarithms = [min(0.0, logprob) for logprob in logprobs]
    probabilities = [math.exp(each) for each in logarithms]
    count = len(probabilities)
    return TokenProbabilities(min(probabilities), sum(probabilities) / count, math.exp(sum(logarithms) / count))


def idk_probability(first_token_probs: Mapping[str, float] | None) -> float | None:
    """Probability that a reply would have begun with "I don't know", 0 to 1; None where the engine gives no alternatives.

    The sum over the first tokens that are a beginning of those words ("I", " I don"). This is the signal that the winner of task 2 of the
    KDD Cup 2025 (NVIDIA, github.com/rbiswasfc/crag-mm) abstains on.
    """
    if not first_token_probs:
        return None
    words = _words(first_token_probs)
    return min(1.0, sum(words[word] for word in words if word and IDK.startswith(word)))


def yes_probability(first_token_probs: Mapping[str, float] | None) -> float | None:
    """P(yes) / (P(yes) + P(no)) over a reply's first tokens, in any case, with or without blank; None where neither word is among them."""
    if not first_token_probs:
        return None
    words = _words(first_token_probs)
    yes, no = (sum(words[word] for word in words if word.lower() == said) for said in ("yes", "no"))
    return yes / (yes + no) if yes + no > 0 else None


def _words(first_token_probs: Mapping[str, float]) -> dict[str, float]:
    """Probabilities by the tokens' texts without what may stand around a word."""
    words: dict[str, float] = {}
    for token, probability in first_token_probs.items():
        word = token.strip(_AROUND)
        words[word] = words.get(word, 0.0) + probability
    return words
