"""What the probabilities of a reply's tokens say: how sure a model was of its words, how near to abstaining, how sure of yes or no."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.turn import IDK

_AROUND = " \t\r\n\"'`*“”‘’"  # blanks, quotation marks and markdown that may stand around the first word of a reply


@dataclass(frozen=True)
class TokenProbabilities:
    """Minimum and mean of a reply's token probabilities t_1..t_T (QA-Dragon, section 3.7.2)."""

    minimum: float
    mean: float
    geometric_mean: float  # the "normalized" probability of QA-Dragon's released code


def summarise_probabilities(logprobs: Sequence[float] | None) -> TokenProbabilities | None:
    """Compute minimum and mean probability from natural log-probabilities; None without any."""
    if not logprobs:
        return None
    logarithms = [min(0.0, logprob) for logprob in logprobs]
    probabilities = [math.exp(each) for each in logarithms]
    count = len(probabilities)
    return TokenProbabilities(min(probabilities), sum(probabilities) / count, math.exp(sum(logarithms) / count))


def compute_idk_probability(first_token_probs: Mapping[str, float] | None) -> float | None:
    """Compute the probability that a reply would have begun with "I don't know", 0 to 1.

    It is the sum over the first tokens that begin these words ("I", " I don"). The winner of task 2 of the KDD Cup 2025 (NVIDIA,
    github.com/rbiswasfc/crag-mm) abstains on this signal.

    Returns:
        None if the engine gives no alternative tokens.
    """
    if not first_token_probs:
        return None
    words = _words(first_token_probs)
    return min(1.0, sum(words[word] for word in words if word and IDK.startswith(word)))


def compute_yes_probability(first_token_probs: Mapping[str, float] | None) -> float | None:
    """Compute P(yes) / (P(yes) + P(no)) over a reply's first tokens; None if neither word is among them.

    Case and a blank before the word do not matter.
    """
    if not first_token_probs:
        return None
    words = _words(first_token_probs)
    yes, no = (sum(words[word] for word in words if word.lower() == verdict) for verdict in ("yes", "no"))
    return yes / (yes + no) if yes + no > 0 else None


def _words(first_token_probs: Mapping[str, float]) -> dict[str, float]:
    """Sum probabilities by the tokens' words, without the characters around them."""
    words: dict[str, float] = {}
    for token, probability in first_token_probs.items():
        word = token.strip(_AROUND)
        words[word] = words.get(word, 0.0) + probability
    return words
