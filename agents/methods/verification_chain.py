"""The reply of the chain of verification (CRUISE, section 3.4 and appendix A.4): confidence first, so that a cut reply has it too."""

import re

from agents.texts.replies import labelled, number
from agents.texts.text import one_line
from agents.turn import ChainOfVerification, SubFinding

_MOST_CHARACTERS = 20_000  # of a reply; an endless one must not cost endless time
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%")
_BARE_NUMBER = re.compile(r"\s*\W{0,3}[01]?(?:\.\d+)?\W{0,3}\s*(?:\n|$)")
_FINDING = re.compile(
    r"\bQ\d{1,2}\s*[:.)]\s*(?P<question>[^\n]{1,400}?)[\s,;.\[\]]*"
    r"\bFinding\s*:\s*\W{0,3}(?P<finding>not supported|unsupported|supported)\b",
    re.IGNORECASE,
)


def parse_chain(reply: str) -> ChainOfVerification:
    """The three labelled parts of a reply, as far as they can be read; a cut number never gains confidence: ``0.`` reads as 0."""
    text = reply[:_MOST_CHARACTERS].replace("*", "")
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
