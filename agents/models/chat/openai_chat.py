"""Chat with any server that speaks the OpenAI chat-completions protocol: OpenAI, vLLM, llama.cpp, Ollama ...

Replies are streamed, so that at the deadline the text that has come is kept. A call returns then whatever the server, the client or its
event loop does: unfinished requests are left behind in a thread of their own.
"""

import asyncio
import contextlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from agents.base.secrets import remember, scrub
from agents.models.base import ChatReply, ChatRequest, ModelError
from agents.models.chat.dialect import SYSTEM, find_dialect
from agents.models.chat.error_bodies import clean_message
from agents.models.chat.loop_thread import GRACE_SECONDS, time_limit, within
from agents.models.chat.openai_protocol import StreamedReply, request_body
from agents.models.chat.prompt_fitting import checked_messages
from agents.models.chat.server_connection import Address, open_client, parse_address, peek
from agents.models.chat.server_errors import RefusedError, TransientError, translate_error
from agents.models.chat.server_prompt import ServerPrompt, read_excess
from agents.time_limits.deadline import NO_DEADLINE, Deadline

SECONDS_WITHOUT_DEADLINE = 120.0  # nothing waits without a limit, not even where the caller sets none
BASE_VARIABLE = "OPENAI_BASE_URL"  # which the client reads
_EMPTY = "the reply is empty: look at the server's log"
_MORE_TOKENS = "give them more with --reasoning-tokens (now {}), or reasoning_tokens in [models.chat] of the profile"


