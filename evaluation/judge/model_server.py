"""A chat model behind an OpenAI-compatible server that judges or grades: its key, its errors, and patience with a busy server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import openai
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from agents.secrets import remember, scrubbed
from evaluation.records import JudgeError

SERVER_TRIES = 6
"""How often a server that is busy or does not answer is tried, with growing pauses."""

TIMEOUT_SECONDS = 60.0
LONGEST_PAUSE = 60.0
_PASSING = (openai.RateLimitError, openai.APITimeoutError, openai.APIConnectionError, openai.InternalServerError)

Wait = Callable[[RetryCallState], float]


class ModelServer:
    """Asks one model.

    Args:
        model: Model name, as the server knows it.
        without: What to do without a key, for the error message.
        base_url: Server; ``OPENAI_BASE_URL`` or OpenAI's own where None.
        api_key: ``OPENAI_API_KEY`` where None. A server of one's own often needs none.
        wait: Pause before a server is tried again, in tenacity's terms; a ``Retry-After`` of the server is respected.

    Raises:
        JudgeError: There is no key for OpenAI's own server.
    """

    def __init__(
        self,
        model: str,
        without: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        wait: Wait | None = None,
    ) -> None:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
        if key is None:
            raise JudgeError(f"{model} needs a key: set OPENAI_API_KEY, or use {without}")
        remember(key)
        self.model = model
        self._client = openai.OpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=timeout)
        self._wait = wait or wait_exponential_jitter(initial=1.0, max=LONGEST_PAUSE)

    def complete(self, request: dict[str, Any]) -> str:
        """The reply to a request of the chat completions API; "" where there is none.

        Raises:
            JudgeError: The key is refused, the model is unknown, or the server does not answer.
        """
        retrying = Retrying(
            stop=stop_after_attempt(SERVER_TRIES),
            wait=self._pause,
            retry=retry_if_exception_type(_PASSING),
            reraise=True,
        )
        try:
            return retrying(self._complete_once, request)
        except openai.OpenAIError as error:
            raise JudgeError(f"{_complaint(error, self.model)}: {_first_line(error)}") from None

    def _complete_once(self, request: dict[str, Any]) -> str:
        try:
            completion = self._client.chat.completions.create(**request)
        except openai.BadRequestError as error:
            if "response_format" not in request or "response_format" not in str(error):
                raise
            # a server that knows no structured outputs: the prompt asks for the JSON object as well
            without = {name: value for name, value in request.items() if name != "response_format"}
            completion = self._client.chat.completions.create(**without)
        except json.JSONDecodeError:
            return ""  # the server's reply is no JSON at all: asked for again as no verdict
        choices = getattr(completion, "choices", None)
        return (choices[0].message.content or "") if choices else ""

    def _pause(self, state: RetryCallState) -> float:
        pause = self._wait(state)
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, openai.APIStatusError):
            try:
                asked = float(error.response.headers.get("retry-after", ""))
            except ValueError:
                return pause
            return min(max(pause, asked), LONGEST_PAUSE)
        return pause


def _complaint(error: openai.OpenAIError, model: str) -> str:
    if isinstance(error, openai.AuthenticationError):
        return "the judge's server refuses the key (OPENAI_API_KEY)"
    if isinstance(error, openai.PermissionDeniedError):
        return f"the key may not use {model}"
    if isinstance(error, openai.NotFoundError):
        return f"the judge's server has no model {model}"
    if isinstance(error, _PASSING):
        return f"the judge's server did not answer after {SERVER_TRIES} tries (what was judged is kept: evaluate again to go on)"
    return "the judge's server"


def _first_line(error: Exception) -> str:
    """The complaint's first line, without the key, which some servers repeat."""
    return scrubbed((str(error).strip().splitlines() or [type(error).__name__])[0])[:300]
