"""Photos made to take long, sent to a server on loopback: they cost themselves, in bounded time."""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from apps.serving import pictures
from apps.serving.app import ServerLimits
from apps.serving.pictures import PhotoReader
from apps.serving.protocol import ProtocolError
from tests.apps.conftest import (
    KEY,
    PHOTO,
    ScriptedAgent,
    data_url,
    encoded,
    make_message,
    serving,
    unanswered,
    within_a_minute,
)

ROOT = Path(__file__).parents[2]
HEADERS = {"Authorization": f"Bearer {KEY}"}
ENDLESS = 600.0  # seconds: a limit that does not end anything in these tests
hostile = pytest.mark.hostile("photos made to take long, sent to a server; clients who leave meanwhile")


def body_with(data: bytes, kind: str = "jpeg", **more: Any) -> bytes:
    url = data_url(PHOTO).partition(",")[0].replace("png", kind)
    message = make_message("How tall?", f"{url},{base64.b64encode(data).decode()}")
    return json.dumps({"model": "crag-mm-test", "messages": [message], **more}).encode()


def complete(url: str, body: bytes, timeout: float = 60.0) -> httpx.Response:
    return httpx.post(f"{url}/v1/chat/completions", content=body, headers=HEADERS, timeout=timeout)


GOOD = body_with(encoded(PHOTO, "JPEG"))
UNUSUAL = body_with(encoded(PHOTO, "TIFF"), "tiff")  # decoded in the process, as slow ones are


def wait_for(url: str, **counts: int) -> None:
    """Wait until /health tells these counts: the server learns of connections when its loop comes to them."""
    end = time.monotonic() + 60
    while {name: (health := httpx.get(f"{url}/health").json())[name] for name in counts} != counts:
        assert time.monotonic() < end, f"{health} instead of {counts}"


@contextlib.contextmanager
def attacked(url: str, slow: bytes, count: int = 8) -> Iterator[None]:
    """Clients whose photos are being decoded, or wait for it; they leave in the end."""
    body = body_with(slow)
    with contextlib.ExitStack() as connections:
        for _ in range(count):
            connections.enter_context(unanswered(url, "/v1/chat/completions", body, f"Authorization: Bearer {KEY}\r\n"))
        wait_for(url, photos=count, questions=count)
        yield


@hostile
@pytest.mark.parametrize("stream", [False, True])
def test_a_photo_that_takes_too_long_is_refused_in_words(agent: ScriptedAgent, slow: bytes, stream: bool) -> None:
    with serving(agent, limits=ServerLimits(decode_seconds=1.0)) as url:
        refused = complete(url, body_with(slow, stream=stream))
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["type"]) == (400, "image_too_slow", "invalid_request_error")
        assert "more than 1 s to decode" in error["message"]
        wait_for(url, photos=0, questions=0)
        metrics = httpx.get(f"{url}/metrics", headers=HEADERS).text
        assert 'crag_requests_total{code="image_too_slow",status="400"} 1.0' in metrics
        assert "crag_photo_seconds_count 1.0" in metrics and "crag_photos_inside 0.0" in metrics
        assert not agent.calls
        assert within_a_minute(lambda: complete(url, UNUSUAL).status_code == 200)  # its process is a new one


@hostile
def test_ordinary_photos_are_answered_while_slow_ones_are_decoded(agent: ScriptedAgent, slow: bytes) -> None:
    with serving(agent, limits=ServerLimits(decode_seconds=ENDLESS)) as url, attacked(url, slow):
        assert [complete(url, GOOD).status_code for _ in range(3)] == [200] * 3
        assert httpx.get(f"{url}/health").json()["photos"] == 8


