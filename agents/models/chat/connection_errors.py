"""Why a server cannot be reached, and what to do."""

import os
import re
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from agents.models.chat.error_bodies import clean_message

_CURES: tuple[tuple[type[BaseException], str, str], ...] = (
    (
        ssl.SSLCertVerificationError,
        "",
        "name the file with your authority's certificate in SSL_CERT_FILE, or check the host name",
    ),
    (ssl.SSLError, "", "write http:// if the server speaks no TLS"),
    (socket.gaierror, "", "no name server knows {host}: check the address"),
    (ConnectionRefusedError, "", "start the server"),
    (
        Exception,
        "disconnected|peer closed|reset by peer|illegal|not valid HTTP",
        "write https:// if the server speaks TLS",
    ),
)
"""Remedies by the innermost error of a connection and a pattern in its text; ``{host}`` stands for the server's."""


def explain_connection(error: BaseException, root_url: str) -> str:
    """Say in one line why a connection failed, from its innermost error, and what to do."""
    chain = [each for each in list_causes(error) if str(each)]
    root = next((each for each in reversed(chain) if isinstance(each, OSError)), chain[-1] if chain else error)
    cures = [
        cure for kind, words, cure in _CURES if isinstance(root, kind) and re.search(words, str(root), re.IGNORECASE)
    ]
    url = urlsplit(root_url)
    proxies = [name for name, _ in list_proxies() if name.lower().partition("_")[0] in (url.scheme, "all")]
    if proxies and not is_without_proxy(root_url):
        cures = [f"the request went through the proxy of {proxies[0]}: unset it, or add {url.hostname} to NO_PROXY"]
    number = root.errno if isinstance(root, OSError) and not isinstance(root, ssl.SSLError) else None
    reason = os.strerror(number) if number and number > 0 else str(root)
    cures = [cure.replace("{host}", url.hostname or "this host") for cure in cures[:1]]
    return "; ".join([f"The connection failed: {clean_message(reason or type(root).__name__)}", *cures])


def list_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, outermost first; of a group the first error."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__


def list_proxies() -> list[tuple[str, str]]:
    """Return variables of the environment that name a proxy, and its address."""
    return [(f"{kind}_proxy".upper(), url) for kind, url in getproxies_environment().items() if kind != "no"]


def is_without_proxy(root_url: str) -> bool:
    """Return whether NO_PROXY exempts a server from proxies, SOCKS proxies without their package among them."""
    return bool(proxy_bypass(urlsplit(root_url).hostname or ""))
