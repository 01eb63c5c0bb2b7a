"""The part of OpenAI's chat-completions protocol that suits an agent for questions about a photo.

Source of names and shapes: OpenAI's API reference, "Chat Completions", as the types of the package ``openai`` have them.
"""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from agents.base.files import parse_json
from agents.base_agent import Message
from agents.record import Unanswered
from agents.unanswered import WORDS
from apps.outcome import Outcome

_KINDS = {401: "authentication_error", 429: "rate_limit_error", **dict.fromkeys((500, 502, 503, 504), "server_error")}
"""OpenAI's ``type`` by status."""

PHOTO_QUESTION = "What is this?"
"""Question for a photo without a text, as phone apps send it."""

_MAX_PARTS = 100  # of a message, which may hold one picture
_MAX_CHARACTERS = 50_000  # of a part's text: a longer one takes seconds to clean, and an answer repeats its question
_MAX_NAME = 500  # characters of the model's, which an error repeats
_MAX_VALUES = 100_000
"""Commas and opening brackets of a body: at most as many values, each of which takes a hundred bytes and some microseconds."""

_FAULTS = {"model_type": "it has to be an object", "missing": "it is missing"}
"""Words for faults where pydantic names our classes, or speaks of fields."""

TIMEOUT = 504
"""Status of a question whose time was up."""

AGENT_FAILED = "agent_failed"
"""Code of an exception in the agent."""

_RETRY_SECONDS = 10
"""Seconds after which a client may repeat a question that failed because of a busy model server or the time limit."""

_FAILURES: Mapping[Unanswered, tuple[int, str, int | None]] = {
    Unanswered.TIME: (TIMEOUT, "timeout", _RETRY_SECONDS),
    Unanswered.BUSY: (503, "model_busy", _RETRY_SECONDS),
    Unanswered.MODEL: (502, "model_failed", None),
    Unanswered.SEARCH: (502, "search_failed", None),
    Unanswered.PICTURE: (400, "invalid_image", None),
}
"""Status, code and ``Retry-After`` of questions without an answer, by their cause. Any other is the agent's own fault."""


class ProtocolError(Exception):
    """Error reply to a request.

    Args:
        status: HTTP status.
        message: Fault and remedy.
        code: OpenAI's ``code``.
        param: Faulty part of the request.
        retry_after: Seconds after which to try again, which the OpenAI client heeds; None if that would not help.
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

    def name_param(self, param: str) -> Self:
        """Name the faulty part of the request, where only its reader knows the name."""
        self.body["error"]["param"] = param
        return self


def build_failure(outcome: Outcome) -> ProtocolError:
    """Build the error of a question that has no answer because something failed (``Outcome.failed``).

    Its message names only the cause: words and address of a model's server belong in the log.
    """
    cause = outcome.cause or Unanswered.AGENT
    status, code, wait = _FAILURES.get(cause, (500, AGENT_FAILED, None))
    then = f"try again in {wait} s" if wait is not None else "the log of the server says more"
    return ProtocolError(status, f"{WORDS[cause]}; {then}", code, retry_after=wait)


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)  # as the API's document says: "true" is no truth value

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, content: Any) -> Any:
        """Leave out optional fields that are null: some clients write all fields."""
        if not isinstance(content, dict):
            return content
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in content.items() if value is not None or name not in optional}


class ImageUrl(_Strict):
    """Address of a picture: a data URL, or an http address if the server allows that."""

    url: str


class Part(_Strict):
    """A part of a message: text, a picture, or the refusal of an earlier answer."""

    type: Literal["text", "image_url", "refusal"]
    text: Annotated[str, Field(max_length=_MAX_CHARACTERS)] = ""
    refusal: Annotated[str, Field(max_length=_MAX_CHARACTERS)] = ""
    image_url: ImageUrl | None = None

    @model_validator(mode="after")
    def _is_what_its_type_says(self) -> Self:
        """Refuse a missing picture: the question would be answered without it."""
        if (self.type == "image_url") != (self.image_url is not None):
            raise PydanticCustomError("part", "a part has an image_url if its type says so, and only then")
        return self

    @property
    def words(self) -> str | None:
        """The text of the part, or None if it has none."""
        return {"text": self.text, "refusal": self.refusal}.get(self.type)


def _list_parts(content: Any) -> Any:
    """List the parts of a message's content, which may be a bare text or missing."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise PydanticCustomError("content", "the content of a message is a text or a list of parts")
    if len(content) > _MAX_PARTS:
        raise PydanticCustomError("content", f"a message may have {_MAX_PARTS} parts; join its texts")
    return content


class ChatMessage(_Strict):
    """A message of the dialog."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[
        list[Part], FailFast(), BeforeValidator(_list_parts, json_schema_input_type=str | list[Part] | None)
    ] = []

    @property
    def text(self) -> str:
        """Text parts of the message, one a line."""
        return "\n".join(part.words for part in self.content if part.words is not None)

    @property
    def pictures(self) -> list[str]:
        """URLs of the message's pictures."""
        return [part.image_url.url for part in self.content if part.image_url is not None]


