"""Readings of the probabilities of a reply's tokens: how sure a model was of its words, how near to abstaining, how sure of yes or no."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from agents.turn import IDK, Candidate

_AROUND = " \t\r\n\"'`*“”‘’"  # blanks, quotation marks and markdown that may surround the first word of a reply


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


class WhiteBoxOptions(BaseModel):
    """Options of the white-box verifier, a rule over the token probabilities of an answer (QA-Dragon, section 3.7.2)."""

    white_box: Literal["bounds", "line"] = Field(
        "bounds",
        description="rule over token probabilities: both bounds, for the answer and for a judgement that gives its reason (QA-Dragon's "
        "released code), or the paper's trained line over those of the answer (`calibrate --fit white_box`)",
    )
    min_probability: float = Field(0.1, ge=0, le=1, description="bounds: minimum token probability")
    mean_probability: float = Field(0.7, ge=0, le=1, description="bounds: geometric mean of token probabilities")
    weight_min: float = Field(0.5, description="line: weight of the minimum token probability in g_white")
    weight_mean: float = Field(0.5, description="line: weight of the mean token probability in g_white")
    white_box_threshold: float = Field(0.5, description="line: tau_white")


def approve_tokens(
    options: WhiteBoxOptions, candidate: Candidate, judging: Sequence[float] | None = None
) -> bool | None:
    """Apply the white-box verifier to the token probabilities of an answer and of its judgement; None for an answer that has none."""
    statistics = summarise_probabilities(candidate.logprobs)
    if statistics is None:
        return None
    if options.white_box == "line":
        return (
            options.weight_min * statistics.minimum + options.weight_mean * statistics.mean
            >= options.white_box_threshold
        )
    return all(
        each.minimum >= options.min_probability and each.geometric_mean >= options.mean_probability
        for each in (statistics, summarise_probabilities(judging))
        if each is not None
    )
