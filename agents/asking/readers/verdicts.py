"""Replies that judge: yes or no, a verdict with its reason, a chain of verification, flags."""

import re
from dataclasses import dataclass

from agents.asking.ask import ReplyForm
from agents.methods.token_probabilities import compute_yes_probability
from agents.models.base import ChatReply
from agents.texts.replies import number, read_label, yes_or_no
from agents.texts.text import one_line
from agents.turn import ChainOfVerification, SubFinding

BREAK_EVEN = 0.5
"""Probability from which an answer earns on average: 1 for a right one, -1 for a wrong one."""

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%")
_BARE_NUMBER = re.compile(r"\s*\W{0,3}[01]?(?:\.\d+)?\W{0,3}\s*(?:\n|$)")
_FINDING = re.compile(
    r"\bQ\d{1,2}\s{0,9}[:.)]\s{0,9}+(?P<question>[^\n]{1,400}?)[\s,;.\[\]]{0,40}+"
    r"\bFinding\s{0,9}:\s{0,9}+\W{0,3}(?P<finding>not supported|unsupported|supported)\b",
    re.IGNORECASE,
)

_NUMBERING = re.compile(r"^[^\S\n]*\(?\d+[.)]\s*", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """Verdict of a verifying model on an answer.

    Attributes:
        approves: None if the reply cannot be read, which is neither approval nor rejection.
        reason: Reason of the verdict, or why the model did not reply.
        p_yes: See ``compute_yes_probability``.
        one_word: Whether the reply is its yes or no alone, without labels.
    """

    approves: bool | None
    reason: str = ""
    p_yes: float | None = None
    one_word: bool = False


def verdict(reply: ChatReply) -> Verdict:
    """Parse a verdict: labelled (``Response: ...``, ``Reason: ...``) or bare. Only a bare one begins with yes or no.

    A bare verdict approves if P(yes) over all spellings of both words is at least one half, whatever the likeliest single token was
    (P(True) of Kadavath et al., arXiv 2207.05221, section 3). From one half on an answer earns more than it costs.
    """
    if reply.finish_reason == "error":
        return Verdict(None, reply.error or "")
    response, reason = read_label(reply.text, "response"), read_label(reply.text, "reason")
    one_word = response is None and reason is None
    p_yes = compute_yes_probability(reply.first_token_probs) if one_word else None
    approves = p_yes >= BREAK_EVEN if p_yes is not None else yes_or_no(response if response is not None else reply.text)
    return Verdict(approves, reason or "", p_yes, one_word)


def parse_yes_probability(reply: ChatReply) -> float | None:
    """Return P(yes) of a reply; 1 or 0 for its word if the engine gives no probabilities; None for neither word."""
    probability = compute_yes_probability(reply.first_token_probs)
    if probability is None and reply.finish_reason != "error":
        is_yes = yes_or_no(reply.text)
        return None if is_yes is None else float(is_yes)
    return probability


def parse_chain(reply: str) -> ChainOfVerification:
    """Parse the three labelled parts of a reply, and leave unreadable ones empty.

    A truncated number never gains confidence: ``0.`` reads as 0.
    """
    text = reply.replace("*", "")
    return ChainOfVerification(
        _confidence(text),
        one_line(read_label(text, "reasoning") or ""),
        tuple(
            SubFinding(one_line(match["question"]).strip("[] "), match["finding"].lower() == "supported")
            for match in _FINDING.finditer(text)
        ),
    )


def _confidence(text: str) -> float | None:
    figure = read_label(text, "confidence") or read_label(text, "confidence score")
    if figure is None:
        bare = _BARE_NUMBER.match(text)
        figure = bare.group() if bare else None
    percent = _PERCENT.search(figure or "")
    if percent is not None:
        share = float(percent.group(1)) / 100
        return share if share <= 1 else None
    return number(figure, 0.0, 1.0)


def parse_flags(reply: str) -> tuple[bool | None, bool | None]:
    """Parse the two flags of a reply to ``prompts/query_flags.j2``.

    Small models leave out the labels or number the lines; two lines without labels are taken in order.

    Returns:
        None in place of a flag that the reply does not give.
    """
    text = _NUMBERING.sub("", reply)
    values = [read_label(text, label) for label in ("external", "current")]
    if values == [None, None]:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) == 2:
            values = list(lines)
    external, now = (yes_or_no(value) if value is not None else None for value in values)
    return external, now


def _yes_or_no(reply: ChatReply) -> bool | None:
    return yes_or_no(reply.text) if reply.finish_reason != "error" else None


YES_NO = ReplyForm("yes or no", _yes_or_no)
P_YES = ReplyForm("P(yes)", parse_yes_probability)
VERDICT = ReplyForm("verdict", verdict, lambda said, _: said.approves is not None)
CHAIN = ReplyForm(
    "chain of verification", lambda reply: parse_chain(reply.text), lambda said, _: said.confidence is not None
)
FLAGS = ReplyForm("flags", lambda reply: parse_flags(reply.text), lambda said, _: None not in said)
