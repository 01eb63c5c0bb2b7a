"""Pictures of the knowledge graph by their URL: a folder of files first, HTTP only where it is allowed, None where there is nothing."""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from PIL import Image

from agents.deadline import NO_DEADLINE, Deadline
from agents.models.pixels import to_rgb
from agents.search.atomic import write_whole
from agents.search.fetching import Allowed, FetchError, fetch, is_public, offline, over_http, side_by_side

_log = logging.getLogger(__name__)

KNOWN_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
MAX_BYTES = 16 * 1024 * 1024
"""A larger file is not fetched: the model sees a picture of some hundred pixels."""


def cache_name(url: str) -> str:
    """File name of a picture: the SHA-256 of its URL in hex and the extension of the URL's path (".img" where it has no known one)."""
    suffix = PurePosixPath(re.split(r"[?#]", url, maxsplit=1)[0]).suffix.lower()
    digest = hashlib.sha256(url.encode("utf-8", errors="surrogatepass")).hexdigest()
    return digest + (suffix if suffix in KNOWN_SUFFIXES else ".img")


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
        """The pictures that are to be had, by URL, as 8-bit RGB; never raises.

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
            body = fetch(url, seconds=seconds, most_bytes=MAX_BYTES, allowed=self._allowed).body
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
