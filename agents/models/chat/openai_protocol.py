"""Request bodies and streamed replies of the OpenAI chat-completions protocol, shared by the adapters that speak it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.models.base import (
    FIRST_TOKEN_ALTERNATIVES,
    ChatMessage,
    ChatReply,
    ChatRequest,
    FinishReason,
    first_token_probs_of,
)
from agents.models.pixels import jpeg_data_url


def message_body(message: ChatMessage) -> dict[str, Any]:
    """Convert a message of ``checked_messages`` to JSON, with its pictures before the text."""
    if not message.images:
        return {"role": message.role, "content": message.content}
    pictures = [{"type": "image_url", "image_url": {"url": jpeg_data_url(image)}} for image in message.images]
    return {"role": message.role, "content": [*pictures, {"type": "text", "text": message.content}]}


def request_body(request: ChatRequest) -> dict[str, Any]:
    """Convert the settings of a request to JSON, without its messages.

    Settings that the request leaves open are left out.
    """
    if request.exact is not None:
        return {**request.exact, **({} if request.seed is None else {"seed": request.seed})}
    body: dict[str, Any] = {"max_tokens": request.max_tokens, "temperature": request.temperature}
    if request.stop:
        body["stop"] = list(request.stop)
    if request.seed is not None:
        body["seed"] = request.seed
    if request.logprobs:
        body |= {"logprobs": True, "top_logprobs": FIRST_TOKEN_ALTERNATIVES}
    if request.schema is not None:
        schema = {"name": "reply", "schema": dict(request.schema), "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


@dataclass
class StreamedReply:
    """One request, and what has come of its reply so far."""

    request: ChatRequest
    texts: list[str] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    first_token_probs: dict[str, float] | None = None
    finish: FinishReason | None = None
    error: str | None = None  # why there will be no reply
    no_answer: bool = False  # whether that is because the server did not answer
    usage: tuple[int, int] | None = None  # tokens read and written

    def clear(self) -> None:
        """Forget what came: the request is sent again."""
        self.texts.clear()
        self.logprobs.clear()
        self.first_token_probs = self.finish = self.usage = None

    def take(self, choice: Mapping[str, Any]) -> None:
        """Add one entry of a chunk's ``choices``."""
        text = (choice.get("delta") or {}).get("content")
        if text:
            self.texts.append(text)
        for token in (choice.get("logprobs") or {}).get("content") or ():
            if not self.logprobs:
                alternatives = token.get("top_logprobs") or ()
                self.first_token_probs = first_token_probs_of(
                    (str(it["token"]), math.exp(it["logprob"])) for it in alternatives
                )
            self.logprobs.append(float(token["logprob"]))
        if choice.get("finish_reason"):
            self.finish = "length" if choice["finish_reason"] == "length" else "stop"

    def take_whole(self, completion: Mapping[str, Any]) -> None:
        """Take in the reply to a request that is not streamed.

        A completion without ``choices`` adds no text and no end.
        """
        usage = completion.get("usage")
        self.usage = (usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0) if usage else None
        for choice in (completion.get("choices") or ())[:1]:
            self.take({**choice, "delta": choice.get("message")})
            self.finish = self.finish or "stop"

    def reply(self) -> ChatReply:
        """Build the reply from what has arrived; it ends in ``abort`` if its end is still missing."""
        if self.error is not None:
            return ChatReply("", "error", error=self.error, no_answer=self.no_answer)
        wanted = self.request.logprobs
        text = "".join(self.texts)
        return ChatReply(
            text.strip() if self.request.exact is None else text,
            self.finish or "abort",
            tuple(self.logprobs) if wanted and self.logprobs else None,
            first_token_probs=self.first_token_probs if wanted else None,
            usage=self.usage,
        )
