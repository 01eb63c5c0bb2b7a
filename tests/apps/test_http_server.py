"""What page and server keep from their neighbours, seen through real sockets on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import select
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from apps.http_server import TimedProtocol, protect
from apps.page_guard import PageGuard
from apps.serving.pictures import PhotoReader
from tests.apps.conftest import listening


async def tell(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that tells who asks, and lets any page read it, as gradio does."""
    if scope["type"] == "http":
        request = Request(scope, receive)
        with contextlib.suppress(ClientDisconnect):
            await request.body()
        text = f"{request.client.host if request.client else None} {request.headers.get('origin')}"
        await PlainTextResponse(text, headers={"X-Seen": "1"})(scope, receive, send)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with listening(tell) as address:
        yield address


@pytest.mark.parametrize(
    "host", ["attacker.example", "127.0.0.1.attacker.example", "127.0.0.1@attacker.example", "localhost.", ""]
)
def test_other_names_are_refused(url: str, host: str) -> None:
    """DNS rebinding: a page's own name resolves to this machine."""
    answer = httpx.get(url, headers={"Host": host})
    assert answer.status_code == 400 and "x-seen" not in answer.headers


@pytest.mark.parametrize("host", ["127.0.0.1:80", "localhost", "LocalHost:8000", "[::1]:8000"])
def test_names_of_loopback_are_answered(url: str, host: str) -> None:
    assert httpx.get(url, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("host", "hosts", "host_header", "status"),
    [
        ("192.0.2.7", [], "192.0.2.7:8000", 200),
        ("2001:db8::7", [], "[2001:db8::7]:8000", 200),
        ("0.0.0.0", [], "0.0.0.0:8000", 400),
        ("0.0.0.0", ["crag.example"], "crag.example", 200),
        ("0.0.0.0", ["www.crag.example"], "crag.example", 400),
        ("0.0.0.0", ["*.crag.example"], "www.crag.example", 200),
    ],
)
def test_the_address_listened_on_and_allowed_names_are_answered(
    host: str, hosts: list[str], host_header: str, status: int
) -> None:
    client = TestClient(protect(tell, host, hosts))
    assert client.get("/", headers={"Host": host_header}).status_code == status


FOREIGN = ["https://attacker.example", "null", "http://localhost:1", "http://127.0.0.1.attacker.example"]


