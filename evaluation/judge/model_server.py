"""A chat model behind an OpenAI-compatible server that judges or grades: its key, its errors, and patience with a busy server."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import openai
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from agents.secrets import remember, scrubbed
from evaluation.commands import first_line
from evaluation.judge.spending import Spending
from evaluation.records import JudgeError

SERVER_TRIES = 6
"""How often a server that is busy or does not answer is tried, with growing pauses."""

TIMEOUT_SECONDS = 60.0
LONGEST_PAUSE = 60.0
_PASSING = (openai.RateLimitError, openai.APITimeoutError, openai.APIConnectionError, openai.InternalServerError)

Wait = Callable[[RetryCallState], float]


@dataclass(frozen=True)
class Reply:
    """A reply, "" where there is none, and the tokens read and written for it, 0 where the server does not say."""

    text: str
    tokens: tuple[int, int] = (0, 0)


class RequestError(JudgeError):
    """One request got no answer, though the server was tried again where that may help; another may get one."""


class NoAnswerError(RequestError):
    """The server was busy, broken or not there, however often it was tried."""


class ModelServer:
    """Asks one model.

    Args:
        without: What to do without a key, for the error message.
        base_url: Server; ``OPENAI_BASE_URL`` or OpenAI's own where None.
        api_key: ``OPENAI_API_KEY`` where None. A server of one's own often needs none.
        wait: Pause before a server is tried again, in tenacity's terms; a ``Retry-After`` of the server is respected.
        spending: Counts what is asked.

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
        spending: Spending | None = None,
    ) -> None:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
        if key is None:
            raise JudgeError(f"{model} needs a key: set OPENAI_API_KEY, or use {without}")
        remember(key)
        self.model = model
        self._client = openai.OpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=timeout)
        self._wait = wait or wait_exponential_jitter(initial=1.0, max=LONGEST_PAUSE)
        self._spending = spending or Spending()
        self._refused: set[str] = set()

    def ask(self, request: dict[str, Any]) -> Reply:
        """The reply to a request of the chat completions API.

        A parameter that the server refuses (other than model and messages) is left out from then on.

        Raises:
            RequestError: This request got no answer; another may get one.
            JudgeError: The key is refused, the model is unknown, or what may be spent is spent.
        """
        self._spending.check()
        retrying = Retrying(
            stop=stop_after_attempt(SERVER_TRIES),
            wait=self._pause,
            retry=retry_if_exception_type(_PASSING),
            reraise=True,
        )
        try:
            return retrying(self._ask_once, request)
        except openai.OpenAIError as error:
            what, kind = _complaint(error, self.model)
            said = scrubbed(first_line(error))[:300]  # without the key, which some servers repeat
            raise kind(f"{what}: {said}") from None

    def _ask_once(self, request: dict[str, Any]) -> Reply:
        while True:
            left = {name: value for name, value in request.items() if name not in self._refused}
            try:
                completion = self._client.chat.completions.create(**left)
            except openai.BadRequestError as error:
                refused = _refused_parameter(error, left)
                if refused is None:
                    raise
                self._refused.add(refused)
                continue
            except json.JSONDecodeError:
                return Reply("")  # the server's reply is no JSON at all: asked for again as no verdict
            usage = getattr(completion, "usage", None)
            tokens = (usage.prompt_tokens, usage.completion_tokens) if usage is not None else None
            self._spending.add(tokens)
            choices = getattr(completion, "choices", None)
            return Reply((choices[0].message.content or "") if choices else "", tokens or (0, 0))

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


def _refused_parameter(error: openai.BadRequestError, request: Mapping[str, Any]) -> str | None:
    """The parameter that a server complains of, by its own field or its words; None for any other complaint."""
    optional = [name for name in request if name not in ("model", "messages")]
    if error.param in optional:
        return str(error.param)
    return next((name for name in optional if re.search(rf"\b{name}\b", str(error))), None)


def _complaint(error: openai.OpenAIError, model: str) -> tuple[str, type[JudgeError]]:
    """What is wrong, and whether another request may get an answer."""
    if isinstance(error, openai.AuthenticationError):
        return "the judge's server refuses the key (OPENAI_API_KEY)", JudgeError
    if isinstance(error, openai.PermissionDeniedError):
        return f"the key may not use {model}", JudgeError
    if isinstance(error, openai.NotFoundError):
        return f"the judge's server has no model {model}", JudgeError
    if isinstance(error, _PASSING):
        return f"the judge's server did not answer after {SERVER_TRIES} tries", NoAnswerError
    return "the judge's server", RequestError
