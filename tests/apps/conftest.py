"""An agent of the real pipeline over scripted models, and a server of it on loopback."""

from __future__ import annotations

import base64
import contextlib
import io
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from PIL import Image
from starlette.types import ASGIApp

from agents.base_agent import BaseAgent
from agents.crag_agent import CragAgent
from agents.models.base import ChatReply
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Limits, Profile
from agents.settings.presets import Settings
from apps.answering import Answerer
from apps.http_server import configure, protect
from apps.serving.app import Server, ServerLimits
from tests.agent.scripted import ScriptedChat, ScriptedPipeline, WordOverlapReranker
from tests.support.hostile_files import scans

KEY = "a-key-for-tests"
PHOTO = Image.new("RGB", (64, 48), (200, 30, 30))


class ScriptedAgent(BaseAgent):
    """Answers by a function; ``calls`` holds what each call was asked, ``open`` lets calls through."""

    def __init__(self, say: Callable[[str], str] = lambda query: f"answer to {query}", batch_size: int = 4) -> None:
        super().__init__()
        self.say, self.batch_size = say, batch_size
        self.calls: list[list[str]] = []
        self.images: list[Any] = []
        self.histories: list[Any] = []
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()

    def get_batch_size(self) -> int:
        return self.batch_size

    def batch_generate_response(
        self, queries: Sequence[str], images: Sequence[Any], message_histories: Any = None, **kwargs: Any
    ) -> list[str]:
        self.calls.append(list(queries))
        self.images.extend(images)
        self.histories.extend(message_histories)
        self.entered.set()
        assert self.open.wait(60)
        return [self.say(query) for query in queries]


def red_tower() -> ScriptedPipeline:
    """A search that finds a red tower, 300 m tall."""
    return ScriptedPipeline(
        {(64, 48): ("Red Tower", {"height": "300 m"})}, {"tower": "The Red Tower was opened in 1901."}
    )


def crag_agent(reply: str = "300 m", pipeline: Any = None, limits: Limits | None = None, **options: Any) -> CragAgent:
    """The real agent over a search, ``red_tower`` if None, and a scripted model."""
    stages = "image_search", "queries", "web_search", "evidence", "rerank", "answer", "finalise"
    settings = Settings(stages=stages, limits=limits or Limits())
    ready = {
        "reranker": WordOverlapReranker(),
        "chat": ScriptedChat(lambda request: ChatReply(reply, "stop", logprobs=(-0.5, -0.1))),
    }
    models = ModelSet(Profile(name="scripted", models={}), Path("unused"), ready=ready)
    return CragAgent(pipeline or red_tower(), settings=settings, models=models, **options)


@contextlib.contextmanager
def serving(agent: BaseAgent, *, key: str | None = KEY, limits: ServerLimits | None = None) -> Iterator[str]:
    """A real server on a free port of loopback; gives its address. Connections wait in the socket until it is up."""
    with listening(Server(Answerer(agent), model="crag-mm-test", key=key, limits=limits or ServerLimits()).app) as url:
        yield url


@contextlib.contextmanager
def listening(app: ASGIApp, origins: Sequence[str] = (), proxies: Sequence[str] = ()) -> Iterator[str]:
    """An application behind the web server that the commands start."""
    server = uvicorn.Server(configure(protect(app, origins=origins), proxies=proxies))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
            assert not thread.is_alive()


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def data_url(image: Image.Image, kind: str = "PNG") -> str:
    return f"data:image/{kind.lower()};base64,{base64.b64encode(encoded(image, kind)).decode()}"


def make_message(text: str, image: str | None = None) -> dict[str, Any]:
    """A user's message."""
    if image is None:
        return {"role": "user", "content": text}
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": image}}]
    return {"role": "user", "content": parts}


def unanswered(url: str, path: str, body: bytes, head: str = "") -> socket.socket:
    """A connection with a request whose answer nobody has read yet."""
    connection = socket.create_connection(("127.0.0.1", httpx.URL(url).port))
    lines = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{head}\r\n"
    connection.sendall(lines.encode() + body)
    return connection


def within_a_minute(holds: Callable[[], bool]) -> bool:
    """Whether something holds at last: on a busy machine a new process may take longer to start than a photo may take."""
    end = time.monotonic() + 60
    while not (result := holds()) and time.monotonic() < end:
        pass
    return result


@pytest.fixture(scope="session")
def slow() -> bytes:
    """A JPEG of 49 megapixels and 417 KB whose thousands of scans take minutes."""
    data = scans(3_000, side=7_000)
    assert len(data) < 600_000
    return data


@pytest.fixture
def agent() -> Iterator[ScriptedAgent]:
    scripted_agent = ScriptedAgent()
    yield scripted_agent
    scripted_agent.open.set()
