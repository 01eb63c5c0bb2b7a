"""What people, programs and metrics are told of a question whose model, search or stage fails, in each way to fail."""

from __future__ import annotations

import contextlib
import io
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
from pytest_httpserver import HTTPServer
from werkzeug import Response

from agents.crag_agent import CragAgent
from agents.models.chat.openai_chat import OpenAIChat
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Limits, Profile
from agents.settings.presets import settings_from
from apps import terminal
from apps.answering import Answerer
from tests.agent.scripted import WordOverlapReranker
from tests.apps.conftest import KEY, PHOTO, data_url, make_message, red_tower, serving
from tests.support.chat_server import serve_chat
from tests.support.failing_server import FAILURES
from tests.support.scripted_parts import BrokenSearch

STAGES = ("image_search", "queries", "web_search", "evidence", "rerank", "answer", "finalise")
SHORT = Limits(seconds_per_turn=1.5, margin_seconds=0.2)
"""Time of a question to a model that never replies."""


@dataclass(frozen=True)
class FailureReport:
    """Outcome of terminal, server and metrics for one failed question.

    Attributes:
        status: Exit status of ``crag ask``.
        stderr: What it prints on standard error.
        stdout: What it prints on standard output with ``--brief``.
        http: Status of the server's reply, with its error code and ``Retry-After``.
        metrics: Counters that are not 0.
    """

    status: int
    stderr: str
    stdout: str
    http: int
    code: str
    retry_after: str
    body: dict[str, Any]
    metrics: dict[str, float]


@contextlib.contextmanager
def answering(way: str) -> Iterator[CragAgent]:
    """An agent of the real pipeline and a real client of a server that fails in this way."""
    over = threading.Event()

    def hang(_: Any) -> Response:
        over.wait(60)
        return Response(status=500)

    say: Callable[[Any], Any] = hang if way == "hangs" else FAILURES.get(way, lambda _: "I don't know")
    with HTTPServer(threaded=True) as server:
        serve_chat(server, say)
        chat = OpenAIChat("m", server.url_for("/v1"), attempts=2, max_pause=0.01)
        models = ModelSet(
            Profile(name="scripted", models={}),
            Path("unused"),
            ready={"chat": chat, "reranker": WordOverlapReranker()},
        )
        limits = {"limits": SHORT.model_dump()} if way == "hangs" else {}
        search = BrokenSearch() if way == "search" else red_tower()
        agent = CragAgent(search, settings=settings_from({"stages": STAGES, **limits}), models=models)
        if way == "stage":
            agent.pipeline.stages[-2].run = _raise  # type: ignore[method-assign]
        try:
            yield agent
        finally:
            over.set()


def _raise(*_: Any) -> None:
    raise KeyError("no such column")


OTHER_WAYS = ("hangs", "search", "stage")
"""Ways to fail besides those of a server that replies: a model without a reply, a search, a stage of one's own."""
WAYS = (*FAILURES, *OTHER_WAYS)


def tell(way: str, folder: Path) -> FailureReport:
    """Ask one question in the terminal and one of the server, and return what is told."""
    photo = folder / "photo.png"
    PHOTO.save(photo)
    out, err = io.StringIO(), io.StringIO()
    with (
        answering(way) as agent,
        patch.object(terminal, "start", lambda _: Answerer(agent)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = terminal.main([str(photo), "How tall is this?", "--brief"])
    body = {"model": "crag-mm-test", "messages": [make_message("How tall is this?", data_url(PHOTO))]}
    headers = {"Authorization": f"Bearer {KEY}"}
    with answering(way) as agent, serving(agent) as url:
        reply = httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=60)
        counters = httpx.get(f"{url}/metrics", headers=headers).text
    counts = re.findall(r"^(crag_(?:requests|failures|abstentions)_total\S*) ([\d.]+)$", counters, re.MULTILINE)
    return FailureReport(
        status,
        err.getvalue().strip(),
        out.getvalue().strip(),
        reply.status_code,
        (reply.json().get("error") or {}).get("code") or "",
        reply.headers.get("retry-after", ""),
        reply.json(),
        {name: float(value) for name, value in counts if float(value)},
    )
