"""OpenAI's chat-completions protocol, as far as an agent that answers questions about a photo can follow it.

Source of names and shapes: OpenAI's API reference, "Chat Completions", as the types of the package ``openai`` have them.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.base_agent import Message
from apps.outcome import Outcome

_KINDS = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error", 504: "server_error"}
"""OpenAI's ``type`` by status."""


class ProtocolError(Exception):
    """A request that is answered with an error: an HTTP status, what is wrong and what to do, OpenAI's ``code``, the part to blame.

    ``retry_after`` is the seconds after which to try again, which the OpenAI client heeds; None where that would not help.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        *,
        param: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code = status, code
        kind = _KINDS.get(status, "invalid_request_error")
        self.body: dict[str, Any] = {"error": {"message": message, "type": kind, "param": param, "code": code}}
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)  # as the API's document says: "true" is no truth value


class ImageUrl(_Strict):
    """Where a picture is: a data URL, or one of http where that is allowed."""

    url: str


class Part(_Strict):
    """A part of a message: text or a picture."""

    type: Literal["text", "image_url"]
    text: str = ""
    image_url: ImageUrl | None = None


class ChatMessage(_Strict):
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


class ChatRequest(_Strict):
    """A request. Other fields, such as sampling parameters, are ignored: the preset decides. What would change the kind of
    answer is refused.
    """

    model: str
    messages: list[ChatMessage] = Field(min_length=1, max_length=200)
    stream: bool = False
    n: Literal[1] | None = None
    tools: list[Any] | None = Field(None, max_length=0)
    functions: list[Any] | None = Field(None, max_length=0)
    logprobs: Literal[False] | None = None


def parsed(body: bytes) -> ChatRequest:
    """A request from its JSON; ProtocolError where it is no JSON, or breaks the protocol; says where."""
    try:
        return ChatRequest.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in found["loc"])
        raise ProtocolError(400, f"{where or 'the body'}: {found['msg']}", param=where or None) from None


def dialog(request: ChatRequest) -> tuple[str, tuple[Message, ...], str | None]:
    """The question, the messages before it, and the URL of the latest photo; ProtocolError for no question, or several pictures at once."""
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


def document(
    identity: str, created: int, model: str, outcome: Outcome | None, delta: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A whole answer, or with ``delta`` a piece of a streamed one; ``outcome`` (docs/serving.md, field ``crag``) only in the last piece."""
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": None if outcome is None else "stop"}
    if delta is not None:
        choice["delta"] = dict(delta)
    elif outcome is not None:
        choice["message"] = {"role": "assistant", "content": outcome.answer, "refusal": None}
    told = {
        "id": identity,
        "object": "chat.completion" if delta is None else "chat.completion.chunk",
        "created": created,
        "model": model,
        "choices": [choice],
        **({} if outcome is None else {"crag": outcome.as_json()}),
    }
    return {name: _plain(value) for name, value in told.items()}


def _plain(value: Any) -> Any:
    """A value as JSON in UTF-8 can have it: no half of a surrogate pair, and None for infinities and NaN, which models may produce."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_plain(name): _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def event(content: Mapping[str, Any]) -> str:
    """A server-sent event."""
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"


DONE = "data: [DONE]\n\n"
