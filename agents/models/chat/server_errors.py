"""Errors of an OpenAI-compatible server, and whether another try can help."""

import json
import re
from collections.abc import Collection
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import openai

from agents.models.base import ModelError
from agents.models.chat.connection_errors import explain_connection, list_causes
from agents.models.chat.error_bodies import MAX_CHARACTERS, ErrorBody, clean_message, parse_error_body, parse_wait

_PICTURES = re.compile(r"\b(?:images?|multi-?modal|vision|mmproj)\b|image_url", re.IGNORECASE)
_TAKES_NONE = re.compile(
    r"(?:images?|vision|multi-?modal)[^.]{0,60}\bnot\b[^.]{0,20}support|not (?:a )?multi-?modal|"
    r"(?:not|n't) support[^.]{0,40}(?:images?|vision|multi-?modal)|mmproj|(?:support|required for) image input",
    re.IGNORECASE,
)
"""Ways to say that a model takes no picture; some servers say so with a status that means something else."""
_TOO_MANY_PICTURES = re.compile(r"at most (\d+) image|set image=(\d+)", re.IGNORECASE)
"""How vLLM says how many pictures a prompt may have."""
_TOO_LARGE = re.compile(r"too (?:long|large)", re.IGNORECASE)
"""Complaints of a text or a body, whatever it is measured in."""
_TOO_MANY_TOKENS = re.compile(
    r"context[ _](?:length|size|window)|maximum (?:context|model length)|too many tokens|n_ctx|max_new_tokens|"
    r"(?:prompt|input|tokens?\b)[^.]{0,60}(?:exceed|longer than|too (?:long|large))|exceed_context",
    re.IGNORECASE,
)
"""Ways to say that prompt and reply are longer than the model's context."""
_MINUTE_TOO_SMALL = re.compile(r"request too large[^:]{0,200}\btokens", re.IGNORECASE)
"""A prompt beyond all tokens of a minute, which some servers say with 429 although no pause helps."""
_ROLES = re.compile(
    r"\b(?:system|developer|assistant)\b[^.]{0,40}\broles?\b|\broles?\b[^.]{0,60}\b(?:system|developer|assistant)\b|"
    r"\b(?:system|developer) (?:message|prompt|instruction)s?\b",
    re.IGNORECASE,
)
"""Complaints of a chat template or a server that takes no system message."""
_OUT_OF_TOKENS = ("could not finish the message because max_tokens", "output limit was reached")
"""How OpenAI's server says, with 400, that a model that reasons has no token left for its reply."""
_FILTERED = re.compile(
    r"content_filter\b|content_policy_violation|ResponsibleAIPolicyViolation|data_?inspection_?failed|input was flagged",
    re.IGNORECASE,
)
"""Names of a prompt or a reply that a server's content filter withholds, such as Azure's."""
_BAD_KEY = ("invalid_api_key", "api_key_invalid", "authentication_error", "api key not valid")
_NO_CREDIT = (
    *("insufficient_quota", "insufficient credit", "insufficient balance", "credit balance is too low"),
    *("credit_limit", "budget_exceeded"),
)
_NO_MODEL = ("model_not_found", "unexpected endpoint")
_REFUSALS = (_FILTERED, _TAKES_NONE, _ROLES, _MINUTE_TOO_SMALL)
"""Complaints of a request, whatever the status that they come with."""
_BUSY = (408, 409, 429)
_RESET = re.compile(r"x-ratelimit-reset(-.+)?", re.IGNORECASE)  # of requests, of tokens, or of all


