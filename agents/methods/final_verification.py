"""Algorithm 1 of CRUISE, "Final Answer Verification": which signals let an answer stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Branch = Literal["stale", "grounded", "prior", "inconsistent", "unsure"]
"""The lines of the algorithm from top to bottom; ``grounded`` and ``prior`` give the answer, the others abstain."""


@dataclass(frozen=True)
class Signals:
    """What the algorithm decides on.

    Attributes:
        real_time: The router's flag r (isRealTime).
        retrieval: S_ret, 0 to 1; 0 where nothing was retrieved.
        context: Whether there is retrieved context (C_i is not empty).
        consistent: What the judge says of the RAG and the non-RAG answer; None where it said nothing that can be read.
        confidence: S_CoV, 0 to 1; None where the verifier said nothing that can be read.
    """

    real_time: bool
    retrieval: float
    context: bool
    consistent: bool | None
    confidence: float | None


def final_branch(signals: Signals, *, least_retrieval: float, low: float, high: float) -> Branch:
    """The line of Algorithm 1 (CRUISE, section 3.4) that a turn ends on.

    A signal that is missing (None, NaN) meets no condition, so it can only lead to an abstention; the paper leaves that open
    (docs/papers.md).

    Args:
        signals: See ``Signals``.
        least_retrieval: tau_ret, below which the answer to a question about the present is not trusted.
        low: tau_low, the confidence that suffices with context.
        high: tau_high, the confidence that is needed without context.
    """
    if signals.real_time and not signals.retrieval >= least_retrieval:
        return "stale"
    confidence = -1.0 if signals.confidence is None else signals.confidence
    consistent = signals.consistent is True
    if signals.context and consistent and confidence >= low:
        return "grounded"
    if not signals.context and consistent and confidence >= high:
        return "prior"
    return "inconsistent" if signals.context and not consistent else "unsure"


def stands(branch: Branch) -> bool:
    """Whether an answer that ended on this line is given."""
    return branch in ("grounded", "prior")
