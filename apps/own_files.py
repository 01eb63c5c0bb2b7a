"""The files of a collection, which the page links evidence to: those of ``photos/`` and ``pages/``, and no others."""

from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, PlainTextResponse, Response

from agents.base.files import quote_path
from agents.search.collection import Collection

_ROUTE = "/own/"
REPORT_ROUTE = "/readings"
_TYPES = {
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".bmp": "image/bmp",
    ".avif": "image/avif",
    ".pdf": "application/pdf",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "text/html",
    ".md": "text/plain",
    ".markdown": "text/plain",
    ".txt": "text/plain",
}
"""Types that a browser shows. A text comes without its charset: a page may name its own."""
_SAVED = (".docx", ".xlsx", ".heic", ".heif", ".tif", ".tiff")
_CLOSED = "default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""Policy of a file: a stranger's page runs no script, and loads nothing from other hosts."""
_PDF_POLICY = "frame-ancestors 'none'"  # browsers show no PDF in a sandbox


def link_files(app: FastAPI, folder: Path | None, report: Path | None = None) -> Callable[[str], str | None]:
    """Serve the files of a collection that answers name as sources.

    Args:
        app: The application.
        folder: Folder of the collection; None: nothing is served.
        report: What `crag index` read of it, served under ``REPORT_ROUTE``.

    Returns:
        A function that returns the link to the file of a source, or None if there is none.
    """
    if folder is None:
        return lambda _: None
    collection = Collection(folder)

    def link(name: str) -> str | None:
        found = collection.find_source(name)
        if found is None or not _is_served(found[0]):
            return None
        return _ROUTE + quote_path(found[0].relative_to(folder).as_posix(), found[1])

    @app.get(_ROUTE + "{path:path}")
    def serve(path: str) -> Response:
        found = collection.find_source(path)
        if found is None or found[1] or not _is_served(found[0]):
            return PlainTextResponse("Not Found", 404)
        return _respond(found[0])

    if report is not None:

        @app.get(REPORT_ROUTE)
        def serve_report() -> Response:
            return _respond(report)

    return link


def _is_served(path: Path) -> bool:
    return path.suffix.lower() in (*_TYPES, *_SAVED)


def _respond(path: Path) -> Response:
    kind = _TYPES.get(path.suffix.lower())
    headers = {
        "Content-Security-Policy": _PDF_POLICY if kind == "application/pdf" else _CLOSED,
        "X-Content-Type-Options": "nosniff",
        "Content-Type": kind or "application/octet-stream",
    }
    return FileResponse(path, headers=headers, filename=None if kind else path.name)
