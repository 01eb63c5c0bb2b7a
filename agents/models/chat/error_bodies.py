"""Words of a server's error, whatever form they come in: JSON objects, lists and strings, JSON in a string, plain text, pages of HTML."""

import contextlib
import html
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from agents.base.secrets import scrub

MESSAGE_CHARACTERS = 300
"""Longest part of a server's complaint to show."""

MAX_CHARACTERS = 100_000
"""Characters of a body to read."""

_MAX_FIELDS, _MAX_DEPTH, _FIELD_CHARACTERS = 200, 12, 20_000
_WORDS = ("", "message", "msg", "error", "errors", "detail", "error_message", "raw")
"""Fields with words for people; a body that is a string or a list of them has no names. ``raw`` is the error behind a router."""

_CODES = ("code", "type", "status", "statusCode", "reason", "error_type")
_WAITS = ("retryDelay", "retry_after", "retryAfter", "retry_after_seconds", "X-RateLimit-Reset")
_FIRST_TIME = (
    1e9  # a larger number of seconds is a time since 1970, and a larger one than a hundred times that has milliseconds
)
_STATUSES = {
    "invalid_api_key": 401,
    "authentication_error": 401,
    "unauthenticated": 401,
    "model_not_found": 404,
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "overloaded_error": 529,
}
"""Statuses that names of errors come with, for errors behind status 200."""

_MARKUP_CHARACTERS = 10_000  # of a page that are searched for its words
_MARKUP = re.compile(r"<(style|script)\b(?:.*?</\1\s*>|.*)|<!--(?:.*?-->|.*)|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_TIMES = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "": 1.0}
_ASKS_TO_WAIT = re.compile(
    r"(?:retry|try again|wait)\s+(?:in|after|for)\s+(?:about\s+)?((?:\d+(?:\.\d+)?\s*[a-z]{1,12}\s*){1,4})",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ErrorBody:
    """An error as a server describes it."""

    message: str  # its words in one line; all of the body if it has no field for them
    codes: tuple[str, ...] = ()  # names and numbers of the error, outer ones first
    parameter: str = ""  # the request's field to blame
    wait: float = 0.0  # seconds until the server wants to be asked again; 0 if it does not say

    @property
    def words(self) -> str:
        """Message and codes, for patterns."""
        return f"{self.message} {' '.join(self.codes)}"

    @property
    def status(self) -> int | None:
        """Status of HTTP that belongs to the codes, of errors sent with another one; None if they say nothing."""
        for code in self.codes:
            if code.lower() in _STATUSES:
                return _STATUSES[code.lower()]
            if re.fullmatch("[45][0-9]{2}", code):
                return int(code)
        return None


def parse_error_body(body: Any) -> ErrorBody:
    """Parse the body of an error: text, or JSON that has been parsed already."""
    fields = list(islice(_list_fields(body, ""), _MAX_FIELDS))
    texts = dict.fromkeys(text for name, text in fields if name in _WORDS and text)
    message = "; ".join(texts) or _flatten("" if isinstance(body, str) else json.dumps(body)) or "(no message)"
    waits = [parse_wait(text) for name, text in fields if name in _WAITS]
    asked = _ASKS_TO_WAIT.search(message)
    return ErrorBody(
        message,
        tuple(text for name, text in fields if name in _CODES),
        next((text for name, text in fields if name == "param" and text), ""),
        next(filter(None, waits), _parse_seconds(asked[1]) if asked else 0.0),
    )


def clean_message(error: BaseException | str) -> str:
    """Put a message into one line, shorten it and remove the key, which some servers repeat."""
    return scrub(_flatten(str(error)))[:MESSAGE_CHARACTERS]


def _list_fields(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of all fields, outer ones first. Items of a list have the list's name."""
    if depth > _MAX_DEPTH or value is None or isinstance(value, bool):
        return
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value[:MAX_CHARACTERS])
    if isinstance(value, dict):
        if "loc" in value and "msg" in value:  # FastAPI's: the message does not say which field it is about
            place = ".".join(map(str, value["loc"])) if isinstance(value["loc"], list) else value["loc"]
            yield from (("msg", f"{place}: {value['msg']}"), ("param", str(place)))
            return
        for key, inner in sorted(value.items(), key=lambda item: isinstance(item[1], dict | list)):
            yield from _list_fields(inner, key, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_fields(inner, name, depth + 1)
    else:
        yield name, _flatten(str(value))


def _flatten(text: str) -> str:
    """Return a text without markup, in one line of printable characters."""
    text = text[:_FIELD_CHARACTERS]
    if text.lstrip()[:1] == "<":
        lines = _MARKUP.sub("\n", text[:_MARKUP_CHARACTERS]).split("\n")
        text = html.unescape(" ".join(dict.fromkeys(map(str.strip, lines))))  # a heading often repeats the title
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def parse_wait(text: str) -> float:
    """Parse how long a server wants not to be asked, in seconds: a duration, or a time since 1970; 0 if it is neither."""
    seconds = _parse_seconds(text)
    if seconds < _FIRST_TIME:
        return seconds
    return max(0.0, (seconds / 1000 if seconds > 100 * _FIRST_TIME else seconds) - time.time())


def _parse_seconds(text: str) -> float:
    """Parse a duration such as "39s", "1m30s", "250ms", "21 seconds" or "2.5"; 0 if it is none."""
    seconds = 0.0
    for number, unit in _TIMES.findall(text):
        is_thousandth = unit.lower().startswith(("ms", "mil"))
        seconds += float(number) * (0.001 if is_thousandth else _UNITS.get(unit[:1].lower(), 0.0))
    return seconds
