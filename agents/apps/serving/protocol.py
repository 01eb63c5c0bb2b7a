"""OpenAI's chat-completions protocol, as far as an agent that answers questions about a photo can follow it.

Source of names and shapes: OpenAI's API reference, "Chat Completions", as the types of the package ``openai`` have them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.apps.outcome import Outcome
from agents.base_agent import Message


class ProtocolError(Exception):
    """A request that is answered with an error.

    Args:
        status: HTTP status.
        message: What is wrong and what to do.
        kind: OpenAI's ``type``.
        code: OpenAI's ``code``.
        param: The part of the request that is to blame.
        retry_after: Seconds after which to try again; None where that would not help.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.code = code
        self._error = {"message": message, "type": kind, "param": param, "code": code}

    @property
    def body(self) -> dict[str, Any]:
        """The JSON document of the answer."""
        return {"error": self._error}

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer; the OpenAI client respects ``Retry-After``."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class ImageUrl(_Lenient):
    """Where a picture is: a data URL, or one of http where that is allowed."""

    url: str


class Part(_Lenient):
    """A part of a message: text or a picture."""

    type: Literal["text", "image_url"]
    text: str = ""
    image_url: ImageUrl | None = None


class ChatMessage(_Lenient):
    """A message of the dialog."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Part] | None = None

    @property
    def text(self) -> str:
        """Its text parts, one a line."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "\n".join(part.text for part in self.content if part.type == "text")

    @property
    def pictures(self) -> list[str]:
        """URLs of its pictures."""
        if not isinstance(self.content, list):
            return []
        return [part.image_url.url for part in self.content if part.image_url is not None]


class StreamOptions(_Lenient):
    """``include_usage`` is accepted; tokens are not counted."""

    include_usage: bool = False


class ChatRequest(_Lenient):
    """A request. Sampling parameters are ignored: the preset decides. What would change the kind of answer is refused."""

    model: str
    messages: list[ChatMessage] = Field(min_length=1, max_length=200)
    stream: bool = False
    n: Literal[1] | None = None
    tools: list[Any] | None = Field(None, max_length=0)
    functions: list[Any] | None = Field(None, max_length=0)
    logprobs: Literal[False] | None = None
    stream_options: StreamOptions | None = None


def parsed(body: bytes) -> ChatRequest:
    """A request from its JSON.

    Raises:
        ProtocolError: It is no JSON, or breaks the protocol; says where.
    """
    try:
        return ChatRequest.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in found["loc"])
        raise ProtocolError(400, f"{where or 'the body'}: {found['msg']}", param=where or None) from None


def dialog(request: ChatRequest) -> tuple[str, tuple[Message, ...], str | None]:
    """The question, the messages before it, and the URL of the photo that the dialog is about (the latest, None without any).

    Raises:
        ProtocolError: The last message is no question of the user, or one message has several pictures.
    """
    spoken = [message for message in request.messages if message.role in ("user", "assistant")]
    if not spoken or spoken[-1].role != "user" or not spoken[-1].text.strip():
        raise ProtocolError(400, "the last message has to be the user's and hold a text", param="messages")
    urls: list[str] = []
    for message in spoken:
        if len(message.pictures) > 1:
            raise ProtocolError(400, "a message may hold one picture; this agent looks at one photo", param="messages")
        urls += message.pictures
    history = tuple(Message(role=message.role, content=message.text) for message in spoken[:-1])
    return spoken[-1].text, history, urls[-1] if urls else None


def completion(identity: str, created: int, model: str, outcome: Outcome) -> dict[str, Any]:
    """A whole answer; the field ``crag`` tells how it came about (docs/serving.md)."""
    message = {"role": "assistant", "content": outcome.answer, "refusal": None}
    return {
        "id": identity,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "crag": outcome.as_json(),
    }


def chunk(
    identity: str, created: int, model: str, delta: Mapping[str, str], outcome: Outcome | None = None
) -> dict[str, Any]:
    """A piece of a streamed answer; the last one has the outcome."""
    finish = None if outcome is None else "stop"
    told = {} if outcome is None else {"crag": outcome.as_json()}
    return {
        "id": identity,
        "object": "chat.completion.chunk",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish}],
        **told,
    }


def event(document: Mapping[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(document, ensure_ascii=False)}\n\n"


DONE = "data: [DONE]\n\n"


def models(names: Iterable[str], created: int) -> dict[str, Any]:
    """The answer to ``GET /v1/models``."""
    listed = [{"id": name, "object": "model", "created": created, "owned_by": "crag-mm-agent"} for name in names]
    return {"object": "list", "data": listed}
