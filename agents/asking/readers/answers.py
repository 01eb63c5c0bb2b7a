"""Answers as replies: short ones, brief ones and long ones with citations."""

import dataclasses
import re

from agents.asking.ask import ReplyForm
from agents.methods.citations import parse_cited
from agents.methods.token_probabilities import compute_idk_probability, summarise_probabilities
from agents.models.base import ChatReply
from agents.texts.refusals import refuses
from agents.texts.replies import read_label, was_cut, whole_sentences
from agents.texts.text import one_line
from agents.turn import Candidate

_BEFORE_REASON = re.compile(r"\A(?P<answer>.*?)^\W{0,4}reason\W{0,2}:", re.IGNORECASE | re.MULTILINE | re.DOTALL)
_ANNOUNCED = re.compile(
    r"^the (?:final )?answer(?: in one sentence\b[^:\n]{0,120})?:[ \t]+", re.IGNORECASE | re.MULTILINE
)
_PREAMBLE = re.compile(r"\A\s*(?:sure|certainly|of course|okay|here)\b[^\n]{0,80}:[ \t]*\n+", re.IGNORECASE)


def read_candidate(reply: ChatReply) -> Candidate | None:
    """Read the answer of a reply, with the mean token probability as its confidence.

    A reply that reasons first has its answer on the line ``Answer:``. A model may also answer before it gives its reason,
    and announce the answer in the words in which it was asked for. If the deadline or the limit of tokens cut off the
    answer, its complete sentences are kept: the cut one might have continued with the opposite.

    Returns:
        None if the reply says nothing, or reasons first and was cut off before its answer.
    """
    if reply.finish_reason == "error":
        return None
    reply_text = reply.text
    text = read_label(reply_text, "answer") or read_label(reply_text, "final answer")
    reason = read_label(reply_text, "reason")
    begins = text is None  # with the answer itself: the first token of a labelled one is that of the label
    if text is None:
        first = _BEFORE_REASON.match(reply_text)
        begun = "" if reason is not None else _PREAMBLE.sub("", reply_text)
        text = _ANNOUNCED.sub("", first.group("answer") if first else begun)
    candidate = candidate_from(reply, text, begins=begins)
    return candidate and dataclasses.replace(candidate, reasoning=one_line(reason or ""))


def candidate_from(reply: ChatReply, text: str, *, begins: bool) -> Candidate | None:
    """Make a candidate of ``text``, a part of a reply, without a truncated sentence.

    If the reply ``begins`` with the answer itself, its first token says how near it was to a refusal.

    Returns:
        None if nothing is left of the text.
    """
    if was_cut(reply):
        text = whole_sentences(text)
    if not text.strip():
        return None
    statistics = summarise_probabilities(reply.logprobs)
    return Candidate(
        one_line(text),
        statistics.mean if statistics else None,
        reply.logprobs,
        idk=compute_idk_probability(reply.first_token_probs) if begins else None,
    )


def read_step_answer(reply: ChatReply) -> Candidate | None:
    """Read the answer to one step: as ``read_candidate``, but of a cut list ("red; blue; whi") the whole items are kept.

    Returns:
        None if nothing whole is left.
    """
    candidate = read_candidate(reply)
    if candidate is None and was_cut(reply):
        items, _, _ = reply.text.rpartition(";")
        candidate = read_candidate(dataclasses.replace(reply, text=items, finish_reason="stop"))
    return candidate


_STEPS = ("relevant documents", "information")  # labels of the steps before the answer in the prompt that reasons


def long_answer(reply: ChatReply) -> Candidate | None:
    """Read the answer of a reply and keep its citation markers.

    Returns:
        None if the reply only says where to read, or was cut off before its answer.
    """
    reply_text = reply.text
    text = read_label(reply_text, "answer")
    begins = text is None  # with the answer itself, not with a label
    if text is None:
        text = "" if any(read_label(reply_text, step) is not None for step in _STEPS) else reply_text
    return candidate_from(reply, text if parse_cited(text) else "", begins=begins)


MAX_BRIEF_WORDS = 12
"""Words of an answer requested "in at most five words"; articles and units may come beside them."""


def _is_brief(candidate: Candidate | None, _: ChatReply) -> bool:
    return candidate is not None and (refuses(candidate.text) or len(candidate.text.split()) <= MAX_BRIEF_WORDS)


def _cites(candidate: Candidate | None, reply: ChatReply) -> bool:
    return refuses(reply.text) or (
        candidate is not None and any(sentence.citations for sentence in parse_cited(candidate.text))
    )


ANSWER = ReplyForm("answer", read_candidate)
BRIEF_ANSWER = ReplyForm("brief answer", read_candidate, _is_brief)
CITED_ANSWER = ReplyForm("cited answer", long_answer, _cites)
STEP_ANSWER = ReplyForm("step answer", read_step_answer, _is_brief)
"""The answer to one step of a plan; the turn's own answer is computed from all of them."""

ANSWERS = frozenset({ANSWER.name, BRIEF_ANSWER.name})
"""Forms whose reply is the answer of its turn, unchanged."""
