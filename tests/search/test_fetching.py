"""What is fetched, from where, and how much of it; over a real HTTP server."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from agents.search.pages import fetching
from agents.search.pages.fetching import FetchError, fetch, is_public

pytestmark = pytest.mark.hostile("fetching: addresses, redirects, slow and endless servers (loopback)")


def anyone(_: str) -> bool:
    return True


def get(url: str, seconds: float = 5.0, max_bytes: int = 1000, **options: Any) -> fetching.Response:
    return fetch(url, seconds=seconds, max_bytes=max_bytes, **{"allowed": anyone, **options})


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "93.184.215.14"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1", "240.0.0.1",
     "::1", "::", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::", "no address", ""],
)  # fmt: skip
def test_addresses_of_no_business_of_ours(address: str) -> None:
    assert not is_public(address)


def test_a_private_address_is_never_connected_to(httpserver: HTTPServer) -> None:
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(FetchError, match="no public address"):
            fetch(f"http://{host}:{httpserver.port}/a", seconds=5, max_bytes=10)
    assert httpserver.log == []


def test_the_address_that_was_checked_is_the_one_connected_to(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_request("/a").respond_with_data("x")
    answers = iter(["127.0.0.1", "10.0.0.1"])
    real = socket.getaddrinfo

    def rebinding(host: str, port: int, *more: Any, **named: Any) -> Any:
        if host != "rebinding.example":
            return real(host, port, *more, **named)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    response = get(f"http://rebinding.example:{httpserver.port}/a", allowed=lambda address: address == "127.0.0.1")
    assert response.body == b"x"
    assert next(answers) == "10.0.0.1"  # resolved once


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        ("text/html; charset=iso-8859-1", "iso-8859-1"),
        ("text/html; charset='shift_jis'; x=y", "shift_jis"),
        ("text/html; charset=gb18030", "gb18030"),
        ("text/html", "utf-8"),
        ("text/html; charset=", "utf-8"),
        ("text/html; charset=no-such-charset", "utf-8"),
        ("text/html; charset=punycode", "utf-8"),
        ('text/html; charset="punycode"; x', "utf-8"),
        ("text/html; charset=idna", "utf-8"),
        ("text/html; charset=undefined", "utf-8"),
        ("text/html; charset=zip", "utf-8"),
        ("text/html; charset=\0", "utf-8"),
    ],
)
def test_a_page_chooses_among_encodings_of_pages(content_type: str, charset: str) -> None:
    assert fetching.Response(b"", content_type).charset == charset


def test_redirects_are_few_and_under_the_same_rules(httpserver: HTTPServer) -> None:
    for number in range(6):
        httpserver.expect_request(f"/{number}").respond_with_response(
            Response(status=302, headers={"location": f"/{number + 1}"})
        )
    httpserver.expect_request("/6").respond_with_data("end", content_type="text/plain; charset=latin-1")
    assert get(httpserver.url_for("/4")).body == b"end"
    assert get(httpserver.url_for("/3")).charset == "latin-1"
    with pytest.raises(FetchError, match="redirects more than"):
        get(httpserver.url_for("/0"))
    httpserver.expect_request("/file").respond_with_response(
        Response(status=302, headers={"location": "file:///etc/passwd"})
    )
    with pytest.raises(FetchError, match="only http"):
        get(httpserver.url_for("/file"))
    httpserver.expect_request("/inside").respond_with_response(
        Response(status=302, headers={"location": f"http://localhost:{httpserver.port}/6"})
    )
    addresses: list[str] = []
    with pytest.raises(FetchError, match="no public address"):
        get(
            httpserver.url_for("/inside").replace("localhost", "127.0.0.1"),
            allowed=lambda a: not addresses and not addresses.append(a),
        )  # type: ignore[func-returns-value]


@pytest.mark.parametrize("place", ["//[", "http://[", "http://[::1", "https://x]y/"])
def test_a_redirect_to_no_url_is_an_error(place: str) -> None:
    def answer() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode())

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(FetchError):
            get(f"http://127.0.0.1:{server.getsockname()[1]}/")
        thread.join()


def test_long_answers_are_refused(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/a").respond_with_data("x" * 1001)
    with pytest.raises(FetchError, match="longer than 1000"):
        get(httpserver.url_for("/a"))
    httpserver.expect_request("/zip").respond_with_data("x", headers={"content-encoding": "gzip"})
    with pytest.raises(FetchError, match="compressed"):
        get(httpserver.url_for("/zip"))


def test_slow_answers_are_given_up(httpserver: HTTPServer) -> None:
    stop = threading.Event()

    def drip(_: Request) -> Response:
        return Response((b"x" for _ in range(500) if not stop.wait(0.02)), content_type="text/plain")

    httpserver.expect_request("/drip").respond_with_handler(drip)
    with pytest.raises(FetchError, match=r"takes too long|timed out"):
        get(httpserver.url_for("/drip"), seconds=0.3)
    stop.set()


def test_headers_that_never_end_are_given_up() -> None:
    stop = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not stop.wait(0.02):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        try:
            with pytest.raises(FetchError, match=r"takes too long|timed out"):
                get(f"http://127.0.0.1:{server.getsockname()[1]}/", seconds=0.3)
        finally:
            stop.set()
            thread.join()


ODD_URLS = {
    "empty": "",
    "word": "x",
    "file": "file:///etc/passwd",
    "ftp": "ftp://a/b",
    "no_host": "http://",
    "bracket": "http://[broken",
    "user": "http://u:p@127.0.0.1/",
    "gopher": "gopher://x",
    "closed_port": "http://127.0.0.1:1/",
    "blank_in_host": "http://a b/",
    "port_too_high": "http://127.0.0.1:99999/",
    "surrogate": "http://\udcff/",
    "header_in_path": "http://127.0.0.1/\r\nX: y",
    "script": "javascript:alert(1)",
    "data": "data:text/html,x",
}


@pytest.mark.parametrize("url", ODD_URLS.values(), ids=ODD_URLS.keys())
def test_odd_urls(url: str) -> None:
    with pytest.raises(FetchError):
        get(url, seconds=1.0)


@pytest.mark.parametrize("path", ["/Köln", "/K%C3%B6ln", "/K%c3%b6ln"])
def test_letters_outside_of_ascii_are_encoded_once(httpserver: HTTPServer, path: str) -> None:
    httpserver.expect_request("/Köln", query_string="q=a%20b").respond_with_data("x")
    assert get(httpserver.url_for("") + path + "?q=a b#später").body == b"x"


@pytest.mark.parametrize("path", ["/Köln".encode(), "/Köln".encode("latin-1"), b"/K%C3%B6ln"])
def test_a_redirect_may_hold_letters_outside_of_ascii(httpserver: HTTPServer, path: bytes) -> None:
    httpserver.expect_request("/Köln").respond_with_data("x")

    def redirect(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            place = httpserver.url_for("").encode() + path
            connection.sendall(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + place + b"\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=redirect, args=(server,))
        thread.start()
        assert get(f"http://127.0.0.1:{server.getsockname()[1]}/").body == b"x"
        thread.join()


def test_names_outside_of_ascii_are_looked_up_in_punycode(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[Any] = []

    def lookup(host: Any, *_: Any, **__: Any) -> list[Any]:
        names.append(host)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with pytest.raises(FetchError, match="no public address"):
        get("http://bücher.example/Straße")
    assert names == ["xn--bcher-kva.example"]


HANGING_FETCH = """
import time
from agents.search.pages.fetching import side_by_side

def get(url):
    if url == "slow":
        time.sleep(60)
    if url == "broken":
        raise ValueError(url)
    return None if url == "nothing" else url.upper()

print(side_by_side(["slow", "broken", "nothing", *"abcdefghijk"], get, 2.0))
"""


def test_a_fetch_that_hangs_costs_itself_and_holds_up_no_process() -> None:
    run = subprocess.run([sys.executable, "-c", HANGING_FETCH], capture_output=True, text=True, timeout=30, check=True)
    assert run.stdout.strip() == str({letter: letter.upper() for letter in "abcdefghijk"})
