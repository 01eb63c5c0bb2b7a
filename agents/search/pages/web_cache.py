"""Caches of pictures and web pages by URL: files on disk first, HTTP only where it is allowed."""

import hashlib
import logging
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Generic, TypeVar

from PIL import Image

from agents.base.files import write_whole
from agents.models.picture_files import decode_picture
from agents.search.pages.charsets import decode_page
from agents.search.pages.fetching import (
    AddressCheck,
    FetchError,
    Response,
    fetch,
    is_http,
    is_offline,
    is_public,
    side_by_side,
)
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from agents.time_limits.subprocess_worker import SubprocessWorker

_log = logging.getLogger(__name__)
_UNREADABLE = (OSError, ValueError, LookupError, SyntaxError)

KNOWN_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
MAX_PICTURE_BYTES = 16 * 1024 * 1024  # a larger file is not fetched: the model sees a picture of some hundred pixels
MAX_PICTURE_PIXELS = (
    64_000_000  # a larger picture is not decoded; the largest of today's cameras and telephones have 50 to 60
)
KEPT_PICTURE_PIXELS = (
    4_000_000  # a larger picture is reduced at once: a call may hold 80, and models see a megapixel or two
)
PICTURE_SECONDS = 1.0  # for a picture that is not decoded at once (``picture_files``)
CACHE_SUFFIXES = ("", ".html", ".txt")  # endings that a cached page may have; new ones are written with ``.html``

MAX_PAGE_BYTES = 8_000_000
"""Longer pages are not fetched, and of longer files only so much is taken. Scripts and styles take most of a page: the limit on its text
is set where the text is taken from it (``agents.search.pages.page_text``)."""

Content = TypeVar("Content")


def cache_name(url: str) -> str:
    """Return the file name of a picture: the SHA-256 of its URL in hex and the extension of the URL's path.

    The extension is ".img" if it is unknown.
    """
    suffix = PurePosixPath(re.split(r"[?#]", url, maxsplit=1)[0]).suffix.lower()
    return _digest(url) + (suffix if suffix in KNOWN_SUFFIXES else ".img")


class UrlCache(Generic[Content]):
    """A folder with one file for each URL. In the evaluation HTTP is off and the folder may be empty, so a miss is no error."""

    what: ClassVar[str]
    max_bytes: ClassVar[int]
    timeout: ClassVar[float]

    def __init__(
        self,
        folder: Path,
        http: bool = False,  # whether missing files may be fetched
        timeout: float | None = None,  # for one fetch in seconds; that of the class if None
        allowed: AddressCheck = is_public,  # which addresses may be connected to
        further: Sequence[Path] = (),  # folders of the same form, read after the cache and never written to
    ) -> None:
        self._folders = (folder, *further)
        self._http = http
        self._seconds = self.timeout if timeout is None else timeout
        self._allowed = allowed

    def get_all(self, urls: Iterable[str], deadline: Deadline = NO_DEADLINE) -> dict[str, Content]:
        """Load all that can be found, by URL; never raises.

        Each of the files has an equal share of the remaining time; after the deadline no further one is read. With HTTP, missing
        ones are fetched side by side, until their limit or the deadline.
        """
        distinct = list(dict.fromkeys(urls))
        folders = [folder for folder in self._folders if folder.is_dir()]
        contents: dict[str, Content] = {}
        for number, url in enumerate(distinct):
            share = deadline.left() / (len(distinct) - number)
            if share > 0 and (content := self._load_cached(url, folders, share)) is not None:
                contents[url] = content
        if self._http and not is_offline():
            seconds = min(self._seconds, deadline.left())
            missing = [url for url in distinct if url not in contents and is_http(url)]
            contents |= side_by_side(missing, lambda url: self._fetch(url, seconds), seconds)
        return contents

    def path(self, url: str) -> Path:
        """Return the path of the file for a URL's content."""
        return self._folders[0] / self._written_name(url)

    def put(self, url: str, data: bytes) -> None:
        """Store a file; a folder that cannot be written to is noted, not an error."""
        try:
            write_whole(self.path(url), data)
        except OSError as error:
            _log.warning("the %s %r cannot be cached: %s", self.what, url, error)

    @abstractmethod
    def _written_name(self, url: str) -> str: ...

    def _read_names(self, url: str) -> Iterator[str]:
        yield self._written_name(url)

    @abstractmethod
    def _decode(self, data: bytes, seconds: float) -> Content:
        """Decode the content of a file within ``seconds``; raise one of ``_UNREADABLE`` if it has none."""

    @abstractmethod
    def _convert(self, response: Response, seconds: float) -> tuple[Content, bytes]:
        """Decode fetched bytes into its content and the file to store; raise as ``_decode`` does."""

    def _load_cached(self, url: str, folders: Sequence[Path], seconds: float) -> Content | None:
        for path in (folder / name for folder in folders for name in self._read_names(url)):
            try:
                with path.open("rb") as file:
                    return self._decode(file.read(self.max_bytes), seconds)  # a file of any size may be there
            except FileNotFoundError:
                continue
            except _UNREADABLE as error:
                _log.warning("the cached %s of %r cannot be read: %s", self.what, url, error)
        return None

    def _fetch(self, url: str, seconds: float) -> Content | None:
        try:
            response = fetch(url, seconds=seconds, max_bytes=self.max_bytes, allowed=self._allowed)
            content, data = self._convert(response, seconds)
        except _UNREADABLE as error:
            _log.warning("the %s %r cannot be fetched: %s", self.what, url, error)
            return None
        self.put(url, data)
        return content


