"""What a model says of a picture before anything is searched: a JSON object (``prompts/look.j2``)."""

from dataclasses import dataclass
from typing import Any, get_args

from agents.asking.ask import ReplyForm
from agents.asking.readers.drafts import known_name
from agents.models.base import ChatReply
from agents.texts.replies import json_object, strings, was_cut
from agents.texts.text import one_line
from agents.turn import Draft, Look, Needs

_KINDS = {kind: kind for kind in get_args(Needs)}


@dataclass(frozen=True)
class Looked:
    """A first look, what it shows in one sentence, and the answer that it would give."""

    look: Look
    summary: str = ""
    draft: Draft | None = None  # None where the reply says no answer


def looked(reply: ChatReply, max_queries: int) -> Looked:
    """The fields that a reply holds; of one that was cut the last query is left out, since words of it may be missing."""
    found = json_object(reply.text) or {}

    def text(key: str) -> str:
        value: Any = found.get(key)
        return one_line(value) if isinstance(value, str) else ""

    queries = strings(found.get("queries", []), max_queries + 1)
    if was_cut(reply):
        queries = queries[:-1]
    name = known_name(text("name"))
    look = Look(_KINDS.get(text("needs").lower()), text("object") or None, name, tuple(queries[:max_queries]))
    reason, answer = text("reason"), text("answer")
    draft = Draft((reason,) if reason else (), name, answer) if answer else None
    return Looked(look, text("shows"), draft)


def _says_enough(said: Looked, _: ChatReply) -> bool:
    return said.look.needs is not None and bool(said.look.object) and said.draft is not None and bool(said.look.queries)


def look_of(max_queries: int) -> ReplyForm[Looked]:
    """A first look with at most so many queries."""
    return ReplyForm("look", lambda reply: looked(reply, max_queries), _says_enough)
