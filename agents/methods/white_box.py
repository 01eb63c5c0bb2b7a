"""How sure a model was of its own words: the white-box verifier of QA-Dragon (section 3.7.2)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TokenProbabilities:
    """The two statistics of an answer's token probabilities t_1..t_T: their minimum and their mean."""

    least: float
    mean: float


def token_probabilities(logprobs: Sequence[float] | None) -> TokenProbabilities | None:
    """The statistics of natural log-probabilities; None where there are none."""
    if not logprobs:
        return None
    probabilities = [math.exp(min(0.0, logprob)) for logprob in logprobs]
    return TokenProbabilities(min(probabilities), sum(probabilities) / len(probabilities))