class PictureCache(UrlCache[Image.Image]):
    """Pictures as 8-bit RGB, at most ``KEPT_PICTURE_PIXELS`` large; the files are named by ``cache_name``."""

    what = "picture"
    max_bytes = MAX_PICTURE_BYTES
    timeout = 2.0

    def __init__(self, folder: Path, *, worker: SubprocessWorker | None = None, **options: Any) -> None:
        """``worker`` decodes slow files; None: a worker of its own; the other options are those of ``UrlCache``."""
        super().__init__(folder, **options)
        self._worker = worker or SubprocessWorker()

    def _written_name(self, url: str) -> str:
        return cache_name(url)

    def _decode(self, data: bytes, seconds: float) -> Image.Image:
        return decode_picture(
            data,
            max_pixels=MAX_PICTURE_PIXELS,
            kept_pixels=KEPT_PICTURE_PIXELS,
            worker=self._worker,
            seconds=min(PICTURE_SECONDS, seconds),
        )

    def _convert(self, response: Response, seconds: float) -> tuple[Image.Image, bytes]:
        return self._decode(response.body, seconds), response.body


class PageCache(UrlCache[str]):
    """Pages as they were stored (HTML or text); the files are named by the SHA-256 of the URL (64 hexadecimal digits)."""

    what = "page"
    max_bytes = MAX_PAGE_BYTES
    timeout = 3.0

    def _written_name(self, url: str) -> str:
        return f"{_digest(url)}.html"

    def _read_names(self, url: str) -> Iterator[str]:
        digest = _digest(url)
        return (digest + suffix for suffix in CACHE_SUFFIXES)

    def _decode(self, data: bytes, seconds: float) -> str:  # noqa: ARG002 - decoding text takes no time
        # a character may be cut at the limit; before it every byte counts
        text = data.decode("utf-8-sig", errors="ignore" if len(data) == MAX_PAGE_BYTES else "strict")
        if not text.strip() or "\0" in text:
            raise ValueError("it is empty or binary")
        return text

    def _convert(self, response: Response, seconds: float) -> tuple[str, bytes]:  # noqa: ARG002 - as above
        if not (response.content_type or "text/html").startswith(("text/", "application/xhtml")):
            raise FetchError(f"content type {response.content_type} is not HTML or text")
        page = decode_page(response.body, response.charset)
        return page, page.encode("utf-8", errors="replace")


def _digest(url: str) -> str:
    return hashlib.sha256(url.encode("utf-8", errors="surrogatepass")).hexdigest()
