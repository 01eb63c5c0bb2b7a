"""What went wrong at an OpenAI-compatible server, and whether asking again can help."""

import re
from collections.abc import Collection
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import openai

from agents.base.secrets import scrub
from agents.models.base import ModelError

MESSAGE_CHARACTERS = 300
"""Longest part of a server's complaint that is shown."""

_PICTURES = re.compile(r"\b(?:images?|multi-?modal|vision|mmproj)\b|image_url", re.IGNORECASE)
_TAKES_NONE = re.compile(
    r"(?:images?|vision|multi-?modal)[^.]{0,60}\bnot\b[^.]{0,20}support|not (?:a )?multi-?modal|"
    r"(?:not|n't) support[^.]{0,40}(?:images?|vision|multi-?modal)|mmproj|support image input",
    re.IGNORECASE,
)
"""Ways to say that a model takes no picture; some servers say so with a status that means something else."""
_TOO_LARGE = re.compile(r"too (?:long|large)", re.IGNORECASE)
"""Complaints of a text or a body, whatever it is measured in."""
_TOO_MANY_TOKENS = re.compile(
    r"context[ _](?:length|size|window)|maximum (?:context|model length)|too many tokens|n_ctx|max_new_tokens|"
    r"(?:prompt|input|tokens?\b)[^.]{0,60}(?:exceed|longer than|too (?:long|large))",
    re.IGNORECASE,
)
"""Ways to say that prompt and reply are longer than the model's context."""
_ROLES = re.compile(
    r"\b(?:system|developer|assistant)\b[^.]{0,40}\broles?\b|\broles?\b[^.]{0,60}\b(?:system|developer|assistant)\b|"
    r"\b(?:system|developer) (?:message|prompt|instruction)s?\b",
    re.IGNORECASE,
)
"""Complaints of a chat template or a server that takes no system message."""
_OUT_OF_TOKENS = re.compile(r"could not finish the message because max_tokens|output limit was reached", re.IGNORECASE)
"""How OpenAI's server says, with 400, that a model that reasons has no token left for its reply."""
_BUSY = (408, 409, 429)
_STATUSES = {"invalid_api_key": 401, "model_not_found": 404, "insufficient_quota": 429, "rate_limit_exceeded": 429}
"""Statuses that OpenAI's codes of errors come with."""


class TransientError(Exception):
    """A failure that a retry may solve: 429, 5xx, a broken or garbled connection; ``after``: seconds that the server asks to wait."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class RefusedError(Exception):
    """The server refuses the request as it is (400, 422).

    ``complaint`` is the parameter that it names, or all that it says; ``message`` is its own message.
    """

    def __init__(self, text: str, complaint: str = "", message: str = "") -> None:
        super().__init__(text)
        self.complaint, self.message = complaint, message

    @property
    def is_of_pictures(self) -> bool:
        """True if the server complains of a picture."""
        return _PICTURES.search(str(self)) is not None

    @property
    def is_of_content(self) -> bool:
        """True if the server complains of the messages, so that no other parameter would help."""
        return self.is_of_pictures or self.is_of_tokens or self.is_too_long or _TOO_LARGE.search(str(self)) is not None

    @property
    def is_too_long(self) -> bool:
        """True if the server's context is too short for the prompt and its reply."""
        return _TOO_MANY_TOKENS.search(str(self)) is not None

    @property
    def is_of_roles(self) -> bool:
        """True if the server complains of a message's role: some models take no system message."""
        return _ROLES.search(str(self)) is not None

    @property
    def is_of_tokens(self) -> bool:
        """True if the model ended in its thoughts, before the first word of a reply."""
        return _OUT_OF_TOKENS.search(str(self)) is not None


def names_parameter(complaint: str, name: str) -> bool:
    """Return whether a complaint names a parameter; ``max_tokens`` is not named by ``max_completion_tokens``."""
    return re.search(rf"\b{name}\b", complaint, re.IGNORECASE) is not None


def translate_error(
    error: Exception, parameters: Collection[str], *, model: str, address: str, key_variable: str
) -> Exception:
    """Translate an error of the client into one of ours.

    Args:
        error: Error of the client, or of the transport below it.
        parameters: Names of the parameters of the request.
        model: Name of the model.
        address: Root of the API.
        key_variable: Environment variable with the key.

    Returns:
        ``TransientError``, ``RefusedError``, or ``ModelError`` if the server will answer no request at all.
    """
    message = clean_message(error)
    if not isinstance(error, openai.APIError) or (status := _find_status(error)) is None:
        what = "The server sends an error" if _has_body(error) else f"The connection failed ({type(error).__name__})"
        return TransientError(f"{what}: {message}")
    if error.code == "insufficient_quota":
        return ModelError(
            f"The account at {address} has no credit left: add some, or set {key_variable} to another key. It says: {message}"
        )
    named = any(names_parameter(str(error), name) for name in parameters)
    if status in (401, 403) and not (status == 403 and named):  # some refuse a parameter with 403
        return ModelError(
            f"The server at {address} refuses the key: set the environment variable {key_variable} to a valid one. It says: {message}"
        )
    if _TAKES_NONE.search(str(error)) or _ROLES.search(str(error)):
        return _refusal(error)
    if status == 404:
        return ModelError(
            f"The server does not know model {model!r}, or {address} is not the root of its API (it usually ends in /v1). "
            f"It says: {message}"
        )
    if status in _BUSY or status >= 500:
        return TransientError(f"The server answers {status}: {message}", _parse_retry_after(error))
    return _refusal(error)


def _find_status(error: openai.APIError) -> int | None:
    """Return the status of an error, or the one that it states: in a stream, and behind some gateways, errors come with 200."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code
    body = error.body if isinstance(error.body, dict) else {}
    for text in (str(body.get("code")), str(body.get("status"))):
        if text in _STATUSES:
            return _STATUSES[text]
        if text.isdecimal() and int(text) >= 400:
            return int(text)
    refuses = any(pattern.search(str(error)) for pattern in (_TAKES_NONE, _TOO_MANY_TOKENS, _ROLES))
    return 400 if refuses else None


def _has_body(error: Exception) -> bool:
    return isinstance(error, openai.APIError) and error.body is not None


def clean_message(error: BaseException | str) -> str:
    """Shorten a message and remove the key, which some servers repeat."""
    return scrub(str(error))[:MESSAGE_CHARACTERS]


def _refusal(error: openai.APIError) -> RefusedError:
    """Convert an error that says what is wrong with a request."""
    server_text = error.body.get("message") if isinstance(error.body, dict) else None
    return RefusedError(
        f"The server refuses the request: {clean_message(error)}",
        str(error.param or error),
        str(server_text or error),
    )


def _parse_retry_after(error: openai.APIError) -> float:
    """Parse how long the server asks to wait: seconds, milliseconds in ``retry-after-ms``, or a date.

    Returns:
        The seconds, or 0 if there is no such header or it cannot be read.
    """
    if not isinstance(error, openai.APIStatusError):
        return 0.0
    headers = error.response.headers
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        pass
    text = headers.get("retry-after", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):  # no date, or one without a time zone
        return 0.0
