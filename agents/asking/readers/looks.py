"""What a model says of a picture before anything is searched: a JSON object (``prompts/look.j2``)."""

from dataclasses import dataclass
from typing import Any, get_args

from agents.asking.ask import ReplyForm
from agents.asking.readers.drafts import extract_name
from agents.models.base import ChatReply
from agents.texts.replies import json_object, strings, was_cut
from agents.texts.text import one_line
from agents.turn import Draft, Look, Needs

MAX_QUERIES = 2
"""The prompt asks for two. Its schema says so too, but not every engine keeps to a schema."""

_KINDS = {kind: kind for kind in get_args(Needs)}
_LINES = ";"  # what the prompt asks for between lines of text


@dataclass(frozen=True)
class FirstLook:
    """A first look, the text that was read in the photo, and the answer that the model would give."""

    look: Look
    text: str = ""  # "" where the question is not about text in the photo
    draft: Draft | None = None  # None where the reply gives no answer


def parse_look(reply: ChatReply) -> FirstLook:
    """Parse the fields of a reply; one that was cut keeps the fields before the one in which it ends."""
    fields = json_object(reply.text) or {}
    if was_cut(reply) and not reply.text.rstrip().endswith("}"):
        fields = _drop_last_value(fields)

    def text(key: str) -> str:
        value: Any = fields.get(key)
        return one_line(value) if isinstance(value, str) else ""

    name, answer = extract_name(text("name")), text("answer")
    # Some models end a query as the prompt has them end the lines of the text
    queries = (query.rstrip(" ;") for query in strings(fields.get("queries", []), MAX_QUERIES))
    look = Look(_KINDS.get(text("needs").lower()), text("object") or None, name, tuple(filter(None, queries)))
    return FirstLook(look, text("text"), Draft((), name, answer) if answer else None)


def _drop_last_value(fields: dict[str, Any]) -> dict[str, Any]:
    """Drop the last value of a reply that was cut: half a name or figure is another one. Lists and lines lose their last item alone."""
    *whole, last = fields.items() or [("", "")]
    key, value = last
    if isinstance(value, list):
        return dict([*whole, (key, value[:-1])])
    if key == "text" and isinstance(value, str):
        return dict([*whole, (key, value.rpartition(_LINES)[0])])
    return dict(whole)


def _is_complete(first_look: FirstLook, _: ChatReply) -> bool:
    return (
        first_look.look.needs is not None
        and bool(first_look.look.object)
        and first_look.draft is not None
        and bool(first_look.look.queries)
    )


LOOK = ReplyForm("look", parse_look, _is_complete)
