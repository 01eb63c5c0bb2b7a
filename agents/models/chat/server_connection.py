"""The connection to a server: its address as people write it, its key, and replies of bounded size."""

import functools
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import openai

from agents.base.secrets import scrub
from agents.models.base import ModelError
from agents.models.chat.connection_errors import is_without_proxy, list_proxies
from agents.models.chat.error_bodies import clean_message
from agents.models.chat.server_errors import TransientError

MAX_REPLY_BYTES = 64 * 1024 * 1024
"""Largest reply to read. Thoughts of 32,000 tokens with their log-probabilities take 40 MB."""

OPENAI_ADDRESS = "https://api.openai.com/v1"
"""Default address of the server."""

_ENDPOINT = "/chat/completions"
_POST_LOST = (301, 302, 303)  # redirects that turn a POST into a GET without its body


@dataclass(frozen=True)
class Address:
    """Root of an API, and the query that each request to it carries (``api-version`` of Azure)."""

    root: str
    query: Mapping[str, str] = field(default_factory=dict)


def parse_address(text: str | None) -> Address:
    """Parse an address as people write it: without a scheme, with a query, or with the path of the chat completions.

    Without a scheme, names with a dot and without a port get https, others http.
    """
    text = (text or "").strip() or OPENAI_ADDRESS
    if "://" not in text:
        is_public = re.match(r"[^:/?]*\.[a-z-]+(?:[/?]|\Z)", text, re.IGNORECASE)
        text = f"{'https' if is_public else 'http'}://{text}"
    address, _, query = text.partition("?")
    return Address(address.rstrip("/").removesuffix(_ENDPOINT).rstrip("/"), dict(parse_qsl(query)))


def _is_usable(root: str) -> bool:
    try:
        url = urlsplit(root)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False


def open_client(address: Address, key: str, key_variable: str, seconds: float) -> openai.AsyncOpenAI:
    """Open a client of a server; it must be closed.

    Raises:
        ModelError: The address, the key or a proxy of the environment cannot be used.
    """
    shown = scrub(address.root)
    if not _is_usable(address.root):
        raise ModelError(f"{shown} is no address of a server: write it like http://localhost:8000/v1")
    if not (key.isascii() and key.isprintable()):
        raise ModelError(
            f"The key in {key_variable} has a line break or another character that no key has: set it anew"
        )
    hooks: Any = {"response": [functools.partial(_check_response, shown)]}
    if "api-version" in address.query:
        hooks["request"] = [functools.partial(_send_as_azure_key, key)]
    try:
        return openai.AsyncOpenAI(
            api_key=key or "none",  # servers without a key still need the header
            base_url=address.root,
            default_query=address.query,
            max_retries=0,
            timeout=seconds,
            http_client=openai.DefaultAsyncHttpxClient(
                verify=_load_certificates(), event_hooks=hooks, trust_env=not is_without_proxy(address.root)
            ),
        )
    except ImportError as error:  # a package for SOCKS proxies
        proxies = [name for name, url in list_proxies() if url.startswith("socks")]
        raise ModelError(
            f"Cannot set up a client for {shown}: {' and '.join(proxies) or 'the environment'} names a SOCKS proxy, which needs the "
            f"package socksio: unset it, or pip install socksio ({clean_message(error)})"
        ) from None
    except Exception as error:  # noqa: BLE001 - the client's library has errors of its own for addresses and proxies
        raise ModelError(f"Cannot set up a client for {shown}: {clean_message(error)}") from None


async def _send_as_azure_key(key: str, request: Any) -> None:
    """Move a key to the header that Azure reads where the query names a version."""
    request.headers.pop("Authorization", None)
    request.headers["api-key"] = key


async def _check_response(shown: str, response: Any) -> None:
    """Refuse a redirect to another server, which would get the prompt, and bound the size of a response."""
    url = response.request.url
    if response.has_redirect_location:
        target = url.join(response.headers["location"])
        is_upgrade = (url.scheme, target.scheme, url.port, target.port) == ("http", "https", None, None)
        is_same = url.host == target.host and ((url.scheme, url.port) == (target.scheme, target.port) or is_upgrade)
        if not is_same or (response.request.method == "POST" and response.status_code in _POST_LOST):
            name = str(target).partition("?")[0].removesuffix(_ENDPOINT)
            raise ModelError(
                f"The server at {shown} sends requests on to {scrub(name)}: if you trust it, name it with --base-url"
            )
    whole = response.aiter_bytes

    async def aiter_bytes(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        size = 0
        async for piece in whole(chunk_size):
            size += len(piece)
            if size > MAX_REPLY_BYTES:
                raise TransientError(
                    f"The server's reply is larger than {MAX_REPLY_BYTES // 1024**2} MB and was not read."
                )
            yield piece

    response.aiter_bytes = aiter_bytes


async def peek(response: Any) -> bytes:
    """Return the first character of a response that is no white space, b"" if there is none; the whole can still be read."""
    read: list[bytes] = []
    pieces = response.aiter_bytes()
    first = b""
    async for piece in pieces:
        read.append(piece)
        first = piece.lstrip(b" \t\r\n\xef\xbb\xbf")[:1]
        if first:
            break

    async def aiter_bytes(_: int | None = None) -> AsyncIterator[bytes]:
        for piece in read:
            yield piece
        async for piece in pieces:
            yield piece

    response.aiter_bytes = aiter_bytes
    return first


@functools.cache
def _load_certificates() -> ssl.SSLContext:
    """Load the certificates that servers are verified against.

    Reading them takes more time than everything else in a call.
    """
    return httpx.create_ssl_context()
