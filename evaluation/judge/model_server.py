"""A chat model behind an OpenAI-compatible server that judges or grades: its key, its errors, and patience with a busy server."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

import openai
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential_jitter

from agents.runtime.secrets import remember, scrubbed
from evaluation.commands import first_line
from evaluation.judge.spending import Spending
from evaluation.records import JudgeError

SERVER_TRIES = 6
"""How often a server that is busy or does not answer is tried, with growing pauses."""

TIMEOUT_SECONDS = 60.0
"""A request is given up after this."""

PATIENCE_SECONDS = 300.0
"""A server that has given no reply at all for so long, tries and pauses included, is given up: nothing more is asked of it."""

SIGN_SECONDS = 15.0
"""While a server is silent, that is said after so long, and again each time."""

MAX_PAUSE = 60.0

Wait = Callable[[RetryCallState], float]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServerReply:
    """A reply, "" where there is none, and the tokens read and written for it, 0 where the server does not say."""

    text: str
    tokens: tuple[int, int] = (0, 0)


class RequestError(JudgeError):
    """One request got no answer, though the server was tried again where that may help; another may get one."""


class NoAnswerError(RequestError):
    """The server was busy, broken, silent or not there, however often it was tried."""


class _LateError(openai.OpenAIError):
    """A reply was not whole in time, though the connection may have sent something now and then."""


_PASSING = (
    openai.RateLimitError,
    openai.APIConnectionError,
    openai.InternalServerError,
    _LateError,
)  # a timeout is of the second kind


class _Silence:
    """For how long a server has not replied to anything that it was asked; used by all threads that ask it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._since: float | None = None
        self._said = 0.0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since if self._since is not None else 0.0

    def asked(self) -> None:
        with self._lock:
            self._waiting += 1
            if self._since is None:
                self._since = self._said = time.monotonic()

    def ended(self, *, replied: bool) -> None:
        with self._lock:
            self._waiting -= 1
            if replied:
                self._since = self._said = time.monotonic()
                if not self._waiting:
                    self._since = None

    def sign_due(self, every: float) -> bool:
        """Whether it is time to say so; not again for some seconds."""
        with self._lock:
            now = time.monotonic()
            due = self._since is not None and now - self._said >= every
            if due:
                self._said = now
            return due


