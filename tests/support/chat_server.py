"""A server of the chat-completions protocol for tests: what it says is scripted, the connection is real."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response


def serve_chat(
    server: HTTPServer, say: Callable[[Mapping[str, Any]], str | Response], models: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Answer each request with what ``say`` makes of its body; returns the bodies as they come. ``models`` are listed."""
    bodies: list[dict[str, Any]] = []

    def handle(request: Request) -> Response:
        bodies.append(json.loads(request.data))
        reply = say(bodies[-1])
        return reply if isinstance(reply, Response) else streamed(reply)

    server.expect_request("/v1/chat/completions", method="POST").respond_with_handler(handle)
    listed = [{"id": name, "object": "model", "created": 1, "owned_by": "us"} for name in models]
    server.expect_request("/v1/models", method="GET").respond_with_json({"object": "list", "data": listed})
    return bodies


def streamed(text: str) -> Response:
    """A reply as a stream of one chunk."""
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [
        {"index": 0, "delta": {"content": text}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": "stop"},
    ]
    lines = [f"data: {json.dumps({**head, 'choices': [choice]})}\n\n" for choice in choices]
    return Response("".join(lines) + "data: [DONE]\n\n", content_type="text/event-stream")


def refused(status: int, message: str) -> Response:
    """An error of the protocol."""
    return Response(json.dumps({"error": {"message": message}}), status=status, content_type="application/json")