@hostile
def test_addresses_that_do_not_answer_delay_no_photo_that_was_sent(
    agent: ScriptedAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are refused in time, too, where looking up their names has no end."""
    release = threading.Event()
    monkeypatch.setattr(pictures, "fetch", lambda url, **limits: release.wait(ENDLESS))
    monkeypatch.setattr(pictures, "_FETCH_SECONDS", 0.5)
    body = json.dumps({"model": "crag-mm-test", "messages": [make_message("?", "http://slow.example/a.jpg")]}).encode()
    limits = ServerLimits(http_pictures=True)
    try:
        with serving(agent, limits=limits) as url, ThreadPoolExecutor(20) as clients:
            for reply in clients.map(lambda _: complete(url, body), range(20)):
                assert (reply.status_code, reply.json()["error"]["code"]) == (400, "image_url_not_reachable")
            assert complete(url, GOOD).status_code == 200  # while the threads that fetch still wait
    finally:
        release.set()


@hostile
def test_clients_who_leave_end_the_decoding_and_free_their_places(agent: ScriptedAgent, slow: bytes) -> None:
    with serving(agent, limits=ServerLimits(decode_seconds=ENDLESS, questions=8)) as url:
        with attacked(url, slow):
            assert complete(url, GOOD).json()["error"]["code"] == "server_busy"
        wait_for(url, photos=0, questions=0)
        assert complete(url, UNUSUAL).status_code == 200  # the process is free
        metrics = httpx.get(f"{url}/metrics", headers=HEADERS).text
    assert 'crag_requests_total{code="client_left",status="499"} 8.0' in metrics


@hostile
def test_decoding_counts_towards_the_time_of_the_answer(agent: ScriptedAgent, slow: bytes) -> None:
    with serving(agent, limits=ServerLimits(decode_seconds=ENDLESS, answer_seconds=0.5)) as url:
        late = complete(url, body_with(slow))
        assert (late.status_code, late.json()["error"]["code"]) == (504, "timeout")
        wait_for(url, photos=0, questions=0)


@hostile
def test_requests_that_are_still_arriving_take_no_place(agent: ScriptedAgent) -> None:
    with serving(agent, limits=ServerLimits(questions=1)) as url, contextlib.ExitStack() as connections:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
        for _ in range(4):
            half_sent = connections.enter_context(socket.create_connection(("127.0.0.1", httpx.URL(url).port)))
            half_sent.sendall(f"{head}Content-Length: {len(GOOD)}\r\n\r\n".encode() + GOOD[:1])
        wait_for(url, questions=0)
        assert complete(url, GOOD).status_code == 200


SERVER = """
    import sys
    from apps.answering import Answerer
    from apps.http_server import HttpOptions, listen, run
    from apps.serving.app import Server
    from tests.apps.conftest import KEY, ScriptedAgent

    options = HttpOptions(port=int(sys.argv[1]))
    with listen(options) as listener:
        app = Server(Answerer(ScriptedAgent()), model="crag-mm-test", key=KEY).app
        run(app, options, listener, notice="the server answers")
"""


@hostile
def test_a_server_that_decodes_slow_photos_stops_soon(slow: bytes) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([sys.executable, "-c", textwrap.dedent(SERVER), str(port)], cwd=ROOT)
    try:
        end = time.monotonic() + 120
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{url}/health")
                break
            assert time.monotonic() < end and server.poll() is None
        with attacked(url, slow):
            stop_time = time.monotonic()
            server.send_signal(signal.SIGTERM)
            server.wait(60)
            assert time.monotonic() - stop_time < 20.0  # uvicorn's grace for answers under way is 30 s
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize("side", [8_000, 20_000])
def test_a_picture_of_too_many_pixels_is_too_large_however_many(side: int) -> None:
    with pytest.raises(ProtocolError, match=r"pixels.*; make it smaller") as refused:
        PhotoReader(50_000_000).decode_now(encoded(Image.new("1", (side, side)), "PNG"))
    assert refused.value.code == "image_too_large"


@hostile
@pytest.mark.parametrize("filling", [b"\xff\xe5\x00\x02", b"\xff"], ids=["segments", "fill bytes"])
def test_a_header_of_millions_of_pieces_does_not_keep_the_server_busy(filling: bytes) -> None:
    whole = encoded(PHOTO, "JPEG")
    data = whole[:2] + filling * (12_000_000 // len(filling)) + whole[2:]
    reader = PhotoReader(1_000_000, seconds=0.5)
    began = time.process_time()
    with pytest.raises(ProtocolError, match=r"more than 0.5 s"):
        reader.decode_now(data)
    assert time.process_time() - began < 1.5  # 3 s and more in this process


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
def test_common_formats_are_decoded(kind: str) -> None:
    image = PhotoReader(1_000_000, seconds=60.0).decode_now(encoded(PHOTO, kind))
    assert image.size == PHOTO.size and image.mode == "RGB"
    red, green, _ = image.getpixel((9, 9))  # type: ignore[misc]
    assert red > 150 > green