def posted(url: str, **headers: str) -> httpx.Response:
    return httpx.post(url, content=b"{}", headers={name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize("origin", FOREIGN)
def test_pages_of_other_origins_change_nothing_and_read_nothing(url: str, origin: str) -> None:
    refused = posted(url, Origin=origin)
    assert refused.status_code == 403 and "x-seen" not in refused.headers
    preflight = httpx.options(url, headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
    for answer in (refused, preflight, httpx.get(url, headers={"Origin": origin})):
        assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_the_browsers_own_word_counts_where_there_is_no_origin(url: str, site: str) -> None:
    assert posted(url, Sec_Fetch_Site=site).status_code == 403


def test_the_page_itself_and_programs_are_answered(url: str) -> None:
    own = f"http://{httpx.URL(url).netloc.decode()}"
    assert posted(url).status_code == 200
    assert posted(url, Origin=own).status_code == 200
    assert posted(url, Origin=own, Sec_Fetch_Site="same-origin").status_code == 200
    assert posted(url, Sec_Fetch_Site="none").status_code == 200
    assert posted(url, Origin=own).text.endswith(" None")  # nothing inside adds CORS headers of its own


def test_named_origins_may_ask_and_read() -> None:
    site = "https://friend.example"
    with listening(tell, origins=[site]) as url:
        answer = posted(url, Origin=site, Sec_Fetch_Site="cross-site")
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, site)
        preflight = {
            "Origin": site,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        }
        assert httpx.options(url, headers=preflight).headers["access-control-allow-headers"] == "authorization"
        foreign = posted(url, Origin=FOREIGN[0])
        assert foreign.status_code == 403 and "access-control-allow-origin" not in foreign.headers


@pytest.mark.parametrize(
    ("proxies", "client_host"), [([], "127.0.0.1"), (["127.0.0.1"], "203.0.113.7"), (["192.0.2.1"], "127.0.0.1")]
)
def test_only_named_proxies_say_who_asks(proxies: list[str], client_host: str) -> None:
    with listening(tell, proxies=proxies) as url:
        assert httpx.get(url, headers={"X-Forwarded-For": "203.0.113.7"}).text.startswith(f"{client_host} ")


def closed_within(connection: socket.socket, drip: bytes, seconds: float) -> bool:
    """Whether the other side closes a connection into which one byte after the other is sent."""
    end = time.monotonic() + seconds
    for place in itertools.count():
        if time.monotonic() > end:
            return False
        if select.select([connection], [], [], 0.02)[0]:
            try:
                if not connection.recv(65536):
                    return True
            except ConnectionError:
                return True
        with contextlib.suppress(ConnectionError):  # closed meanwhile: the next look says so
            connection.send(bytes(itertools.islice(itertools.cycle(drip), place, place + 1)))
    raise AssertionError


POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
SLOW = {
    "says nothing": (b"", b""),
    "half a request line": (b"GET / HT", b""),
    "half-sent headers": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ", b""),
    "headers that drip": (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-A: b\r\n"),
    "headers that drip on a connection that was used": (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2 + b"GET / HTTP/1.1\r\n", b"X-A: b\r\n",
    ),
    "a body that does not come": (POST, b""),
    "a body that drips": (POST, b"x"),
    "a body that drips after its refusal": (POST.replace(b"localhost", b"attacker.example"), b"x"),
}  # fmt: skip


@pytest.mark.parametrize("case", SLOW)
def test_requests_that_do_not_arrive_are_given_up(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedProtocol, "header_seconds", 0.3)
    monkeypatch.setattr(TimedProtocol, "body_seconds", 0.3)
    begun, drip = SLOW[case]
    with listening(tell) as url, socket.create_connection(("127.0.0.1", httpx.URL(url).port)) as connection:
        connection.sendall(begun)
        assert closed_within(connection, drip, 10)


@pytest.mark.hostile("requests of small JSON that is costly to check")
def test_the_page_parses_no_json_of_many_values() -> None:
    with listening(PageGuard(tell, PhotoReader(1_000))) as url:
        assert httpx.post(f"{url}/gradio_api/queue/join", content=b"{}").status_code == 200
        refused = httpx.post(f"{url}/gradio_api/queue/join", content=b"[" + b"{}," * 60_000 + b"1]")
    assert refused.status_code == 400 and "commas and brackets" in refused.text


@pytest.mark.hostile("requests of small JSON that is costly to check")
@pytest.mark.parametrize(("size", "status"), [(1, 400), (1_000, 200)])
def test_a_body_of_many_small_chunks_is_refused(size: int, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedProtocol, "max_small_pieces", 50)

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await PlainTextResponse(str(len(await Request(scope, receive).body())))(scope, receive, send)

    chunk = b"%x\r\n%s\r\n" % (size, b"x" * size)
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with listening(read) as url, socket.create_connection(("127.0.0.1", httpx.URL(url).port)) as connection:
        connection.sendall(head + chunk * 100 + b"0\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 %d " % status)


def test_an_answer_takes_the_time_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are those of the request, not of what the application does with it."""
    monkeypatch.setattr(TimedProtocol, "header_seconds", 0.4)
    monkeypatch.setattr(TimedProtocol, "body_seconds", 0.4)

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await Request(scope, receive).body()
            await asyncio.sleep(0.8)
            await PlainTextResponse("late")(scope, receive, send)

    with listening(late) as url:
        assert posted(url).text == "late"


def test_large_headers_are_refused(url: str) -> None:
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 70_000)
        assert b"400" in connection.recv(1000)


@pytest.mark.parametrize(
    ("size", "status"), [(30_000, 200), (33_000, 400), (40_000, 400), (64_000, 400), (100_000, 400)]
)
def test_headers_that_arrive_whole_have_the_same_limit(url: str, size: int, status: int) -> None:
    answer = httpx.get(url, headers={"X-A": "a" * size})
    assert answer.status_code == status
    if size == 33_000:
        assert answer.json()["error"]["code"] == "headers_too_large"


@pytest.mark.parametrize("headers", [{}, {"Host": "attacker.example"}, {"X-A": "a" * 40_000}])
def test_every_answer_is_protected_in_a_browser(url: str, headers: dict[str, str]) -> None:
    answer = httpx.get(url, headers=headers)
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
