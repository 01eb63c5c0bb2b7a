"""CRUISE, section 3.4: Algorithm 1, "Final Answer Verification"."""

from collections.abc import Collection
from typing import Literal

from pydantic import Field

from agents.decision.rule import Rule, RuleContext, RuleOptions
from agents.profiles.profile import Table
from agents.turn import Turn

Branch = Literal["stale", "grounded", "prior", "inconsistent", "unsure"]
"""The lines of the algorithm from top to bottom; ``grounded`` and ``prior`` give the answer, the others abstain."""


class FinalVerification(Table):
    """Thresholds of Algorithm 1. They have no default: they belong to a model."""

    min_retrieval: float = Field(description="tau_ret: least score of the best chunk for questions about the present")
    low: float = Field(description="tau_low: confidence that suffices with context")
    high: float = Field(description="tau_high: confidence needed without context")


class Algorithm1(Rule):
    """The line of the algorithm that a turn ends on decides."""

    class Options(RuleOptions):
        algorithm1: FinalVerification | None = Field(
            None,
            description="decide by Algorithm 1 of CRUISE (consistency and chain_of_verification have to run before)",
        )

    options: Options

    def reason(self, turn: Turn, context: RuleContext) -> str | None:
        """Withhold an answer that ends on another line than ``grounded`` or ``prior``; the line is noted."""
        if self.options.algorithm1 is None:
            return None
        branch = choose_branch(turn, context.stages, self.options.algorithm1)
        turn.note(branch=branch)
        return None if stands(branch) else f"Algorithm 1 ends on {branch!r}"


def choose_branch(turn: Turn, stages: Collection[str], thresholds: FinalVerification) -> Branch:
    """Return the line that a turn ends on; S_ret is the best score of the chunks that were kept.

    A check that is no part of the preset, as in an ablation, is taken as passed; one that ran and said nothing is not.
    """
    chunks = turn.evidence[:1]
    best = chunks[0] if chunks else None
    retrieval = 0.0 if best is None else best.score if best.score is not None else best.retrieval
    confidence = turn.chain.confidence if turn.chain is not None else None
    return final_branch(
        real_time=bool(turn.real_time),
        retrieval=retrieval,
        context=best is not None,
        consistent=turn.consistent if "consistency" in stages else True,
        confidence=confidence if "chain_of_verification" in stages else max(thresholds.low, thresholds.high),
        min_retrieval=thresholds.min_retrieval,
        low=thresholds.low,
        high=thresholds.high,
    )


def final_branch(
    *,
    real_time: bool,  # the router's flag r (isRealTime)
    retrieval: float,  # S_ret, 0 to 1; 0 where nothing was retrieved
    context: bool,  # whether there is retrieved context (C_i is not empty)
    consistent: bool | None,  # what the judge says of the RAG and the non-RAG answer; None where it cannot be read
    confidence: float | None,  # S_CoV, 0 to 1; None where the verifier said nothing that can be read
    min_retrieval: float,  # tau_ret, below which the answer to a question about the present is not trusted
    low: float,  # tau_low, the confidence that suffices with context
    high: float,  # tau_high, the confidence that is needed without context
) -> Branch:
    """Return the line of Algorithm 1 (CRUISE, section 3.4) that the values end on.

    A signal that is missing (None, NaN) meets no condition, so it can only lead to an abstention; the paper leaves that open
    (lab/notes/papers.md).
    """
    if real_time and not retrieval >= min_retrieval:
        return "stale"
    if consistent and confidence is not None and confidence >= (low if context else high):
        return "grounded" if context else "prior"
    return "inconsistent" if context and not consistent else "unsure"


def stands(branch: Branch) -> bool:
    """Return whether an answer that ended on this line is given."""
    return branch in ("grounded", "prior")
