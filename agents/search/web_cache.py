"""Pictures and web pages by URL, as they were stored: folders of files first, HTTP only where it is allowed."""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from PIL import Image

from agents.deadline import NO_DEADLINE, Deadline
from agents.models.pixels import to_rgb
from agents.search.fetching import Allowed, FetchError, fetch, is_public, offline, over_http, side_by_side
from agents.search.folders import write_whole

_log = logging.getLogger(__name__)

KNOWN_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
MAX_PICTURE_BYTES = 16 * 1024 * 1024
"""A larger file is not fetched: the model sees a picture of some hundred pixels."""


def cache_name(url: str) -> str:
    """File name of a picture: the SHA-256 of its URL in hex and the extension of the URL's path (".img" where it has no known one)."""
    suffix = PurePosixPath(re.split(r"[?#]", url, maxsplit=1)[0]).suffix.lower()
    return _digest(url) + (suffix if suffix in KNOWN_SUFFIXES else ".img")


class PictureCache:
    """Pictures in a folder, one file each, named by ``cache_name``.

    At evaluation HTTP is off and the folder may be empty, so a miss is nothing special.

    Args:
        folder: The cache; need not exist. None for one that holds nothing.
        timeout: Limit for one fetch in seconds.
        allowed: Which addresses may be connected to; public ones unless a test says otherwise.
    """

    def __init__(self, folder: Path | None, timeout: float = 2.0, allowed: Allowed = is_public) -> None:
        self._folder = folder
        self._timeout = timeout
        self._allowed = allowed

    def get_all(
        self, urls: Iterable[str], fetch: bool = False, deadline: Deadline = NO_DEADLINE
    ) -> dict[str, Image.Image]:
        """The available pictures, by URL, as 8-bit RGB; never raises.

        What the folder does not hold is fetched where ``fetch`` says so. Fetches run side by side and end with their own
        limit or at the deadline, whichever is sooner.
        """
        distinct = list(dict.fromkeys(urls))
        found = {url: picture for url in distinct if (picture := self._cached(url)) is not None}
        if fetch and not offline():
            seconds = min(self._timeout, deadline.left())
            missing = [url for url in distinct if url not in found and over_http(url)]
            found |= side_by_side(missing, lambda url: self._fetch(url, seconds), seconds)
        return found

    def _cached(self, url: str) -> Image.Image | None:
        if self._folder is None or not url:
            return None
        path = self._folder / cache_name(url)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("the cached picture of %r cannot be read: %s", url, error)
            return None
        return _decoded(data, url)

    def _fetch(self, url: str, seconds: float) -> Image.Image | None:
        try:
            body = fetch(url, seconds=seconds, most_bytes=MAX_PICTURE_BYTES, allowed=self._allowed).body
        except FetchError as error:
            _log.warning("the picture %r cannot be fetched: %s", url, error)
            return None
        picture = _decoded(body, url)
        if picture is not None:
            self._keep(url, body)
        return picture

    def _keep(self, url: str, data: bytes) -> None:
        if self._folder is None:
            return
        try:
            write_whole(self._folder / cache_name(url), data)
        except OSError as error:
            _log.warning("the picture %r cannot be cached: %s", url, error)


def _decoded(data: bytes, url: str) -> Image.Image | None:
    try:
        return to_rgb(Image.open(io.BytesIO(data)))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        _log.warning("the picture of %r is no readable image: %s", url, error)
        return None


CACHE_SUFFIXES = ("", ".html", ".txt")
"""Endings that a cached page may have; new ones are written with ``.html``."""

MAX_PAGE_BYTES = 8_000_000
"""Longer pages are not fetched, and of longer files only so much is read. Scripts and styles take most of a page: the limit on its text
is set where the text is taken from it (``agents.texts.page_text``)."""


class PageCache:
    """Pages in a folder, one file a page, named by the SHA-256 of the URL (64 hexadecimal digits).

    At evaluation the folder is filled beforehand and HTTP is off, so a miss is nothing special.

    Args:
        folder: The cache; need not exist.
        http: Whether missing pages may be fetched.
        timeout: Limit for one fetch in seconds.
        allowed: Which addresses may be connected to; public ones unless a test says otherwise.
        further: Folders of the same form that are read after the cache, and never written to.
    """

    def __init__(
        self,
        folder: Path,
        http: bool = False,
        timeout: float = 3.0,
        allowed: Allowed = is_public,
        further: Sequence[Path] = (),
    ) -> None:
        self._folder = folder
        self._further = further
        self._http = http
        self._timeout = timeout
        self._allowed = allowed

    def path(self, url: str) -> Path:
        """Where the page of a URL is written."""
        return self._folder / f"{_digest(url)}.html"

    def get(self, url: str) -> str | None:
        """The page as it was stored (HTML or text), or None where it is not available; never raises."""
        return self.get_all([url]).get(url)

    def get_all(self, urls: Iterable[str], deadline: Deadline = NO_DEADLINE) -> dict[str, str]:
        """The available pages, by URL, as they were stored; never raises.

        Missing ones are fetched where HTTP is on, side by side, until their own limit or the deadline, whichever is sooner.
        """
        distinct = list(dict.fromkeys(urls))
        found = {url: page for url in distinct if (page := self._cached(url)) is not None}
        if self._http and not offline():
            seconds = min(self._timeout, deadline.left())
            missing = [url for url in distinct if url not in found and over_http(url)]
            found |= side_by_side(missing, lambda url: self._fetched(url, seconds), seconds)
        return found

    def put(self, url: str, text: str) -> None:
        """Store a page; a folder that cannot be written to is noted, not an error."""
        try:
            write_whole(self.path(url), text.encode("utf-8", errors="replace"))
        except OSError as error:
            _log.warning("the page %r cannot be cached: %s", url, error)

    def _cached(self, url: str) -> str | None:
        name = _digest(url)
        for path in (
            folder / f"{name}{suffix}" for folder in (self._folder, *self._further) for suffix in CACHE_SUFFIXES
        ):
            try:
                with path.open("rb") as file:
                    content = file.read(MAX_PAGE_BYTES)
                # a character may be cut at the limit; before it every byte counts
                text = content.decode("utf-8-sig", errors="ignore" if len(content) == MAX_PAGE_BYTES else "strict")
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError) as error:
                _log.warning("the cached page of %r cannot be read: %s", url, error)
                continue
            if text.strip() and "\0" not in text:
                return text
            _log.warning("the cached page of %r is empty or binary", url)
        return None

    def _fetched(self, url: str, seconds: float) -> str | None:
        try:
            fetched = fetch(url, seconds=seconds, most_bytes=MAX_PAGE_BYTES, allowed=self._allowed)
            if not (fetched.content_type or "text/html").startswith(("text/", "application/xhtml")):
                raise FetchError(f"it is {fetched.content_type}")
            page = fetched.body.decode(fetched.charset, errors="replace")
        except (FetchError, LookupError) as error:
            _log.warning("the page %r cannot be fetched: %s", url, error)
            return None
        self.put(url, page)
        return page


def _digest(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", errors="surrogatepass")).hexdigest()
