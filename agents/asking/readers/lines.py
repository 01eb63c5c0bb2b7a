"""Replies of one line, facts, and plans of steps."""

import re

from agents.asking.ask import ReplyForm
from agents.english.step_plans import Plan, parse_plan
from agents.models.base import ChatReply
from agents.texts.refusals import refuses
from agents.texts.replies import was_cut, whole_sentences
from agents.texts.text import clean, one_line

MAX_LINE_WORDS = 60
"""Words of a standalone sentence or question; a longer reply has explained itself."""

_STOPS = (".", "!", "?", ":", ";", ",")


def join_facts(reply: ChatReply) -> str | None:
    """Join the facts of a reply on one line and end each of them with a stop.

    Returns:
        None if the reply has no facts.
    """
    reply_text = reply.text
    lines = clean(whole_sentences(reply_text) if was_cut(reply) else reply_text).split("\n")
    text = one_line(" ".join(line if line.endswith(_STOPS) else f"{line}." for line in lines if line))
    if reply.finish_reason == "error":
        return None
    return None if text.strip(" .").lower() in ("", "none", "nothing", "no facts") else text


def _question(reply: ChatReply) -> str | None:
    """Return the first line of a reply.

    Returns:
        None if the reply is empty, the line may have been cut off, or the model answered that it does not know.
    """
    line = reply.text.strip().split("\n", 1)[0].strip()
    if not line or refuses(line):
        return None
    return line if reply.finish_reason == "stop" or line != reply.text.strip() else None


def _is_line(_: object, reply: ChatReply) -> bool:
    reply_text = reply.text.strip()
    return bool(reply_text) and "\n" not in reply_text and len(reply_text.split()) <= MAX_LINE_WORDS


SENTENCE = ReplyForm("sentence", lambda reply: one_line(clean(reply.text)), _is_line)
STANDALONE_QUESTION = ReplyForm("question", _question, _is_line)
FACTS = ReplyForm(
    "facts", join_facts, lambda said, reply: said is not None or reply.text.strip().lower().startswith("none")
)

_NUMBERED = re.compile(r"\W*\d")


def read_plan(reply: ChatReply) -> Plan:
    """Parse a plan. A plan cut within a step has none: half a question asks for something else."""
    torn = was_cut(reply) and _NUMBERED.match(reply.text.rpartition("\n")[2])
    return Plan(()) if torn else parse_plan(reply.text)


PLAN = ReplyForm("plan", read_plan, lambda plan, _: bool(plan.steps))
