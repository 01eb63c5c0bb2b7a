"""Replies that are plans of steps."""

import re

from agents.asking.ask import ReplyForm
from agents.english.step_plans import Plan, parse_plan
from agents.models.base import ChatReply
from agents.texts.replies import was_cut

_NUMBERED = re.compile(r"\W*\d")


def read_plan(reply: ChatReply) -> Plan:
    """Parse a plan. One that was cut within a step has none: half a question asks for something else."""
    torn = was_cut(reply) and _NUMBERED.match(reply.text.rpartition("\n")[2])
    return Plan(()) if torn else parse_plan(reply.text)


PLAN = ReplyForm("plan", read_plan, lambda plan, _: bool(plan.steps))
