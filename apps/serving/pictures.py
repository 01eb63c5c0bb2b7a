"""Photos of strangers: fetched from untrusted URLs, and decoded within limits of size and time."""

import asyncio
import base64
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from PIL import Image

from agents.runner.intake import KEPT_PIXELS, PictureTooLargeError, TakesLongError, decode_at_once, decoded_in
from agents.search.pages.fetching import FetchError, fetch
from agents.time_limits.subprocess_worker import SubprocessWorker
from apps.serving.protocol import ProtocolError

DECODE_SECONDS = 5.0
"""Time limit of a photo: half of the challenge's 10 s a turn, as in the agent."""

_FETCH_SECONDS = 5.0
_FETCHES = 32  # at once: as many as questions are let in by default


class PhotoReader:
    """Loader and decoder of photos within a time limit; usable from several threads.

    Addresses are fetched in threads of their own, because looking up a name may take longer than any limit. Small files are
    decoded in a thread. Everything else waits for one process, which is killed when its time is over or nobody waits any more. So neither
    keeps ordinary photos waiting.

    Args:
        max_pixels: Pixels above which a photo is refused by its header.
        seconds: Time limit of a photo that may take long, its wait for the process included.
        observe: Called with the seconds that each photo took, refused ones too.
    """

    def __init__(
        self,
        max_pixels: int,
        seconds: float = DECODE_SECONDS,
        observe: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._max_pixels, self._seconds, self._observe = max_pixels, seconds, observe
        self._quick = ThreadPoolExecutor(os.cpu_count() or 1, "photo")
        self._slow = ThreadPoolExecutor(1, "slow-photo")
        self._fetching = ThreadPoolExecutor(_FETCHES, "fetch-photo")
        self._abandoned = threading.Event()  # of the photo that the process decodes
        self._worker = SubprocessWorker(lambda: self._abandoned.is_set())
        self.inside = 0
        """Photos waiting or being decoded."""

    async def load(self, url: str, *, max_bytes: int, http: bool) -> bytes:
        """Load the file behind a URL.

        Args:
            url: A data URL, or an http address.
            max_bytes: Maximum size of a fetched file; a data URL is bounded by its request.
            http: Whether files are fetched from public http addresses.

        Raises:
            ProtocolError: The URL may not be followed, or leads to no file within limits.
        """
        loop = asyncio.get_running_loop()
        if url[:5].lower() == "data:":
            return await loop.run_in_executor(self._quick, _decode_data_url, url)
        if not http:
            message = "this server fetches no pictures; send a data URL (data:image/jpeg;base64,...)"
            raise _build_error(message, "image_url_not_allowed")
        try:
            async with asyncio.timeout(_FETCH_SECONDS):
                return await loop.run_in_executor(self._fetching, _fetch, url, max_bytes)
        except TimeoutError:
            raise _build_fetch_error("it takes too long") from None

    async def decode(self, data: bytes) -> Image.Image:
        """Decode a file to an upright photo in 8-bit RGB; cancelling it kills the process that decodes.

        Raises:
            ProtocolError: It is no picture, is too large, or takes too long.
        """
        loop = asyncio.get_running_loop()
        began = time.monotonic()
        abandoned = threading.Event()
        self.inside += 1
        try:
            try:
                return await loop.run_in_executor(self._quick, self._decode_at_once, data)
            except TakesLongError:
                end = time.monotonic() + self._seconds
                return await loop.run_in_executor(self._slow, self._decode_in_process, data, end, abandoned)
        finally:
            abandoned.set()
            self.inside -= 1
            self._observe(time.monotonic() - began)

    def decode_now(self, data: bytes) -> Image.Image:
        """Decode a file as ``decode`` does, in the thread of the caller."""
        try:
            return self._decode_at_once(data)
        except TakesLongError:
            end = time.monotonic() + self._seconds
            return self._slow.submit(self._decode_in_process, data, end, threading.Event()).result()

    def _decode_at_once(self, data: bytes) -> Image.Image:
        """Decode a small file.

        Raises:
            TakesLongError: The file may take long.
            ProtocolError: It is no picture or too large.
        """
        try:
            return decode_at_once(data, max_pixels=self._max_pixels, kept_pixels=KEPT_PIXELS)
        except PictureTooLargeError as error:
            message = f"the picture is too large: {error}; make it smaller"
            raise _build_error(message, "image_too_large") from error
        except ValueError as error:
            raise _build_decode_error(error) from error

    def _decode_in_process(self, data: bytes, end: float, abandoned: threading.Event) -> Image.Image:
        self._abandoned = abandoned
        try:
            limits = {"max_pixels": self._max_pixels, "kept_pixels": KEPT_PIXELS}
            return decoded_in(self._worker, data, **limits, seconds=end - time.monotonic())
        except ValueError as error:
            if time.monotonic() < end:
                raise _build_decode_error(error) from error
            message = f"the picture takes more than {self._seconds:g} s to decode; send it as an ordinary JPEG or PNG"
            raise _build_error(message, "image_too_slow") from error


def _decode_data_url(url: str) -> bytes:
    head, separator, content = url.partition(",")
    if not separator or not head.lower().startswith("data:image/") or not head.lower().endswith(";base64"):
        raise _build_error("a data URL has to begin with data:image/TYPE;base64,", "invalid_image_url")
    try:
        # As browsers decode it (WHATWG, "forgiving-base64"): encoders of phones break lines, others leave out "="
        coded = content.encode("ascii").translate(None, b"\t\n\f\r ").rstrip(b"=")
        return base64.b64decode(coded + b"=" * (-len(coded) % 4), validate=True)
    except ValueError:
        raise _build_error("the data URL is not valid base64", "invalid_image_url") from None


def _fetch(url: str, max_bytes: int) -> bytes:
    try:
        return fetch(url, seconds=_FETCH_SECONDS, max_bytes=max_bytes).body
    except FetchError as error:
        raise _build_fetch_error(str(error)) from error


def _build_fetch_error(reason: str) -> ProtocolError:
    return _build_error(f"the picture cannot be fetched: {reason}", "image_url_not_reachable")


def _build_decode_error(error: Exception) -> ProtocolError:
    message = f"the picture cannot be decoded ({type(error.__cause__ or error).__name__}); send JPEG, PNG or WebP"
    return _build_error(message, "invalid_image")


def _build_error(message: str, code: str) -> ProtocolError:
    return ProtocolError(400, message, code, param="messages")
