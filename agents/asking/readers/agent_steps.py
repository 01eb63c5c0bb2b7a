"""The next step of a model that chooses its searches itself: a JSON object (``prompts/search_agent.j2``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from agents.asking.ask import ReplyForm
from agents.asking.readers.answers import candidate_from, read_candidate
from agents.models.base import ChatReply
from agents.texts.replies import json_object
from agents.texts.text import one_line
from agents.turn import Candidate

Tool = Literal["image_search", "web_search"]
Fractions = tuple[float, float, float, float]
"""Left, top, right and lower edge in fractions of width and height."""

_MIN_SIDE = 0.02  # of a box; a smaller one shows nothing
_THOUSANDTHS = 1000.0  # unit of boxes in some model families
_EDGES = 4
_MAX_QUERY = 300  # characters


@dataclass(frozen=True)
class AgentStep:
    """A call of a tool, or an answer.

    Attributes:
        tool: The tool to call; None for an answer, and for a reply that calls nothing known.
        box: Part of the photo to search with; None: the whole photo.
        query: Query for the web.
        candidate: The answer, if the reply has one.
    """

    tool: Tool | None = None
    box: Fractions | None = None
    query: str = ""
    candidate: Candidate | None = None


def read_step(reply: ChatReply) -> AgentStep:
    """Read a step. A reply without a JSON object is an answer, as it is."""
    if reply.finish_reason == "error":
        return AgentStep()
    fields = json_object(reply.text)
    if fields is None:
        return AgentStep(candidate=None if "{" in reply.text else read_candidate(reply))
    said = fields.get("answer")
    candidate = candidate_from(reply, said, begins=False) if isinstance(said, str) else None
    query = one_line(value)[:_MAX_QUERY] if isinstance(value := fields.get("query"), str) else ""
    tool = fields.get("tool")
    if tool not in get_args(Tool) or (tool == "web_search" and not query):
        return AgentStep(candidate=candidate)
    box = _read_box(fields) if tool == "image_search" else None
    return AgentStep(cast(Tool, tool), box, query if tool == "web_search" else "", candidate)


def _read_box(fields: Mapping[str, Any]) -> Fractions | None:
    """Read a box in fractions or thousandths, clipped to the photo; None for the whole photo, and for a box that shows nothing."""
    value = fields.get("box")
    if not isinstance(value, list) or not all(isinstance(each, int | float) for each in value):
        return None
    unit = _THOUSANDTHS if any(each > 1 for each in value) else 1.0
    edges = [min(max(float(each) / unit, 0.0), 1.0) for each in value]
    if len(edges) != _EDGES:
        return None
    left, top, right, bottom = edges
    return (left, top, right, bottom) if right - left > _MIN_SIDE and bottom - top > _MIN_SIDE else None


AGENT_STEP = ReplyForm(
    "step of an agent", read_step, lambda step, _: step.tool is not None or step.candidate is not None
)
