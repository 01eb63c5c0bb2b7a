"""Limits of the web page, applied before gradio.

One picture an upload, requests of limited size, and no redirects to other hosts.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apps.http_server import read_body, run_until_left
from apps.serving.pictures import PhotoReader
from apps.serving.protocol import ProtocolError, refuse_many_values

NO_PICTURE = "This file cannot be read as a photo; try JPEG, PNG or WebP."
MAX_PICTURE = 20 * 1024 * 1024  # bytes
MAX_PIXELS = 50_000_000
_MAX_FORM = MAX_PICTURE + 64 * 1024  # with what surrounds the file
_MAX_OTHER = 1024 * 1024  # bytes of any other request: a dialog
_READ_SECONDS = 60.0
_UPLOAD = "/gradio_api/upload"
_CLOSED = (
    "/openapi.json",
    "/dev/reload",
)  # ends of gradio's routes: a list of all others, and connections that never end
_POLICY = "; ".join(  # gradio's page has scripts and styles of its own inline, and compiles templates
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
"""Content security policy of the page: nothing is loaded from, or sent to, other hosts."""


class PageGuard:
    """ASGI middleware that limits gradio's uploads and redirects.

    Without it, gradio takes any number of files of any kind in one upload and redirects ``/file=URL`` anywhere.
    """

    def __init__(self, app: ASGIApp, photos: PhotoReader) -> None:
        self._app, self._photos = app, photos

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on once it is whole, or refuse it with the reason as text."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].rstrip("/").endswith(_CLOSED):
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
            return
        try:
            body = await self._read(Request(scope, receive))
        except ProtocolError as refusal:
            await PlainTextResponse(str(refusal), refusal.status)(scope, receive, send)
            return
        unread = [body]

        async def again() -> Message:
            if unread:
                return {"type": "http.request", "body": unread.pop(), "more_body": False}
            return await receive()

        away = False

        async def stay(message: Message) -> None:
            nonlocal away
            if message["type"] == "http.response.start" and _is_external_redirect(
                message["headers"], Headers(scope=scope)
            ):
                away = True
                await PlainTextResponse("this page redirects to no other host", 404)(scope, receive, send)
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault("Content-Security-Policy", _POLICY)
            if not away:
                await send(message)

        await self._app(scope, again, stay)

    async def _read(self, request: Request) -> bytes:
        """Read the body of a request.

        Raises:
            ProtocolError: The body is too large, the upload is not one picture, or the client left.
        """
        if request.method in ("GET", "HEAD"):
            return b""
        if request.scope["path"] != _UPLOAD:
            body = await read_body(request, _MAX_OTHER, _READ_SECONDS)
            refuse_many_values(body)
            return body
        body = await read_body(request, _MAX_FORM, _READ_SECONDS)
        data = await _read_upload(request, body)
        try:
            await run_until_left(request, self._photos.decode(data))
        except ProtocolError as refusal:
            if refusal.code != "invalid_image":
                raise
            raise ProtocolError(400, NO_PICTURE) from refusal
        return body


async def _read_upload(request: Request, body: bytes) -> bytes:
    """Return the only file of an upload.

    Raises:
        ProtocolError: The form is malformed or has several files.
    """

    async def whole() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        async with Request(request.scope, whole).form(max_files=1, max_fields=0) as form:
            files = [value for value in form.values() if isinstance(value, UploadFile)]
            return b"".join([await file.read() for file in files])
    except MultiPartException:
        raise ProtocolError(400, "One picture can be sent at once, as multipart/form-data.") from None


def _is_external_redirect(headers: Iterable[tuple[bytes, bytes]], request_headers: Headers) -> bool:
    """Return whether the header ``Location`` of a response names another host than the requested one."""
    for name, value in headers:
        if name.lower() == b"location":
            try:
                host = urlsplit(value.decode("latin-1").replace("\\", "/").strip()).netloc
            except ValueError:
                return True
            return bool(host) and host.lower() != request_headers.get("host", "").lower()
    return False
