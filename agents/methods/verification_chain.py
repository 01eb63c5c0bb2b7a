"""CRUISE, section 3.4: the reply of the chain of verification (appendix A.4), and Algorithm 1, "Final Answer Verification"."""

import re
from typing import Literal

from agents.texts.replies import labelled, number
from agents.texts.text import one_line
from agents.turn import ChainOfVerification, SubFinding

_MAX_CHARACTERS = 20_000  # of a reply; an endless one must not cost endless time
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%")
_BARE_NUMBER = re.compile(r"\s*\W{0,3}[01]?(?:\.\d+)?\W{0,3}\s*(?:\n|$)")
_FINDING = re.compile(
    r"\bQ\d{1,2}\s*[:.)]\s*(?P<question>[^\n]{1,400}?)[\s,;.\[\]]*"
    r"\bFinding\s*:\s*\W{0,3}(?P<finding>not supported|unsupported|supported)\b",
    re.IGNORECASE,
)

Branch = Literal["stale", "grounded", "prior", "inconsistent", "unsure"]
"""The lines of the algorithm from top to bottom; ``grounded`` and ``prior`` give the answer, the others abstain."""


def parse_chain(reply: str) -> ChainOfVerification:
    """The three labelled parts of a reply, as far as they can be read; a cut number never gains confidence: ``0.`` reads as 0."""
    text = reply[:_MAX_CHARACTERS].replace("*", "")
    return ChainOfVerification(
        _confidence(text),
        one_line(labelled(text, "reasoning") or ""),
        tuple(
            SubFinding(one_line(found["question"]).strip("[] "), found["finding"].lower() == "supported")
            for found in _FINDING.finditer(text)
        ),
    )


def _confidence(text: str) -> float | None:
    said = labelled(text, "confidence") or labelled(text, "confidence score")
    if said is None:
        bare = _BARE_NUMBER.match(text)
        said = bare.group() if bare else None
    percent = _PERCENT.search(said or "")
    if percent is not None:
        share = float(percent.group(1)) / 100
        return share if share <= 1 else None
    return number(said, 0.0, 1.0)


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
    (docs/papers.md).
    """
    if real_time and not retrieval >= min_retrieval:
        return "stale"
    if consistent and confidence is not None and confidence >= (low if context else high):
        return "grounded" if context else "prior"
    return "inconsistent" if context and not consistent else "unsure"


def stands(branch: Branch) -> bool:
    """Whether an answer that ended on this line is given."""
    return branch in ("grounded", "prior")