@dataclass(eq=False)
class OpenAIChat:
    """A ``ChatModel`` behind an OpenAI-compatible server."""

    model: str
    base_url: str | None = None  # root of the API, e.g. ``http://localhost:8000/v1``; None for the client's default
    api_key_env: str = "OPENAI_API_KEY"  # variable of the key; a server of one's own needs none: leave it unset
    concurrency: int = 8  # most requests in flight
    attempts: int = 4  # most tries for one request, without those after which the server said how long to wait
    max_image_side: int = 1024  # images are scaled down to this many pixels on their longer side
    max_wait: float = 60.0  # most seconds that one request waits in all, where a busy server says how long
    max_pause: float = 5.0  # longest pause between two tries, in seconds, where the server says nothing
    first_wait: float = 0.1  # the first pause is drawn from 0 to so many seconds; each further one from twice as many
    try_seconds: float = SECONDS_WITHOUT_DEADLINE  # a try is given up after this
    reasoning_tokens: int = 0  # tokens for thoughts, beside those of a reply, of a model that reasons first

    def __post_init__(self) -> None:
        self.name = self.model
        self.requests = 0  # sent so far, repeated ones included
        self.dialect = find_dialect(self.base_url or os.environ.get(BASE_VARIABLE) or "", self.model)

    def __repr__(self) -> str:
        return scrub(f"OpenAIChat(model={self.name!r}, base_url={self.base_url!r}, key from ${self.api_key_env})")

    @property
    def fingerprint(self) -> str:
        """Everything that replies depend on. How long the server is waited for is left out."""
        address = self.base_url or os.environ.get(BASE_VARIABLE) or None
        return json.dumps(["openai", self.model, address, self.max_image_side, self.reasoning_tokens])

    @property
    def box_fault(self) -> str:
        """Reason why a probe found the model's boxes wrong; "" if it did not."""
        return self.dialect.box_fault

    @property
    def address(self) -> str:
        """Root of the API, as messages show it."""
        return scrub(self._endpoint.root)

    @property
    def _endpoint(self) -> Address:
        return parse_address(self.base_url or os.environ.get(BASE_VARIABLE))

    @property
    def key(self) -> str:
        """The key; "" if there is none."""
        key = os.environ.get(self.api_key_env, "").strip()
        remember(key)
        return key

    def open_client(self, seconds: float) -> openai.AsyncOpenAI:
        """Open a client of the server whose requests take at most ``seconds``; see ``server_connection.open_client``."""
        return open_client(self._endpoint, self.key, self.api_key_env, seconds)

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """Answer all requests side by side; see ``ChatModel.chat``.

        Raises:
            ModelError: The server refuses the key, the model or the address.
        """
        more = _MORE_TOKENS.format(self.reasoning_tokens)
        replies = [StreamedReply(request, self.reasoning_tokens, more, _EMPTY) for request in requests]
        remaining = _seconds(deadline)
        if replies and remaining > 0:
            with contextlib.suppress(TimeoutError):
                within(self._answer_all(replies, deadline), remaining + GRACE_SECONDS, "openai-chat")
        return [streamed.reply() for streamed in replies]

    async def _answer_all(self, replies: Sequence[StreamedReply], deadline: Deadline) -> None:
        gate = asyncio.Semaphore(self.concurrency)
        client = self.open_client(min(max(deadline.left(), 0.001), self.try_seconds))
        try:
            async with client, asyncio.TaskGroup() as tasks:
                for streamed in replies:
                    tasks.create_task(self._answer(client, gate, streamed, deadline))
        except ExceptionGroup as group:  # a ModelError has ended the other tasks
            raise group.exceptions[0] from None

    async def _answer(
        self, client: openai.AsyncOpenAI, gate: asyncio.Semaphore, streamed: StreamedReply, deadline: Deadline
    ) -> None:
        try:
            prompt = ServerPrompt(checked_messages(streamed.request, self.name, True, self.max_image_side))
        except ModelError as error:
            streamed.error = str(error)
            return
        waiting = _Waiting(self, deadline)
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=waiting.is_over,
            wait=waiting.draw_pause,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            async with time_limit(_seconds(deadline), deadline), gate:
                await retrying(self._with_fallbacks, client, prompt, streamed)
        except TimeoutError:
            streamed.finish = "abort"
        except (TransientError, RefusedError) as error:
            if isinstance(error, RefusedError) and error.is_of_tokens:
                streamed.finish = "length"
                return
            if isinstance(error, RefusedError) and error.is_filtered:
                streamed.finish, streamed.refusal = "stop", clean_message(error.body.message)
                return
            streamed.error = f"{error}{waiting.gave_up}"
            streamed.no_answer = isinstance(error, TransientError)
        except ModelError:  # the server will answer no request at all
            raise
        except Exception as error:  # noqa: BLE001 - a server's reply may break any reader; one request must not cost the others
            streamed.error = f"{type(error).__name__}: {clean_message(error)}"

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _with_fallbacks(self, client: openai.AsyncOpenAI, prompt: ServerPrompt, streamed: StreamedReply) -> None:
        """Ask; if the server refuses, ask again without the refused parameter or system message, and remember that.

        A complaint without a name drops the optional parameters one after the other. A prompt that is too long is cut. An exact request
        gives up only the parameters that the server names, and is not cut.
        """
        exact = streamed.request.exact is not None
        whole = {**({} if exact else {"stream": True}), **request_body(streamed.request, self.reasoning_tokens)}
        refused = self.dialect.refused
        while True:
            settings = self.dialect.adapt(whole, refused, exact=exact)
            try:
                async with asyncio.timeout(self.try_seconds):
                    await self._ask(client, settings, prompt.bodies(merged=SYSTEM in refused), streamed)
            except TimeoutError:
                raise TransientError(f"No reply in {self.try_seconds:.0f} s.") from None
            except RefusedError as error:
                reply = streamed.request.max_tokens + self.reasoning_tokens
                if error.is_too_long and not exact and prompt.shorten(read_excess(error.body.message, reply)):
                    streamed.prompt_cut = prompt.cut
                    continue
                if error.is_of_roles and SYSTEM not in refused and prompt.has_system:
                    refused |= {SYSTEM}
                    continue
                culprit = self.dialect.find_culprit(error, settings, exact=exact)
                if culprit is None:
                    raise
                refused |= {culprit}
            else:
                self.dialect.keep(refused & {*whole, SYSTEM}, settings)
                return

    async def _ask(
        self,
        client: openai.AsyncOpenAI,
        settings: dict[str, Any],
        messages: list[dict[str, Any]],
        streamed: StreamedReply,
    ) -> None:
        """Send one request and take in its reply, whether or not the server streams it."""
        streamed.clear()
        self.requests += 1
        # The client's overloads want literal settings; ours depend on the server.
        create: Any = client.chat.completions.with_raw_response.create
        try:
            raw = await create(model=self.name, messages=messages, **settings)
            kind = raw.headers.get("content-type", "").lower()
            if "html" in kind:
                raise TransientError(
                    f"The server at {self.address} answers with a page ({kind}) and no reply: name the root of its API "
                    "with --base-url (it usually ends in /v1)"
                )
            if settings.get("stream") and await peek(raw.http_response) not in (
                b"{",
                b"[",
            ):  # types are not to be trusted
                async with raw.parse() as stream:
                    async for chunk in stream:
                        # A chunk that tells the usage or keeps alive has none.
                        choices = getattr(chunk, "choices", None) or ()
                        if not choices and getattr(chunk, "message", None):  # of "event: error"
                            raise openai.APIError("", raw.http_response.request, body=chunk.model_dump(warnings=False))
                        for choice in choices[:1]:
                            streamed.take(choice.model_dump(warnings=False))
            else:
                await self._take_whole(raw, streamed)
                if settings.get("stream"):  # a gateway that streams nothing
                    self.dialect.keep(frozenset({"stream"}), {})
        except TransientError:
            raise
        except Exception as error:  # noqa: BLE001 - the transport below the client raises errors of its own on broken streams
            raise translate_error(
                error, settings, model=self.name, address=self.address, key_variable=self.api_key_env
            ) from None
        if streamed.finish is None:
            raise TransientError("The server ended its reply early or sent none.")

    async def _take_whole(self, raw: Any, streamed: StreamedReply) -> None:
        await raw.http_response.aread()
        completion = json.loads(raw.http_response.content)
        if not isinstance(completion, dict) or completion.get("error") or completion.get("object") == "error":
            raise openai.APIError("", raw.http_response.request, body=completion)
        streamed.take_whole(completion)


