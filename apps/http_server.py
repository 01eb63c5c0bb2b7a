"""HTTP protection of server and page: cross-origin requests, DNS rebinding, slow and large requests.

The middlewares know no route. Time limits belong to the protocol below them, where a request has no route yet.
"""

import asyncio
import contextlib
import socket
from collections.abc import Coroutine, Iterator, Sequence
from types import FrameType
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import h11
import uvicorn
from pydantic import Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from agents.base.command_options import Flag, Options
from agents.base.printing import print_error
from agents.time_limits.signals import limit_end, sigterm_as_ctrl_c
from apps.answering import CannotStartError
from apps.serving.protocol import ProtocolError

T = TypeVar("T")

CLIENT_LEFT = 499
"""Status of a request whose client closed the connection (nginx's convention); only logs and metrics see it."""

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE = ("", "0.0.0.0", "::")  # listening addresses that are no host names
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # RFC 9110, 9.2.1
_HEADER_BYTES = 32 * 1024
_PROTECTION = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""Default headers of every answer: no other site may show it in a frame, and nothing in it is run."""
_KEEP_ALIVE_SECONDS = 5  # for the next request of a connection to begin
_CONNECTIONS = 256  # at once; more get 503
_SMALL_BYTES = 64  # of a piece of a body; clients send thousands
_GRACE_SECONDS = 6  # for answers under way when the server is told to stop; `docker stop` kills after ten


class TimedProtocol(H11Protocol):
    """HTTP/1.1 protocol of uvicorn that closes connections whose request is late ("slow loris").

    ``header_seconds`` run from the connection, or from the end of the previous answer, to the end of the headers. ``body_seconds`` run from
    there to the end of the body. Bytes from the client do not prolong them. A body of very many small chunks is refused.
    uvicorn has no setting for either.
    """

    header_seconds = 10.0
    body_seconds = 120.0
    max_small_pieces = 20_000  # of a connection: each chunk of a body takes the loop tens of microseconds

    _small_pieces = 0
    _awaited: type[h11.IDLE] | type[h11.SEND_BODY] | None = None
    _timer: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._next_event = self.conn.next_event
        self.conn.next_event = self._count_event  # type: ignore[method-assign]

    def _count_event(self) -> Any:
        """Return the next event of the connection.

        Raises:
            h11.RemoteProtocolError: The client sends its bodies in too many small pieces.
        """
        event = self._next_event()
        if isinstance(event, h11.Data) and len(event.data) < _SMALL_BYTES:
            self._small_pieces += 1
            if self._small_pieces > self.max_small_pieces:
                raise h11.RemoteProtocolError("too many small chunks")
        return event

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the headers."""
        super().connection_made(transport)
        self._watch()

    def handle_events(self) -> None:
        """Read the new bytes; then time the rest of the request, or stop the timer."""
        super().handle_events()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        state = self.conn.their_state
        if state is self._awaited and self._timer is not None:
            return
        self._stop()
        if state is h11.IDLE or state is h11.SEND_BODY:
            self._awaited = state
            seconds = self.header_seconds if state is h11.IDLE else self.body_seconds
            self._timer = self.loop.call_later(seconds, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _EndingServer(uvicorn.Server):
    """Server whose process ends soon after its first signal to stop.

    uvicorn sets handlers of its own, and waits at its end for threads: one may be in a call that cannot be ended.
    """

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop, and limit the time for it at the first signal."""
        limit_end(0)
        super().handle_exit(sig, frame)


class CrossOriginProtection:
    """ASGI middleware that refuses state-changing requests from pages of other origins (CSRF) with 403.

    The rules are those of ``http.CrossOriginProtection`` of Go 1.25 (F. Valsorda, "Cross-Site Request Forgery", 2025). Safe methods,
    origins in ``trusted`` and clients that are no browsers pass. ``Sec-Fetch-Site`` decides; without it, ``Origin`` must be the requested
    host. The header ``Origin`` goes no further, so that no application inside adds CORS headers of its own.
    """

    def __init__(self, app: ASGIApp, trusted: Sequence[str] = ()) -> None:
        self._app, self._trusted = app, frozenset(trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["method"] in _SAFE_METHODS or self._is_allowed(headers):
            other_headers = [(name, value) for name, value in scope["headers"] if name != b"origin"]
            await self._app({**scope, "headers": other_headers}, receive, send)
            return
        message = f"{headers.get('origin', 'another site')} may not send requests to this server; --allowed-origins can permit it"
        error = ProtocolError(403, message, "cross_origin")
        await JSONResponse(error.body, error.status)(scope, receive, send)

    def _is_allowed(self, headers: Headers) -> bool:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin in self._trusted:
            return True
        if site is not None:
            return site in ("same-origin", "none")
        return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


class HeaderRules:
    """ASGI middleware that refuses long headers and adds protective headers to every answer.

    h11 checks its own limit only while a header is incomplete, so a longer one that arrives at once would pass.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it; add the headers that its answer lacks."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _PROTECTION.items():
                    headers.setdefault(name, value)
            await send(message)

        length = len(scope["raw_path"]) + len(scope["query_string"])
        if length + sum(len(name) + len(value) for name, value in scope["headers"]) <= _HEADER_BYTES:
            await self._app(scope, receive, send_protected)
            return
        error = ProtocolError(
            400, f"the headers are longer than {_HEADER_BYTES} bytes; send fewer", "headers_too_large"
        )
        await JSONResponse(error.body, error.status)(scope, receive, send_protected)


def protect(app: ASGIApp, host: str = "127.0.0.1", hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> ASGIApp:
    """Wrap an application with checks of host name, origin and headers.

    Without the check of the host name, a page could let its own name resolve to this machine and so share its origin (DNS rebinding).

    Args:
        app: The application to protect.
        host: Address that the server listens on; a request may name it as its host.
        hosts: Further host names to accept, besides those of loopback.
        origins: Origins whose pages may send requests, besides the server's own.
    """
    inner: ASGIApp = CrossOriginProtection(app, origins)
    if origins:
        inner = CORSMiddleware(inner, allow_origins=origins, allow_methods=["GET", "POST"], allow_headers=["*"])
    named = () if host in _EVERYWHERE else (_bracket(host),)
    return HeaderRules(TrustedHostMiddleware(inner, [*_LOOPBACK, *named, *hosts], www_redirect=False))


def configure(app: ASGIApp, proxies: Sequence[str] = ()) -> uvicorn.Config:
    """Configure the web server of an application; it trusts ``X-Forwarded-For`` only from ``proxies``."""
    return uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        log_config=None,  # that of the command, whose lines have neither keys nor escapes
        log_level="warning",
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        h11_max_incomplete_event_size=_HEADER_BYTES,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


class HttpOptions(Options):
    """Options of where to listen and whom to trust, the same for page and server."""

    host: str = Field("127.0.0.1", description="address to listen on; 127.0.0.1: reachable only from this machine")
    port: int = Field(8000, ge=0, le=65535, description="port to listen on; 0: any free one")
    allowed_hosts: Annotated[tuple[str, ...], Flag(metavar="NAME")] = Field(
        (), description="host names to accept, besides --host and those of loopback"
    )
    allowed_origins: Annotated[tuple[str, ...], Flag(metavar="URL")] = Field(
        (), description="sites whose pages may send requests (CORS); default: none"
    )
    forwarded_allow_ips: Annotated[tuple[str, ...], Flag(metavar="ADDRESS")] = Field(
        (), description="addresses of proxies to trust for X-Forwarded-For"
    )


@contextlib.contextmanager
def listen(options: HttpOptions) -> Iterator[socket.socket]:
    """Bind the socket of a server, so that a wrong address is reported before models are loaded. Ctrl-C or SIGTERM ends the block.

    Clients are refused until ``run`` is called with the socket.

    Raises:
        CannotStartError: The address cannot be listened on.
    """
    with contextlib.suppress(KeyboardInterrupt), sigterm_as_ctrl_c(), _bind(options) as listener:
        yield listener


def get_url(listener: socket.socket) -> str:
    """Return the URL of the address that a socket is bound to."""
    host, port = listener.getsockname()[:2]
    return f"http://{_bracket(host)}:{port}"


def run(app: ASGIApp, options: HttpOptions, listener: socket.socket, notice: str) -> None:
    """Serve an application on a socket of ``listen``.

    Args:
        app: The application to serve.
        options: Options that ``listen`` was given.
        listener: Socket of ``listen``.
        notice: Line to print on standard error once clients can connect.

    Raises:
        KeyboardInterrupt: Ctrl-C or SIGTERM stopped it.
        CannotStartError: Another process has begun to listen on the address meanwhile.
    """
    with _explain_port(options):
        listener.listen()
    print_error(notice)
    inside = protect(app, options.host, options.allowed_hosts, options.allowed_origins)
    with sigterm_as_ctrl_c():  # again, because Ray sets a handler of its own when replicas start
        _EndingServer(configure(inside, options.forwarded_allow_ips)).run(sockets=[listener])


def _bind(options: HttpOptions) -> socket.socket:
    is_ipv6 = ":" in options.host
    listener = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_ipv6:  # "::" must not take IPv4 as well, whose clients would have other addresses than proxies are named by
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        with _explain_port(options):
            listener.bind((options.host, options.port))
    except CannotStartError:
        listener.close()
        raise
    return listener


@contextlib.contextmanager
def _explain_port(options: HttpOptions) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"cannot listen on port {options.port} of {options.host}: {error.strerror}; choose another with --port or --host"
        raise CannotStartError(message) from error


def _bracket(host: str) -> str:
    """Write a host as URLs do: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """Read the body of a request.

    Args:
        request: The request.
        limit: Maximum size in bytes.
        seconds: Time until the body must have arrived.

    Raises:
        ProtocolError: The body is too large or too slow, or the client left.
    """
    message = f"the request is larger than {limit} bytes; make the picture smaller"
    too_large = ProtocolError(413, message, "request_too_large")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                body += piece
                if len(body) > limit:
                    raise too_large
    except TimeoutError:
        raise ProtocolError(408, f"the request did not arrive within {seconds:g} s", "timeout") from None
    except ClientDisconnect:
        raise build_left_error() from None
    return bytes(body)


async def run_until_left(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await work, and cancel it if the client disconnects first.

    The body of the request must have been read before.

    Raises:
        ProtocolError: The client left.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_until_left(request))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise build_left_error()
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _wait_until_left(request: Request) -> None:
    """Wait until the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def build_left_error() -> ProtocolError:
    """Build the error that ends a request whose client has closed the connection."""
    return ProtocolError(CLIENT_LEFT, "the client left before its answer", "client_left")
