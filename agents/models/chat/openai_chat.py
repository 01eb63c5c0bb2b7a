"""Chat with any server that speaks the OpenAI chat-completions protocol: OpenAI, vLLM, llama.cpp, Ollama ...

Replies are streamed, so that at the deadline the text that has come is kept. A call returns then whatever the server, the client or its
event loop does: what still runs is left behind in a thread of its own.
"""

import asyncio
import contextlib
import functools
import logging
import math
import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from agents.base.secrets import remember, scrubbed
from agents.models.base import ChatMessage, ChatReply, ChatRequest, ModelError
from agents.models.chat.loop_thread import GRACE_SECONDS, within
from agents.models.chat.openai_protocol import StreamedReply, message_body, request_body
from agents.models.chat.prompt_fitting import checked_messages
from agents.time_limits.deadline import NO_DEADLINE, Deadline

OPTIONAL_FEATURES = ("top_logprobs", "response_format", "logprobs", "seed")  # in the order in which they are given up
SECONDS_WITHOUT_DEADLINE = 120.0  # nothing waits without a limit, not even where the caller sets none
MESSAGE_CHARACTERS = 300  # of a server's complaint
_MAX_LISTED = 12  # models of a server in a message
_BASE_VARIABLE = "OPENAI_BASE_URL"  # which the client reads

_log = logging.getLogger(__name__)


class _TransientError(Exception):
    """A failure that a retry may solve: 429, 5xx, a broken or garbled connection; ``after``: seconds that the server asks to wait."""

    def __init__(self, said: str, after: float = 0.0) -> None:
        super().__init__(said)
        self.after = after


class _RefusedError(Exception):
    """The server refuses the request as it is (400, 422); ``complaint``: the parameter that it names, or all that it says."""

    def __init__(self, said: str, complaint: str = "") -> None:
        super().__init__(said)
        self.complaint = complaint


