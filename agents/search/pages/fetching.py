"""Fetches untrusted URLs over HTTP: public addresses only (SSRF), with limits of size and time."""

import contextlib
import ipaddress
import os
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

import httpcore

from agents.search.pages.charsets import find_encoding

MAX_REDIRECTS = 3
_BLOCK_SECONDS = 1.0  # longest silence of a server
_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # IPv4 addresses, also private ones, written as IPv6 (RFC 6052)
_HEADERS = [(b"User-Agent", b"crag-mm-agent"), (b"Accept-Encoding", b"identity"), (b"Accept", b"*/*")]

_WORKERS = 8
_RESERVED = "%/:?=&;,+@!$'()*~[]"  # characters that a URL keeps as they are (RFC 3986, section 2.2), and % of what is encoded already

T = TypeVar("T")

AddressCheck = Callable[[str], bool]  # whether an address may be connected to


class FetchError(ValueError):
    """Something cannot or may not be fetched; the message says why."""


@dataclass(frozen=True)
class Response:
    """Reply of a server; ``content_type`` is in lower case with its parameters, empty if the server gave none."""

    body: bytes
    content_type: str

    @property
    def charset(self) -> str:
        """Encoding that the content type names; UTF-8 if it names none, or one in which no page is written."""
        _, _, rest = self.content_type.partition("charset=")
        return find_encoding(rest.split(";")[0].strip(" \"'")) or "utf-8"


def is_offline() -> bool:
    """Return whether Hugging Face's own switch says that there is no network, as in the competition."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def is_public(address: str) -> bool:
    """Return whether an IP address is public: not of this machine, its network, or a cloud's metadata service."""
    try:
        parsed = ipaddress.ip_address(address.split("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed in _NAT64:
            return False
        inner = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo[1] if parsed.teredo else None)
        if inner is not None:
            return is_public(str(inner))
    return parsed.is_global and not parsed.is_multicast


def fetch(url: str, *, seconds: float, max_bytes: int, allowed: AddressCheck = is_public) -> Response:
    """Fetch a URL with GET; redirects are followed at most ``MAX_REDIRECTS`` times, each under the same rules.

    The connection goes to the checked address, so that a name which resolves differently a moment later gains nothing.
    Resolving a name is left to the system and its own limit; ``seconds`` is for everything together. FetchError: another scheme, an address
    that is not allowed, an answer that is no success, longer than ``max_bytes`` or too late, a broken connection.
    """
    end = time.monotonic() + seconds
    with httpcore.ConnectionPool(network_backend=_CheckedBackend(allowed, end), retries=0) as pool:
        for _ in range(MAX_REDIRECTS + 1):
            answer = _get(pool, url, end, max_bytes)
            if isinstance(answer, Response):
                return answer
            try:
                url = urljoin(url, answer)
            except ValueError as error:  # such as //[
                raise FetchError(f"it redirects to what is no URL: {error}") from error
    raise FetchError(f"it redirects more than {MAX_REDIRECTS} times")


def _get(pool: httpcore.ConnectionPool, url: str, end: float, max_bytes: int) -> Response | str:
    """Request a URL once.

    Returns:
        The server's response, or the address of its redirect.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise FetchError(f"only http and https are fetched, not {parts.scheme or 'this'!r}")
        if parts.username is not None or parts.password is not None:
            raise FetchError("it names a user")
        timeout = min(_require_time(end), _BLOCK_SECONDS)
        limits = {"timeout": dict.fromkeys(("connect", "read", "write", "pool"), timeout)}
        with pool.stream("GET", _encode(url), headers=_HEADERS, extensions=limits) as response:
            headers = {name.lower(): _decode(value) for name, value in response.headers}
            if response.status in (301, 302, 303, 307, 308) and b"location" in headers:
                return headers[b"location"]
            if not 200 <= response.status < 300:
                raise FetchError(f"status {response.status}")
            if headers.get(b"content-encoding", "identity").lower() != "identity":
                raise FetchError("it is compressed, though asked not to be")
            body = bytearray()
            for block in response.iter_stream():
                body += block
                if len(body) > max_bytes:
                    raise FetchError(f"it is longer than {max_bytes} bytes")
                _require_time(end)
            return Response(bytes(body), headers.get(b"content-type", "").lower())
    except FetchError:
        raise
    except (OSError, ValueError, TypeError, *_HTTPCORE_ERRORS) as error:
        raise FetchError(f"{type(error).__name__}: {error}"[:300]) from error


def _encode(url: str) -> str:
    """Return a URL as a request names it: without its fragment, in ASCII."""
    whole, parts = url.split("#", 1)[0], urlsplit(url)
    if not parts.netloc.isascii():
        host = (parts.hostname or "").encode("idna").decode()
        whole = whole.replace(parts.netloc, f"{host}:{parts.port}" if parts.port else host, 1)
    return quote(whole, safe=_RESERVED)


def _decode(header: bytes) -> str:
    try:
        return header.decode()
    except UnicodeDecodeError:
        return header.decode("latin-1")


_HTTPCORE_ERRORS = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
    httpcore.ProxyError,
)


def _require_time(end: float) -> float:
    remaining = end - time.monotonic()
    if remaining <= 0:
        raise FetchError("it takes too long")
    return remaining


class _TimedStream(httpcore.NetworkStream):
    """Connection with one deadline for all its reads, so that a server which sends a byte at a time cannot hold it open."""

    def __init__(self, stream: httpcore.NetworkStream, end: float) -> None:
        self._stream, self._end = stream, end

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, min(timeout or _BLOCK_SECONDS, _require_time(self._end)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, min(timeout or _BLOCK_SECONDS, _require_time(self._end)))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        seconds = min(timeout or _BLOCK_SECONDS, _require_time(self._end))
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, seconds), self._end)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _CheckedBackend(httpcore.SyncBackend):
    """Network backend that checks an address before it connects to it."""

    def __init__(self, allowed: AddressCheck, end: float) -> None:
        self._allowed, self._end = allowed, end

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
        refused = [address for address in addresses if not self._allowed(address)]
        if refused or not addresses:
            raise FetchError(f"{host} is no public address")
        stream = super().connect_tcp(addresses[0], port, timeout, local_address, socket_options)
        return _TimedStream(stream, self._end)


def side_by_side(urls: Sequence[str], get: Callable[[str], T | None], seconds: float) -> dict[str, T]:
    """Call ``get`` for all URLs, at most ``_WORKERS`` at once.

    Returns:
        The values by URL, without those that are not there after ``seconds``, fail or are None.
    """
    end = time.monotonic() + seconds
    waiting, values = deque(urls), dict[str, T]()

    def work() -> None:
        while waiting and time.monotonic() < end:
            with contextlib.suppress(IndexError):  # another thread has taken the last one
                url = waiting.popleft()
                with contextlib.suppress(Exception):
                    if (value := get(url)) is not None:
                        values[url] = value

    # The process waits at its end for threads of an executor, and looking up a name has no time limit of ours.
    threads = [
        threading.Thread(target=work, name=f"fetch-{number}", daemon=True) for number in range(min(len(urls), _WORKERS))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(values)


def is_http(url: str) -> bool:
    """Return whether a URL is one of http or https."""
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        return False
