"""Addresses as people write them, keys, proxies, redirects and endless replies: what fails is told with its cause and its cure."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from agents.models.base import ModelError
from agents.models.chat import server_connection
from agents.models.chat.openai_chat import OpenAIChat
from agents.models.chat.openai_probe import probe
from agents.models.chat.server_connection import OPENAI_ADDRESS, Address, parse_address
from tests.models.test_failing_servers import ask
from tests.support.chat_server import refused, serve_chat, streamed

KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)


def client(url: str, **options: Any) -> OpenAIChat:
    return OpenAIChat("m", url, api_key_env="TEST_KEY", **{"max_pause": 0.01, "attempts": 1, **options})


@pytest.mark.parametrize(
    ("text", "root", "query"),
    [
        ("http://a:8000/v1", "http://a:8000/v1", {}),
        ("127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1", {}),
        ("localhost:8000/v1/", "http://localhost:8000/v1", {}),
        ("[::1]:8000/v1", "http://[::1]:8000/v1", {}),
        ("gpu7/v1", "http://gpu7/v1", {}),
        ("gpu7.lab.example:8000/v1", "http://gpu7.lab.example:8000/v1", {}),
        ("api.openai.com/v1", "https://api.openai.com/v1", {}),
        (" https://a/v1/chat/completions ", "https://a/v1", {}),
        (
            "https://generativelanguage.googleapis.com/v1beta/openai/",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            {},
        ),
        (
            "https://x.openai.azure.com/openai/deployments/m/chat/completions?api-version=2024-10-21",
            "https://x.openai.azure.com/openai/deployments/m",
            {"api-version": "2024-10-21"},
        ),
        ("https://x.openai.azure.com/openai/v1/", "https://x.openai.azure.com/openai/v1", {}),
        ("", OPENAI_ADDRESS, {}),
        (None, OPENAI_ADDRESS, {}),
    ],
)
def test_addresses_are_read_as_people_write_them(text: str | None, root: str, query: dict[str, str]) -> None:
    assert parse_address(text) == Address(root, query)


@pytest.mark.parametrize("url", ["ftp://a/v1", "http:///v1", "http://a:port/v1", "https://[a/v1"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(ModelError, match=r"is no address of a server: write it like http://localhost:8000/v1"):
        client(url).chat([ask()])


@pytest.mark.parametrize("form", ["classic", "v1"])
def test_azure_is_asked_in_both_forms_of_its_address(httpserver: HTTPServer, form: str) -> None:
    requests: list[Request] = []

    def handle(request: Request) -> Response:
        requests.append(request)
        return streamed("yes")

    path = "/openai/deployments/m" if form == "classic" else "/openai/v1"
    httpserver.expect_request(f"{path}/chat/completions", method="POST").respond_with_handler(handle)
    query = "?api-version=2024-10-21" if form == "classic" else ""
    (reply,) = client(httpserver.url_for(path) + query).chat([ask()])
    assert reply.text == "yes", reply.error
    headers = requests[0].headers
    if form == "classic":
        assert requests[0].args.to_dict() == {"api-version": "2024-10-21"}
        assert (headers.get("api-key"), headers.get("Authorization")) == (KEY, None)
    else:
        assert not requests[0].args and headers["Authorization"] == f"Bearer {KEY}"


def test_blanks_around_a_key_are_left_out(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []

    def handle(request: Request) -> Response:
        keys.append(request.headers["Authorization"])
        return streamed("yes")

    httpserver.expect_request("/v1/chat/completions").respond_with_handler(handle)
    monkeypatch.setenv("TEST_KEY", f" {KEY}\r\n")
    assert client(httpserver.url_for("/v1")).chat([ask()])[0].text == "yes" and keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize("key", ["sk-secret\n0123456789", "\u201csk-secret-0123456789\u201d"])
def test_a_key_that_no_header_takes_is_told_without_it(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("TEST_KEY", key)
    with pytest.raises(ModelError, match="The key in TEST_KEY has a line break or another character") as caught:
        client("http://127.0.0.1:9/v1").chat([ask()])
    assert "secret" not in str(caught.value)


def fail(url: str) -> str:
    (reply,) = client(url).chat([ask()])
    assert reply.no_answer and "\n" not in str(reply.error)
    return str(reply.error)


def test_a_refused_connection_and_an_unknown_host_are_told_apart() -> None:
    assert fail("http://127.0.0.1:9/v1") == "The connection failed: Connection refused; start the server"
    assert "no name server knows nowhere.invalid: check the address" in fail("http://nowhere.invalid/v1")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A server's side of TLS with a certificate that nobody vouches for."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl")
    folder: Path = tmp_path_factory.mktemp("tls")
    names = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem"), "-subj", "/CN=localhost"]
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_tls_is_told(httpserver: HTTPServer, certificate: ssl.SSLContext) -> None:
    assert "write http:// if the server speaks no TLS" in fail(httpserver.url_for("/v1").replace("http:", "https:"))
    with HTTPServer(ssl_context=certificate) as server:
        url = server.url_for("/v1")
        untrusted = fail(url)
        assert "certificate verify failed" in untrusted and "SSL_CERT_FILE" in untrusted
        assert "write https:// if the server speaks TLS" in fail(url.replace("https:", "http:"))


def test_a_proxy_of_the_environment_is_named(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_chat(httpserver, lambda _: "yes")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    message = fail(httpserver.url_for("/v1"))
    assert "went through the proxy of HTTP_PROXY: unset it, or add localhost to NO_PROXY" in message
    monkeypatch.setenv("NO_PROXY", "localhost")
    assert client(httpserver.url_for("/v1")).chat([ask()])[0].text == "yes"


def test_a_socks_proxy_without_its_package_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:7890")
    with pytest.raises(
        ModelError, match="ALL_PROXY names a SOCKS proxy, which needs the package socksio: unset it, or"
    ):
        client("http://127.0.0.1:9/v1").chat([ask()])


def test_a_server_that_no_proxy_names_needs_no_package_of_a_proxy(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_chat(httpserver, lambda _: "yes")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:7890")
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    assert client(httpserver.url_for("/v1")).chat([ask()])[0].text == "yes"


def redirect(server: HTTPServer, status: int, target: str) -> None:
    answer = Response(status=status, headers={"Location": target})
    server.expect_request("/v1/chat/completions").respond_with_response(answer)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_server_gets_no_prompt(httpserver: HTTPServer, status: int) -> None:
    with HTTPServer(threaded=True) as other:
        bodies = serve_chat(other, lambda _: "stolen")
        redirect(httpserver, status, other.url_for("/v1/chat/completions"))
        with pytest.raises(ModelError, match=rf"sends requests on to {other.url_for('/v1')}: if you trust it"):
            client(httpserver.url_for("/v1")).chat([ask()])
    assert bodies == []


def test_a_redirect_within_the_server_is_followed_with_its_body(httpserver: HTTPServer) -> None:
    redirect(httpserver, 308, "/v2/chat/completions")
    httpserver.expect_request("/v2/chat/completions", method="POST").respond_with_response(streamed("yes"))
    assert client(httpserver.url_for("/v1")).chat([ask()])[0].text == "yes"


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
@pytest.mark.parametrize("status", [200, 400])
def test_a_reply_without_end_is_left_unread(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch, kind: str, status: int
) -> None:
    monkeypatch.setattr(server_connection, "MAX_REPLY_BYTES", 2**20)
    over, sent = threading.Event(), [0]

    def body() -> Iterator[bytes]:
        yield b'data: {"choices": "'
        while not over.is_set() and sent[0] < 2**28:
            sent[0] += 2**16
            yield b"x" * 2**16

    handler = lambda _: Response(body(), status=status, content_type=kind)  # noqa: E731 - each request needs its own body
    httpserver.expect_request("/v1/chat/completions").respond_with_handler(handler)
    try:
        assert "is larger than 1 MB and was not read" in fail(httpserver.url_for("/v1"))
    finally:
        over.set()
    assert sent[0] < 2**26


def test_a_refused_key_is_told_although_the_list_spells_the_model_otherwise(httpserver: HTTPServer) -> None:
    serve_chat(httpserver, lambda _: refused(403, "Permission denied"), ("models/m",))
    with pytest.raises(ModelError, match="refuses the key: set the environment variable TEST_KEY"):
        probe(client(httpserver.url_for("/v1")), sees=False)
