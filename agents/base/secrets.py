"""Removes API keys from logs, traces and error messages.

Keys are the values of environment variables that are named like one, values registered by ``remember``, tokens behind
``Authorization: Bearer``, likely tokens behind another ``Bearer``, and user and password of a URL.
"""

import logging
import os
import re
import traceback
from collections.abc import Callable
from typing import Any

_KEY_NAME = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD)$", re.IGNORECASE)
_SHORTEST = 8  # shorter values ("none", "EMPTY") are no secrets, and would be found in ordinary words
_TOKEN_CHARACTER = r"[^\s\"',;()\[\]{}<>\\]"
_BEARER = re.compile(
    # The name of a header may be quoted, as in JSON, or be bytes, as in a traceback.
    rf"((?i:\bAuthorization\W{{1,8}}(?:b\W)?Bearer[ \t]{{1,4}})){_TOKEN_CHARACTER}+"
    # Elsewhere a digit beside a letter, or capitals inside, tell a token from a word: people ask about flag bearers, and McDonald is one.
    rf"|((?i:\bBearer[ \t]{{1,4}}))(?:(?={_TOKEN_CHARACTER}*[0-9])(?={_TOKEN_CHARACTER}*[A-Za-z])"
    rf"|(?=(?:{_TOKEN_CHARACTER}{{0,200}}?[a-z][A-Z]){{2}})){_TOKEN_CHARACTER}{{8,}}"
)
_IN_URL = re.compile(r"(?<=://)[^\s/?#@\"']{1,200}@")
_MASK = "***"
_told: set[str] = set()


def remember(value: str | None) -> None:
    """Treat a value as a key, whatever the name of its variable or its source."""
    if value and len(value) >= _SHORTEST:
        _told.add(value)


def scrub(text: str) -> str:
    """Replace the keys in a text by ``***``."""
    return scrubber()(text)


def scrub_json(value: Any) -> Any:
    """Replace the keys in the texts of a parsed JSON value. To scrub its serialised text instead could break the JSON."""
    clean = scrubber()

    def scrub_inner(inner: Any) -> Any:
        if isinstance(inner, dict):
            return {clean(name): scrub_inner(each) for name, each in inner.items()}
        if isinstance(inner, list):
            return [scrub_inner(each) for each in inner]
        return clean(inner) if isinstance(inner, str) else inner

    return scrub_inner(value)


def scrubber() -> Callable[[str], str]:
    """``scrub`` with the keys known now, for many texts: to read the environment takes longer than a text."""
    keys = _collect_keys()

    def clean(text: str) -> str:
        for value in keys:
            if value in text:
                text = text.replace(value, _MASK)
        if "earer" in text.lower():
            text = _BEARER.sub(rf"\1\2{_MASK}", text)
        return _IN_URL.sub(f"{_MASK}@", text) if "://" in text else text

    return clean


def _collect_keys() -> list[str]:
    """Collect the keys, longest first: one may begin like another."""
    named = (value for name, value in os.environ.items() if len(value) >= _SHORTEST and _KEY_NAME.search(name))
    return sorted({*named, *_told}, key=len, reverse=True)


def keep_out_of_logs() -> None:
    """Scrub every log record of this process from now on, whichever library creates it; further calls do nothing.

    Messages are scrubbed with their arguments filled in, tracebacks with the texts of all exceptions in their chain.
    """
    if not isinstance(logging.getLogRecordFactory(), _Factory):
        logging.setLogRecordFactory(_Factory(logging.getLogRecordFactory()))


class _Factory:
    """Log record factory that wraps another one and removes keys from its records."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._before(*args, **kwargs)
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - wrong arguments: logging itself will complain of them, and must not be kept from it
            return record
        plain = scrub(message)
        if plain != message:
            record.msg, record.args = plain, ()
        if record.exc_info and record.exc_info[0] is not None:
            traceback_text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (plain := scrub(traceback_text)) != traceback_text:
                record.exc_text = plain  # formatters take it instead of formatting the exception again
        return record