class TransientError(Exception):
    """A failure that a retry may solve: 429, 5xx, a broken or garbled connection; ``after``: seconds that the server asks to wait."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class UnknownModelError(ModelError):
    """The server does not know the model, or the path."""


class RefusedError(Exception):
    """The server refuses the request as it is (400, 422); ``body`` has its complaint."""

    def __init__(self, body: ErrorBody) -> None:
        limit = _TOO_MANY_PICTURES.search(body.words)
        number = limit and (limit[1] or limit[2])
        cure = f" Show it fewer pictures: --set limits.pictures={number}" if number else ""
        super().__init__(f"The server refuses the request: {clean_message(body.message)}{cure}")
        self.body = body

    @property
    def complaint(self) -> str:
        """The parameter that the server names, or all that it says."""
        return self.body.parameter or self.body.message

    @property
    def is_of_content(self) -> bool:
        """True if the server complains of the messages, so that no other parameter would help."""
        patterns = (_PICTURES, _TOO_LARGE, _TOO_MANY_TOKENS, _FILTERED)
        return self.is_of_tokens or any(pattern.search(self.body.words) for pattern in patterns)

    @property
    def is_filtered(self) -> bool:
        """True if a content filter withholds the prompt: the server declines to answer."""
        return _FILTERED.search(self.body.words) is not None

    @property
    def is_too_long(self) -> bool:
        """True if the server's context is too short for the prompt and its reply."""
        return any(pattern.search(self.body.words) for pattern in (_TOO_MANY_TOKENS, _MINUTE_TOO_SMALL))

    @property
    def is_of_roles(self) -> bool:
        """True if the server complains of a message's role: some models take no system message."""
        return _ROLES.search(self.body.words) is not None

    @property
    def is_of_tokens(self) -> bool:
        """True if the model ended in its thoughts, before the first word of a reply."""
        return _says(self.body, _OUT_OF_TOKENS)


def _says(body: ErrorBody, phrases: Collection[str]) -> bool:
    """Return whether a server says one of some phrases, in any case."""
    words = body.words.lower()
    return any(phrase in words for phrase in phrases)


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
    for cause in list_causes(error):
        if isinstance(cause, TransientError | ModelError):
            return cause
    if not isinstance(error, openai.APIError) or isinstance(error, openai.APIConnectionError):
        if isinstance(error, json.JSONDecodeError) and error.doc.strip():
            return TransientError(f"The server's reply is no JSON: {clean_message(error.doc)}")
        if isinstance(error, ValueError | TypeError | AttributeError | LookupError):
            return TransientError(f"The server's reply cannot be read ({type(error).__name__}): {clean_message(error)}")
        return TransientError(explain_connection(error, address))
    body, status = _parse(error)
    says = f"It says{f' ({status})' if status else ''}: {clean_message(body.message)}"
    if status == 402 or _says(body, _NO_CREDIT):
        return ModelError(
            f"The account at {address} has no credit left: add some, or set {key_variable} to another key. {says}"
        )
    named = any(names_parameter(body.words, name) for name in parameters)
    is_forbidden = status == 403 and not named and not _FILTERED.search(body.words)
    if status == 401 or is_forbidden or _says(body, _BAD_KEY):  # some refuse a parameter with 403
        return ModelError(
            f"The server at {address} refuses the key: set the environment variable {key_variable} to a valid one. {says}"
        )
    if any(pattern.search(body.words) for pattern in _REFUSALS):
        return RefusedError(body)
    if status == 404 or _says(body, _NO_MODEL):
        return UnknownModelError(
            f"The server does not know model {model!r}, or {address} is not the root of its API (it usually ends in /v1). {says}"
        )
    if status is None:
        return TransientError(f"The server sends an error: {clean_message(body.message)}", body.wait)
    if status not in _BUSY and _TOO_MANY_TOKENS.search(body.words):
        return RefusedError(body)
    if status in _BUSY or status >= 500:
        wait = _parse_retry_after(error) or (_parse_resets(error) if status == 429 else 0.0) or body.wait
        return TransientError(f"The server answers {status}: {clean_message(body.message)}", wait)
    return RefusedError(body)


def _parse(error: openai.APIError) -> tuple[ErrorBody, int | None]:
    """Parse an error, and return its status or the one that it names: in a stream, and behind some gateways, errors come with 200."""
    if isinstance(error, openai.APIStatusError):
        body = parse_error_body(error.response.text[:MAX_CHARACTERS])
        return body, error.status_code
    body = parse_error_body(error.body)
    refuses = any(pattern.search(body.words) for pattern in (*_REFUSALS, _TOO_MANY_TOKENS))
    return body, body.status or (400 if refuses else None)


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


def _parse_resets(error: openai.APIError) -> float:
    """Parse when the limits that are used up are reset, which some servers say in place of ``retry-after``.

    Returns:
        The seconds until the last of them is, or 0 if there is no such header or it cannot be read.
    """
    headers = error.response.headers if isinstance(error, openai.APIStatusError) else {}
    waits = [0.0]
    for name, text in headers.items():
        limit = _RESET.fullmatch(name)
        if limit is not None and headers.get(f"x-ratelimit-remaining{limit[1] or ''}", "0").strip() == "0":
            waits.append(parse_wait(text))
    return max(waits)
