"""Replies that are plans of steps."""

from agents.asking.ask import ReplyForm
from agents.methods.step_plans import parse_plan

PLAN = ReplyForm("plan", lambda reply: parse_plan(reply.text), lambda plan, _: bool(plan.steps))
