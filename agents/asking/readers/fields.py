"""Replies with names, queries or choices: JSON objects under a schema, and lists in free text."""

from agents.asking.ask import ReplyForm
from agents.models.base import ChatReply
from agents.texts.replies import json_object, parse_list, strings, was_cut


def texts_at(key: str, limit: int) -> ReplyForm[list[str]]:
    """Define a form of reply: the distinct strings of one JSON field, at most ``limit``."""

    def parse(reply: ChatReply) -> list[str]:
        return strings((json_object(reply.text) or {}).get(key), limit)

    return ReplyForm(f"JSON: {key}", parse, lambda texts, _: bool(texts))


def number_at(key: str) -> ReplyForm[int | None]:
    """Define a form of reply: the whole number in one JSON field, or None."""

    def parse(reply: ChatReply) -> int | None:
        value = (json_object(reply.text) or {}).get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    return ReplyForm(f"JSON: {key}", parse)


def truths_at(*keys: str) -> ReplyForm[tuple[bool | None, ...]]:
    """Define a form of reply: the booleans in several JSON fields, None for a field without one."""

    def parse(reply: ChatReply) -> tuple[bool | None, ...]:
        content = json_object(reply.text) or {}
        return tuple(value if isinstance(value := content.get(key), bool) else None for key in keys)

    return ReplyForm(f"JSON: {', '.join(keys)}", parse, lambda truths, _: None not in truths)


QUERIES = "queries"
"""Form of a reply with queries."""


def queries_form(limit: int) -> ReplyForm[list[str]]:
    """Return a form of at most ``limit`` queries: ``queries`` of a JSON object, else the items of a list in free text."""

    def parse(reply: ChatReply) -> list[str]:
        content = json_object(reply.text) or {}
        if "queries" in content:
            return strings(content["queries"], limit)
        return parse_list(reply.text, limit, cut=was_cut(reply))

    return ReplyForm(QUERIES, parse, lambda queries, _: bool(queries))