class _Waiting:
    """Pauses of one request between its tries.

    Where a busy server says how long to wait, that is waited if the deadline and ``max_wait`` allow it. Such a try does not count.
    Otherwise the pause is random and grows with the number of tries.
    """

    def __init__(self, chat: OpenAIChat, deadline: Deadline) -> None:
        self._chat, self._deadline = chat, deadline
        self._drawn = wait_random_exponential(multiplier=chat.first_wait, max=chat.max_pause)
        self._failures = 0
        self.gave_up = ""  # why no further try was made, behind the error

    def draw_pause(self, state: RetryCallState) -> float:
        """Return the seconds until the next try."""
        return max(self._drawn(state), _after(state))

    def is_over(self, state: RetryCallState) -> bool:
        """Return whether no further try is made."""
        after = _after(state)
        if not after:
            self._failures += 1
            return self._failures >= self._chat.attempts
        if state.idle_for + after > self._chat.max_wait:
            self.gave_up = f"; it asks to wait {after:g} s, beyond the {self._chat.max_wait:g} s of --max-wait"
        elif after > _seconds(self._deadline):
            self.gave_up = f"; it asks to wait {after:g} s, longer than there is time for the answer"
        return bool(self.gave_up)


def _after(state: RetryCallState) -> float:
    """Return the seconds that the server asks to wait; 0 if it does not say."""
    error = state.outcome.exception() if state.outcome is not None else None
    return float(getattr(error, "after", 0.0))


def _seconds(deadline: Deadline) -> float:
    """Return the seconds until the deadline, or the limit of every request without a deadline."""
    remaining = deadline.left()
    return remaining if math.isfinite(remaining) else SECONDS_WITHOUT_DEADLINE