@dataclass(eq=False)
class OpenAIChat:
    """A ``ChatModel`` behind an OpenAI-compatible server."""

    model: str
    base_url: str | None = None  # root of the API, e.g. ``http://localhost:8000/v1``; None for the client's default
    api_key_env: str = "OPENAI_API_KEY"  # variable that holds the key; a server of one's own needs none: leave it unset
    concurrency: int = 8  # most requests in flight
    attempts: int = 4  # most tries for one request
    max_image_side: int = 1024  # images are scaled down to this many pixels on their longer side
    max_wait: float = 5.0  # longest pause between two tries, in seconds
    first_wait: float = 0.1  # the first pause is drawn from 0 to so many seconds; each further one from twice as many
    try_seconds: float = SECONDS_WITHOUT_DEADLINE  # a try is given up after this

    def __post_init__(self) -> None:
        self.name = self.model
        self._unsupported: set[str] = set()

    def __repr__(self) -> str:
        return scrubbed(f"OpenAIChat(model={self.name!r}, base_url={self.base_url!r}, key from ${self.api_key_env})")

    def reach(self) -> None:
        """Ask for one token, so that a server, a key or a model that is not there is found before the first question.

        ModelError, in one line with what to do. A server that refuses this request alone is only logged: it is there.
        """
        own = self.base_url or os.environ.get(_BASE_VARIABLE)
        if not own and not self._key:
            raise ModelError(
                f"{self.name} needs a key: set {self.api_key_env}, or name a server of your own with --base-url (or {_BASE_VARIABLE})"
            )
        request = ChatRequest((ChatMessage("user", "Hi"),), max_tokens=1)
        try:
            (reply,) = self.chat([request], Deadline(SECONDS_WITHOUT_DEADLINE))
        except ModelError:
            listed = self._listed()
            if not listed or self.name in listed:
                raise
            has = ", ".join(listed[:_MAX_LISTED]) + (", ..." if len(listed) > _MAX_LISTED else "")
            raise ModelError(
                f"the server at {self._address} has no model {self.name!r}; it has: {has}; choose one with --model-name"
            ) from None
        if reply.no_answer or reply.finish_reason == "abort":
            why = reply.error or f"no reply in {SECONDS_WITHOUT_DEADLINE:.0f} s"
            raise ModelError(
                f"no model answers at {self._address}: start the server, or name another with --base-url (or {_BASE_VARIABLE}): {why}"
            )
        if reply.error is not None:
            _log.warning("%s: %s", self.name, reply.error)

    def _listed(self) -> list[str]:
        """Ask the server which models it has.

        Returns:
            Their ids, or ``[]`` if the server does not say.
        """
        try:
            with openai.OpenAI(
                api_key=self._key or "none", base_url=self.base_url, max_retries=0, timeout=10.0
            ) as client:
                return [str(model.id) for model in client.models.list()]
        except Exception as error:  # noqa: BLE001 - what it is asked for makes an error message better, and there is one already
            _log.info("%s does not list its models: %s", self._address, _clean(error))
            return []

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """See ``ChatModel.chat``; all requests side by side; ModelError where the server refuses the key, the model or the address."""
        replies = [StreamedReply(request) for request in requests]
        left = _seconds(deadline)
        if replies and left > 0:
            with contextlib.suppress(TimeoutError):
                within(self._answer_all(replies, deadline), left + GRACE_SECONDS, "openai-chat")
        return [streamed.reply() for streamed in replies]

    async def _answer_all(self, replies: Sequence[StreamedReply], deadline: Deadline) -> None:
        gate = asyncio.Semaphore(self.concurrency)
        try:
            client = openai.AsyncOpenAI(
                # Servers without a key still need the header to be there.
                api_key=self._key or "none",
                base_url=self.base_url,
                max_retries=0,
                http_client=openai.DefaultAsyncHttpxClient(verify=_trusted()),
                timeout=min(max(deadline.left(), 0.001), self.try_seconds),
            )
        except (openai.OpenAIError, ValueError, TypeError) as error:
            raise ModelError(f"Cannot set up a client for {self._address}: {_clean(error)}") from None
        try:
            async with client, asyncio.TaskGroup() as tasks:
                for streamed in replies:
                    tasks.create_task(self._answer(client, gate, streamed, deadline))
        except ExceptionGroup as group:  # a ModelError has ended the other tasks
            raise group.exceptions[0] from None

    @property
    def _address(self) -> str:
        return scrubbed(self.base_url or os.environ.get(_BASE_VARIABLE) or "the default address")

    @property
    def _key(self) -> str:
        key = os.environ.get(self.api_key_env, "")
        remember(key)
        return key

    async def _answer(
        self, client: openai.AsyncOpenAI, gate: asyncio.Semaphore, streamed: StreamedReply, deadline: Deadline
    ) -> None:
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_TransientError),
            stop=stop_after_attempt(self.attempts),
            wait=self._pause,
            reraise=True,
        )
        try:
            checked = checked_messages(streamed.request, self.name, True, self.max_image_side)
            messages = [message_body(message) for message in checked]
        except ModelError as error:
            streamed.error = str(error)
            return
        try:
            async with asyncio.timeout(_seconds(deadline)), gate:
                await retrying(self._with_fallbacks, client, messages, streamed)
        except TimeoutError:
            streamed.finish = "abort"
        except (_TransientError, _RefusedError) as error:
            streamed.error, streamed.no_answer = str(error), isinstance(error, _TransientError)

    def _pause(self, state: RetryCallState) -> float:
        """Draw the seconds to wait before the next try, at most ``max_wait``.

        The pause is random and grows with the number of tries. If the server asks for a longer one, that is taken.
        """
        drawn = wait_random_exponential(multiplier=self.first_wait, max=self.max_wait)(state)
        error = state.outcome.exception() if state.outcome is not None else None
        return min(max(drawn, getattr(error, "after", 0.0)), self.max_wait)

    async def _with_fallbacks(
        self, client: openai.AsyncOpenAI, messages: list[dict[str, Any]], streamed: StreamedReply
    ) -> None:
        """Ask; where the server refuses, ask again without what it complains of, and remember that.

        A complaint that names nothing costs one optional feature after the other; of an exact request, nothing.
        """
        dropped: set[str] = set(self._unsupported)
        while True:
            settings = {name: value for name, value in request_body(streamed.request).items() if name not in dropped}
            try:
                async with asyncio.timeout(self.try_seconds):
                    await self._ask(client, settings, messages, streamed)
            except TimeoutError:
                raise _TransientError(f"No reply in {self.try_seconds:.0f} s.") from None
            except _RefusedError as error:
                exact = streamed.request.exact is not None
                optional = [name for name in (settings if exact else OPTIONAL_FEATURES) if name in settings]
                named = (name for name in optional if re.search(rf"\b{name}\b", error.complaint))
                feature = next(named, None if exact else next(iter(optional), None))
                if feature is None:
                    raise
                dropped.add(feature)
            else:
                self._unsupported |= dropped
                return

    async def _ask(
        self,
        client: openai.AsyncOpenAI,
        settings: dict[str, Any],
        messages: list[dict[str, Any]],
        streamed: StreamedReply,
    ) -> None:
        streamed.clear()
        # The client's overloads want literal settings; ours are put together from what the server supports.
        create: Any = client.chat.completions.create
        try:
            if streamed.request.exact is not None:
                streamed.take_whole(
                    (await create(model=self.name, messages=messages, **settings)).model_dump(warnings=False)
                )
            else:
                stream = await create(model=self.name, messages=messages, stream=True, **settings)
                async with stream:
                    async for chunk in stream:
                        # A chunk that tells the usage or keeps alive has none.
                        for choice in (getattr(chunk, "choices", None) or ())[:1]:
                            streamed.take(choice.model_dump(warnings=False))
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            raise ModelError(
                f"The server at {self._address} refuses the key: set the environment "
                f"variable {self.api_key_env} to a valid one. It says: {_clean(error)}"
            ) from None
        except openai.NotFoundError as error:
            raise ModelError(
                f"The server does not know model {self.name!r}, or {self._address} is not the root of its API "
                f"(it usually ends in /v1). It says: {_clean(error)}"
            ) from None
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            raise _RefusedError(f"The server refuses the request: {_clean(error)}", str(error.param or error)) from None
        except openai.APIStatusError as error:
            transient = error.status_code in (408, 409, 429) or error.status_code >= 500
            said = f"The server answers {error.status_code}: {_clean(error)}"
            raise (_TransientError(said, _asked_to_wait(error)) if transient else _RefusedError(said)) from None
        except Exception as error:  # noqa: BLE001 - the transport below the client raises errors of its own on broken streams
            raise _TransientError(f"The connection failed ({type(error).__name__}): {_clean(error)}") from None
        if streamed.finish is None:
            raise _TransientError("The server ended its reply early or sent none.")


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Load the certificates that servers are verified against.

    Reading them takes more time than everything else in a call.
    """
    return httpx.create_ssl_context()


def _seconds(deadline: Deadline) -> float:
    """Until the deadline; where there is none, the limit of everything."""
    left = deadline.left()
    return left if math.isfinite(left) else SECONDS_WITHOUT_DEADLINE


def _asked_to_wait(error: openai.APIStatusError) -> float:
    """Parse the seconds of the response's ``Retry-After`` header.

    Returns:
        The seconds, or 0 if the header is missing or cannot be read.
    """
    try:
        return float(error.response.headers.get("retry-after", ""))
    except ValueError:
        return 0.0


def _clean(error: BaseException) -> str:
    """Shorten an error's message and remove the key, which some servers repeat."""
    return scrubbed(str(error))[:MESSAGE_CHARACTERS]
