"""Web pages as they were stored, by URL: folders of files first, HTTP only where it is allowed, None where there is nothing."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from agents.deadline import NO_DEADLINE, Deadline
from agents.search.atomic import write_whole
from agents.search.fetching import Allowed, FetchError, fetch, is_public, offline, over_http, side_by_side

_log = logging.getLogger(__name__)

CACHE_SUFFIXES = ("", ".html", ".txt")
"""Endings that a cached page may have; new ones are written with ``.html``."""

MAX_BYTES = 8_000_000
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
        """The page as it was stored (HTML or text), or None where it is not to be had; never raises."""
        return self.get_all([url]).get(url)

    def get_all(self, urls: Iterable[str], deadline: Deadline = NO_DEADLINE) -> dict[str, str]:
        """The pages that are to be had, by URL, as they were stored; never raises.

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
                    content = file.read(MAX_BYTES)
                # a character may be cut at the limit; before it every byte counts
                text = content.decode("utf-8-sig", errors="ignore" if len(content) == MAX_BYTES else "strict")
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
            fetched = fetch(url, seconds=seconds, most_bytes=MAX_BYTES, allowed=self._allowed)
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
