"""A server of the chat-completions protocol before another one, which counts the tokens of what passes."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from apps.http_server import configure

_HEADERS = ("content-type", "authorization")
_END_SECONDS = 30.0


@dataclass
class Counts:
    """Counts of the replies that passed."""

    calls: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0  # those of the prompt that a prefix cache knew
    reply_tokens: int = 0

    def add(self, answered: dict[str, Any]) -> None:
        """Add the usage of a completion, or of the last chunk of a stream; llama.cpp tells of its cache in ``timings``."""
        usage, timings = answered.get("usage") or {}, answered.get("timings") or {}
        if not usage and not timings:
            return
        reused = timings.get("cache_n", (usage.get("prompt_tokens_details") or {}).get("cached_tokens")) or 0
        self.calls += 1
        self.prompt_tokens += usage.get("prompt_tokens") or reused + timings.get("prompt_n", 0)
        self.reused_tokens += reused
        self.reply_tokens += usage.get("completion_tokens") or timings.get("predicted_n", 0)


@dataclass
class CountingServer:
    """Server that passes requests on to ``behind``, the root of an API such as ``http://127.0.0.1:8000/v1``."""

    behind: str
    counts: Counts = field(default_factory=Counts)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Listen on loopback; yield the root of its API."""
        app = FastAPI()
        app.add_api_route("/v1/{path:path}", self._pass_on, methods=["GET", "POST"])
        server = uvicorn.Server(configure(app))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
            finally:
                server.should_exit = True
                thread.join(_END_SECONDS)

    async def _pass_on(self, path: str, request: Request) -> Response:
        content = await request.body()
        if path == "chat/completions":
            fields = json.loads(content)
            if fields.get("stream"):
                fields["stream_options"] = {"include_usage": True}
            content = json.dumps(fields).encode()
        client = httpx.AsyncClient(timeout=None)  # whoever asks has a limit of its own
        headers = {name: request.headers[name] for name in _HEADERS if name in request.headers}
        upstream_request = client.build_request(
            request.method, f"{self.behind}/{path}", content=content, headers=headers
        )
        answered = await client.send(upstream_request, stream=True)

        if not answered.headers.get("content-type", "").startswith("text/event-stream"):
            whole = await answered.aread()
            await client.aclose()
            self.counts.add(_read_object(whole))
            return Response(whole, answered.status_code, media_type=answered.headers.get("content-type"))

        async def chunks() -> AsyncIterator[str]:
            last: dict[str, Any] = {}
            try:
                async for line in answered.aiter_lines():
                    event = _read_object(line.removeprefix("data:"))
                    last |= {key: event[key] for key in ("usage", "timings") if event.get(key)}
                    yield f"{line}\n"
            finally:
                self.counts.add(last)
                await answered.aclose()
                await client.aclose()

        return StreamingResponse(chunks(), answered.status_code, media_type=answered.headers["content-type"])


def _read_object(text: str | bytes) -> dict[str, Any]:
    """Read a JSON object; {} if it is none."""
    try:
        fields = json.loads(text)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}