class ResponseFormat(_Strict):
    """Form of the answer, which is always plain text."""

    type: Literal["text", "json_object", "json_schema"]

    @field_validator("type")
    @classmethod
    def _refuse_json(cls, value: str) -> str:
        if value != "text":
            message = "answers are plain text: leave it out; the answer's sources, verdict and entity are JSON in the field crag"
            raise PydanticCustomError("unsupported", message)
        return value


class ChatRequest(_Strict):
    """A request for a chat completion.

    Other fields, such as sampling parameters, are ignored: the preset decides. Parameters that change the kind of answer are refused.
    """

    model: Annotated[str, Field(max_length=_MAX_NAME)]
    messages: Annotated[list[ChatMessage], FailFast()] = Field(min_length=1, max_length=200)
    stream: bool | None = None
    n: Literal[1] | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    logprobs: Literal[False] | None = None
    response_format: ResponseFormat | None = None

    @field_validator("tools", "functions")
    @classmethod
    def _refuse_tools(cls, value: list[Any] | None) -> list[Any] | None:
        if value:
            raise PydanticCustomError("unsupported", "this agent calls no tools of a client: leave them out")
        return value


def refuse_many_values(body: bytes) -> None:
    """Refuse JSON that would be costly to parse and check.

    Raises:
        ProtocolError: The body may have too many values.
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > _MAX_VALUES:
        message = f"the body has more than {_MAX_VALUES} commas and brackets; send fewer parts, or shorter texts"
        raise ProtocolError(400, message, "too_many_values")


def parse_request(body: bytes) -> ChatRequest:
    """Parse a request for a completion; see ``parse_body``."""
    return parse_body(ChatRequest, body)


_Request = TypeVar("_Request", bound=BaseModel)


def parse_body(model: type[_Request], body: bytes) -> _Request:
    """Parse a request from its JSON.

    Raises:
        ProtocolError: It is no JSON or breaks the protocol; the message says where.
    """
    refuse_many_values(body)
    try:
        return model.model_validate(parse_json(body))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(step) for step in fault["loc"])
        words = _FAULTS.get(fault["type"], fault["msg"])
        raise ProtocolError(400, f"{where or 'the body'}: {words}", param=where or None) from None
    except ValueError as error:
        raise ProtocolError(400, f"the body is no JSON: {error}") from None


def split_dialog(request: ChatRequest) -> tuple[str, tuple[Message, ...], str | None]:
    """Return the question, the messages before it, and the URL of the latest photo, if any.

    A photo without a text asks ``PHOTO_QUESTION``. Calls and results of tools are left out.

    Raises:
        ProtocolError: There is no question, or a message has several pictures.
    """
    spoken = [message for message in request.messages if message.role not in ("system", "developer")]
    question = _find_question(spoken[-1]) if spoken and spoken[-1].role == "user" else ""
    if not question:
        message = "the last message must be the user's, with a text or a photo"
        raise ProtocolError(400, message, param="messages")
    urls: list[str] = []
    history: list[Message] = []
    for each in spoken:
        if len(each.pictures) > 1:
            raise ProtocolError(
                400, "send at most one picture in a message; this agent looks at one photo", param="messages"
            )
        urls += each.pictures
        if each.role == "user" or (each.role == "assistant" and each.text):
            history.append(Message(role=each.role, content=each.text))
    return question, tuple(history[:-1]), urls[-1] if urls else None


def _find_question(message: ChatMessage) -> str:
    if message.text.strip():
        return message.text
    return PHOTO_QUESTION if message.pictures else ""


def build_reply(
    identity: str,
    created: int,
    model: str,
    outcome: Outcome | None,
    delta: Mapping[str, str] | None = None,
    stage: str | None = None,
) -> dict[str, Any]:
    """Build the JSON of a whole answer or, with ``delta``, of one piece of a stream.

    A stream has its ``outcome`` (field ``crag``, docs/serving.md) only in the last piece. A piece before the answer may name the agent's
    is doing (field ``crag_stage``). Texts of errors belong to the log, as those of failures do.
    """
    choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": None if outcome is None else "stop"}
    if delta is not None:
        choice["delta"] = dict(delta)
    elif outcome is not None:
        choice["message"] = {"role": "assistant", "content": outcome.answer, "refusal": None}
    reply = {
        "id": identity,
        "object": "chat.completion" if delta is None else "chat.completion.chunk",
        "created": created,
        "model": model,
        "choices": [choice],
        **({} if outcome is None else {"crag": outcome.without_error_texts().as_json()}),
        **({} if stage is None else {"crag_stage": stage}),
    }
    return {name: make_plain(value) for name, value in reply.items()}


def make_plain(value: Any) -> Any:
    """Make a value encodable as JSON in UTF-8.

    Halves of surrogate pairs become "?", and infinities and NaN, which models may produce, become None.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {make_plain(name): make_plain(inner) for name, inner in value.items()}
    return [make_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def format_event(content: Mapping[str, Any]) -> str:
    """Format a server-sent event."""
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"


DONE = "data: [DONE]\n\n"
