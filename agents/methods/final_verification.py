"""Algorithm 1 of CRUISE, "Final Answer Verification": which signals let an answer stand."""

from typing import Literal

Branch = Literal["stale", "grounded", "prior", "inconsistent", "unsure"]
"""The lines of the algorithm from top to bottom; ``grounded`` and ``prior`` give the answer, the others abstain."""


def final_branch(
    *,
    real_time: bool,
    retrieval: float,
    context: bool,
    consistent: bool | None,
    confidence: float | None,
    least_retrieval: float,
    low: float,
    high: float,
) -> Branch:
    """The line of Algorithm 1 (CRUISE, section 3.4) that a turn ends on.

    A signal that is missing (None, NaN) meets no condition, so it can only lead to an abstention; the paper leaves that open
    (docs/papers.md).

    Args:
        real_time: The router's flag r (isRealTime).
        retrieval: S_ret, 0 to 1; 0 where nothing was retrieved.
        context: Whether there is retrieved context (C_i is not empty).
        consistent: What the judge says of the RAG and the non-RAG answer; None where it said nothing that can be read.
        confidence: S_CoV, 0 to 1; None where the verifier said nothing that can be read.
        least_retrieval: tau_ret, below which the answer to a question about the present is not trusted.
        low: tau_low, the confidence that suffices with context.
        high: tau_high, the confidence that is needed without context.
    """
    if real_time and not retrieval >= least_retrieval:
        return "stale"
    if consistent and confidence is not None and confidence >= (low if context else high):
        return "grounded" if context else "prior"
    return "inconsistent" if context and not consistent else "unsure"


def stands(branch: Branch) -> bool:
    """Whether an answer that ended on this line is given."""
    return branch in ("grounded", "prior")
