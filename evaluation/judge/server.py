"""A chat model behind an OpenAI-compatible server that judges or grades. Its cost is counted, and a silent server is given up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from agents.models.base import ChatReply, ChatRequest
from agents.models.chat.openai_chat import OpenAIChat
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from evaluation.judge.inactivity import PATIENCE_SECONDS, SIGN_SECONDS, InactivityTimer
from evaluation.judge.spending import Spending
from evaluation.records import JudgeError

SERVER_TRIES = 6
"""Number of tries, with growing pauses, while a server is busy or does not answer."""

TIMEOUT_SECONDS = 60.0
"""Longest time of a try."""

FIRST_PAUSE, MAX_PAUSE = 2.0, 60.0

OPENAI_ADDRESS = "https://api.openai.com/v1"
"""Address that a client asks unless it is given another one."""


class JudgeServer:
    """``ChatModel`` that stops at its cost limit and gives up a silent server; for several threads.

    Args:
        model: Its name at the server.
        without: What to do without a key, for the error message.
        base_url: Server; None: ``OPENAI_BASE_URL``, or else OpenAI's own.
        spending: Counts requests, tokens and dollars.
        timeout: Seconds for a try.
        patience: Seconds without any reply after which the server is given up.
        sign: Seconds of silence between warnings.
        first_pause: See ``OpenAIChat.first_wait``.

    Attributes:
        address: Root of the server's API, as messages show it; "" for OpenAI's own.
        fingerprint: Identity of the model in a reply cache. "" for one of OpenAI's own server: its name is its identity.

    Raises:
        JudgeError: There is no key for OpenAI's own server.
    """

    def __init__(
        self,
        model: str,
        without: str,
        base_url: str | None = None,
        *,
        spending: Spending | None = None,
        timeout: float = TIMEOUT_SECONDS,
        patience: float = PATIENCE_SECONDS,
        sign: float = SIGN_SECONDS,
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        if base_url is None and not os.environ.get("OPENAI_API_KEY"):
            raise JudgeError(f"{model} needs a key: set OPENAI_API_KEY, or use {without}")
        self.name = model
        self._model = OpenAIChat(
            model,
            base_url,
            attempts=SERVER_TRIES,
            max_wait=patience,
            max_pause=MAX_PAUSE,
            first_wait=first_pause,
            try_seconds=timeout,
        )
        is_openai = base_url is None or base_url.rstrip("/") == OPENAI_ADDRESS
        self.address = "" if is_openai else self._model.address
        self.fingerprint = "" if is_openai else self._model.fingerprint
        self._spending = spending or Spending()
        self._timer = InactivityTimer(patience, sign)

    def chat(self, requests: Sequence[ChatRequest], deadline: Deadline = NO_DEADLINE) -> list[ChatReply]:
        """See ``ChatModel.chat``.

        Raises:
            JudgeError: The cost limit is reached.
        """
        self._spending.check()
        if why := self._timer.give_up_reason:
            return [ChatReply("", "error", error=f"not asked: the judge's server {why}") for _ in requests]
        waiting, replied = self._timer.start_request(), True
        try:
            replies = self._model.chat(requests, deadline.within(self._timer.seconds_left))
            # A refused request is no reply. A model that declines a question has replied.
            replied = any(
                reply.finish_reason not in ("abort", "error") or reply.fault == "refusal" for reply in replies
            )
        finally:
            waiting.set()
            self._timer.end_request(replied=replied)
        for reply in replies:
            if reply.finish_reason in ("stop", "length") or reply.usage is not None:
                self._spending.add(reply.usage)
        return [_blame_server(reply) for reply in replies]


def _blame_server(reply: ChatReply) -> ChatReply:
    """Attribute a missing reply to the server in its error; return other replies unchanged."""
    if reply.finish_reason == "abort":
        return ChatReply("", "error", error="the judge's server did not answer in time")
    if reply.no_answer:
        return replace(reply, error=f"the judge's server did not answer after {SERVER_TRIES} tries: {reply.error}")
    return reply
