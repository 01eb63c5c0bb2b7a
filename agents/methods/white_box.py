"""The white-box verifier: a rule over the token probabilities of an answer (QA-Dragon, section 3.7.2)."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from agents.methods.token_probabilities import summarise_probabilities
from agents.turn import Candidate


class WhiteBoxOptions(BaseModel):
    """Options of the rule."""

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
    """Apply the rule to the token probabilities of an answer and of its judgement; None for an answer that has none."""
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
