"""The OpenAPI document of the server.

It adds the bodies that ``protocol`` reads and writes, which FastAPI cannot see.
"""

from collections.abc import Callable
from typing import Any, Literal

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from apps.outcome import Outcome
from apps.serving.protocol import ChatRequest
from apps.serving.searching import SearchReply, SearchRequest

_REASONS = {
    400: "the request is malformed, its picture cannot be used, or its Host is another",
    401: "no key, or a wrong one",
    403: "sent by another site's page",
    404: "there is no such model",
    408: "the body did not arrive in time",
    413: "the body is too large",
    429: "too many requests, wrong keys or questions",
    500: "the agent failed",
    502: "the model or the search failed",
    503: "the model's server is busy or cannot be reached, or there are too many connections",
    504: "no answer in time",
}
_REFERENCE = "#/components/schemas/{model}"


class ErrorDetail(BaseModel):
    """Details of an error."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorReply(BaseModel):
    """An error in OpenAI's shape."""

    error: ErrorDetail


class ModelReply(BaseModel):
    """A model of this server, which has one."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelsReply(BaseModel):
    """All models."""

    object: Literal["list"]
    data: list[ModelReply]


class AnswerMessage(BaseModel):
    """The answer."""

    role: Literal["assistant"]
    content: str
    refusal: None


class Choice(BaseModel):
    """The only choice."""

    index: Literal[0]
    message: AnswerMessage
    logprobs: None
    finish_reason: Literal["stop"]


class CompletionReply(BaseModel):
    """An answer and how it came about."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    crag: Outcome


class IndexReply(BaseModel):
    """The index that is searched from now on, whether it is another one than before, and the files changed since it was built."""

    object: Literal["index"]
    revision: str
    is_new: bool
    changed: list[str]


class HealthReply(BaseModel):
    """Whether the agent answers, its open calls, and the number of failures in a row."""

    status: Literal["ok", "degraded", "stuck"]
    model: str
    questions: int
    calls: int
    photos: int
    failures: int


def describe_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Build FastAPI's ``responses`` for these error statuses."""
    return {status: {"model": ErrorReply, "description": _REASONS[status]} for status in statuses}


COMPLETION: dict[int | str, dict[str, Any]] = {
    200: {
        "model": CompletionReply,
        "description": "the answer; with stream, server-sent events: crag_stage in those before the answer, crag in the last",
        "content": {"text/event-stream": {}},
    },
    **describe_errors(400, 401, 404, 408, 413, 429, 500, 502, 503, 504),
}
SEARCH: dict[int | str, dict[str, Any]] = {
    200: {"model": SearchReply},
    **describe_errors(400, 401, 408, 413, 429, 500, 502, 503, 504),
}
INDEX: dict[int | str, dict[str, Any]] = {200: {"model": IndexReply}, **describe_errors(400, 401, 429, 502)}
MODELS: dict[int | str, dict[str, Any]] = {200: {"model": ModelsReply}, **describe_errors(401, 429)}
MODEL: dict[int | str, dict[str, Any]] = {200: {"model": ModelReply}, **describe_errors(401, 404, 429)}
HEALTH: dict[int | str, dict[str, Any]] = {
    200: {"model": HealthReply},
    503: {"model": HealthReply, "description": "a call of the agent hangs"},
}
METRICS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus", "content": {"text/plain": {"schema": {"type": "string"}}}},
    **describe_errors(401, 429),
}

KEY_REQUEST: dict[str, Any] = {"security": [{"key": []}]}


def describe_request(model: type[BaseModel]) -> dict[str, Any]:
    """Build FastAPI's ``openapi_extra`` for a request with a key and a JSON body."""
    schema = {"$ref": _REFERENCE.format(model=model.__name__)}
    return {**KEY_REQUEST, "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


CHAT_REQUEST = describe_request(ChatRequest)
SEARCH_REQUEST = describe_request(SearchRequest)
MODEL_REQUEST: dict[str, Any] = {
    **KEY_REQUEST,
    "parameters": [{"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}],
}


def make_openapi(app: FastAPI, model: str) -> Callable[[], dict[str, Any]]:
    """Return a replacement for ``app.openapi`` that also describes requests, the key and the ``model``."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
            request = ChatRequest.model_json_schema(ref_template=_REFERENCE)
            request["properties"]["model"]["enum"] = [model]
            for parameter in schema["paths"]["/v1/models/{model}"]["get"]["parameters"]:
                parameter["schema"]["enum"] = [model]
            search = SearchRequest.model_json_schema(ref_template=_REFERENCE)
            schema["components"]["schemas"] |= {
                **request.pop("$defs"),
                ChatRequest.__name__: request,
                SearchRequest.__name__: search,
            }
            schema["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            app.openapi_schema = schema
        return app.openapi_schema

    return openapi