class ModelServer:
    """Asks one model.

    Args:
        without: What to do without a key, for the error message.
        base_url: Server; ``OPENAI_BASE_URL`` or OpenAI's own where None.
        api_key: ``OPENAI_API_KEY`` where None. A server of one's own often needs none.
        timeout: Seconds for a request.
        patience: Seconds without any reply after which the server is given up.
        sign: Seconds of silence after which, and again after which, a warning says so.
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
        patience: float = PATIENCE_SECONDS,
        sign: float = SIGN_SECONDS,
        wait: Wait | None = None,
        spending: Spending | None = None,
    ) -> None:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        key = api_key or os.environ.get("OPENAI_API_KEY") or ("none" if base_url else None)
        if key is None:
            raise JudgeError(f"{model} needs a key: set OPENAI_API_KEY, or use {without}")
        remember(key)
        self.model = model
        self._client = openai.OpenAI(api_key=key, base_url=base_url, max_retries=0)
        self._timeout, self._patience, self._sign = timeout, patience, sign
        self._silence = _Silence()
        self._wait = wait or wait_exponential_jitter(initial=1.0, max=MAX_PAUSE)
        self._spending = spending or Spending()
        self._refused: set[str] = set()

    def ask(self, request: dict[str, Any]) -> ServerReply:
        """The reply to a request of the chat completions API.

        A parameter that the server refuses (other than model and messages) is left out from then on. While the server is silent a
        warning says so now and then.

        Raises:
            RequestError: This request got no answer; another may get one, unless the server has been given up.
            JudgeError: The key is refused, the model is unknown, or what may be spent is spent.
        """
        self._spending.check()
        self._silence.asked()
        replied = False
        retrying = Retrying(
            stop=self._enough,
            wait=self._pause,
            retry=retry_if_exception_type(_PASSING),
            before_sleep=self._show_sign,
            reraise=True,
        )
        try:
            if self._left <= 0:
                raise NoAnswerError(f"not asked: the judge's server has not replied for {self._silence.seconds:.0f} s")
            reply = retrying(self._ask_in_time, request)
            replied = True
        except openai.OpenAIError as error:
            what, kind = _complaint(error, self.model, retrying.statistics.get("attempt_number", 1))
            replied = not issubclass(kind, NoAnswerError)
            said = scrubbed(first_line(error))[:300]  # without the key, which some servers repeat
            raise kind(f"{what}: {said}") from None
        finally:
            self._silence.ended(replied=replied)
        return reply

    @property
    def _left(self) -> float:
        """Seconds until the server is given up."""
        return self._patience - self._silence.seconds

    def _enough(self, state: RetryCallState) -> bool:
        return state.attempt_number >= SERVER_TRIES or state.upcoming_sleep >= self._left

    def _show_sign(self, _: RetryCallState | None = None) -> None:
        if self._silence.sign_due(self._sign):
            log.warning(
                "the judge's server has not replied for %.0f s; it is given up after %.0f s",
                self._silence.seconds,
                self._patience,
            )

    def _ask_in_time(self, request: dict[str, Any]) -> ServerReply:
        """The reply to a request that is given up in time even where the server sends a byte now and then: a client's limit is for each."""
        seconds = max(0.0, min(self._timeout, self._left))
        end = time.monotonic() + seconds
        future: Future[ServerReply] = Future()

        def ask() -> None:
            try:
                future.set_result(self._ask_once(request, seconds))
            except Exception as error:  # noqa: BLE001 - handed to the thread that waits
                future.set_exception(error)

        threading.Thread(target=ask, daemon=True).start()
        while (left := end - time.monotonic()) > 0 and not future.done():
            wait([future], min(left, self._sign))
            self._show_sign()
        if not future.done():
            raise _LateError(f"no reply in {seconds:.0f} s")
        return future.result()

    def _ask_once(self, request: dict[str, Any], seconds: float) -> ServerReply:
        while True:
            left = {name: value for name, value in request.items() if name not in self._refused}
            try:
                completion = self._client.chat.completions.create(**left, timeout=seconds)
            except openai.BadRequestError as error:
                refused = _refused_parameter(error, left)
                if refused is None:
                    raise
                self._refused.add(refused)
                continue
            except json.JSONDecodeError:
                return ServerReply("")  # the server's reply is no JSON at all: asked for again as no verdict
            usage = getattr(completion, "usage", None)
            tokens = (usage.prompt_tokens, usage.completion_tokens) if usage is not None else None
            self._spending.add(tokens)
            choices = getattr(completion, "choices", None)
            return ServerReply((choices[0].message.content or "") if choices else "", tokens or (0, 0))

    def _pause(self, state: RetryCallState) -> float:
        pause = self._wait(state)
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, openai.APIStatusError):
            try:
                asked = float(error.response.headers.get("retry-after", ""))
            except ValueError:
                return pause
            return min(max(pause, asked), MAX_PAUSE)
        return pause


def _refused_parameter(error: openai.BadRequestError, request: Mapping[str, Any]) -> str | None:
    """The parameter that a server complains of, by its own field or its words; None for any other complaint."""
    optional = [name for name in request if name not in ("model", "messages")]
    if error.param in optional:
        return str(error.param)
    return next((name for name in optional if re.search(rf"\b{name}\b", str(error))), None)


def _complaint(error: openai.OpenAIError, model: str, tries: int) -> tuple[str, type[JudgeError]]:
    """What is wrong after so many tries, and whether another request may get an answer."""
    if isinstance(error, openai.AuthenticationError):
        return "the judge's server refuses the key (OPENAI_API_KEY)", JudgeError
    if isinstance(error, openai.PermissionDeniedError):
        return f"the key may not use {model}", JudgeError
    if isinstance(error, openai.NotFoundError):
        return f"the judge's server has no model {model}", JudgeError
    if isinstance(error, _PASSING):
        return f"the judge's server did not answer after {tries} tries", NoAnswerError
    return "the judge's server", RequestError
