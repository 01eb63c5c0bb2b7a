"""CRUISE, section 3.4: Algorithm 1, "Final Answer Verification"."""

from typing import Literal

Branch = Literal["stale", "grounded", "prior", "inconsistent", "unsure"]
"""The lines of the algorithm from top to bottom; ``grounded`` and ``prior`` give the answer, the others abstain."""


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
    """The line of Algorithm 1 (CRUISE, section 3.4) that a turn ends on.

    A signal that is missing (None, NaN) meets no condition, so it can only lead to an abstention; the paper leaves that open
    (lab/notes/papers.md).
    """
    if real_time and not retrieval >= min_retrieval:
        return "stale"
    if consistent and confidence is not None and confidence >= (low if context else high):
        return "grounded" if context else "prior"
    return "inconsistent" if context and not consistent else "unsure"


def stands(branch: Branch) -> bool:
    """Whether an answer that ended on this line is given."""
    return branch in ("grounded", "prior")
