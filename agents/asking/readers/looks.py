"""A model's look at a picture before any search: a JSON object (``prompts/look.j2``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from agents.asking.ask import ReplyForm
from agents.asking.readers.drafts import extract_name
from agents.models.base import ChatReply
from agents.models.vision.model_boxes import Corners, find_corners
from agents.texts.replies import json_object, strings, was_cut
from agents.texts.text import one_line
from agents.turn import Draft, Look, Needs, Position, Thing

MAX_THINGS = 3
MAX_QUERIES = 3
"""Both as the prompt and its schema say, but not every engine keeps to a schema."""

_NEEDS: Mapping[str, Needs] = {"picture": "picture", "search": "both", "now": "now"}


@dataclass(frozen=True)
class FirstLook:
    """A first look, and the answer that the model would give."""

    look: Look
    draft: Draft | None = None  # None where the reply gives no answer
    corners: tuple[Corners | None, ...] = ()  # numbers of a box for each thing of the look, in the model's own form


def parse_look(reply: ChatReply) -> FirstLook:
    """Parse the fields of a reply; a truncated reply keeps the fields before its last one."""
    fields = json_object(reply.text) or {}
    if was_cut(reply) and not reply.text.rstrip().endswith("}"):
        fields = _drop_last_value(fields)
    listed = fields.get("things")
    things = [_read_thing(each) for each in (listed if isinstance(listed, list) else [listed])[:MAX_THINGS]]
    found = [each for each in things if each is not None]
    # Some models end a query as a list in a sentence ends its items
    queries = (query.rstrip(" ;") for query in strings(fields.get("queries", []), MAX_QUERIES))
    look = Look(
        _NEEDS.get(_text(fields, "needs").lower()),
        tuple(thing for thing, _ in found),
        tuple(filter(None, queries)),
        _text(fields, "question") or None,
        by_model=True,
    )
    answer = _text(fields, "answer")
    return FirstLook(look, Draft((), look.name, answer) if answer else None, tuple(corners for _, corners in found))


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return one_line(value) if isinstance(value, str) else ""


def _read_thing(value: Any) -> tuple[Thing, Corners | None] | None:
    """Read one thing and the numbers of its box: its table, or its phrase alone; None for anything else."""
    fields = value if isinstance(value, Mapping) else {"what": value}
    name, place = extract_name(_text(fields, "name")), _text(fields, "where").lower()
    phrase = _text(fields, "what") or name
    position: Position | None = next((each for each in get_args(Position) if each == place), None)
    return (Thing(phrase, position, name), find_corners(fields)) if phrase else None


def _drop_last_value(fields: dict[str, Any]) -> dict[str, Any]:
    """Drop the last value of a truncated reply: half a name or figure is another one. Lists lose their last item alone."""
    *whole, last = fields.items() or [("", "")]
    key, value = last
    return dict([*whole, (key, value[:-1])]) if isinstance(value, list) else dict(whole)


def _is_complete(first_look: FirstLook, _: ChatReply) -> bool:
    return first_look.look.needs is not None and first_look.draft is not None


LOOK = ReplyForm("look", parse_look, _is_complete)
