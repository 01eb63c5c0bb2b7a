"""Loads the photo that a request refers to by an untrusted URL."""

import base64
import io

from PIL import Image

from agents.intake import PHOTO_FORMATS, opened
from agents.search.fetching import FetchError, fetch
from apps.serving.protocol import ProtocolError

_FETCH_SECONDS = 5.0


def photo_of(url: str, *, max_bytes: int, max_pixels: int, http: bool) -> Image.Image:
    """The photo behind a URL, upright, 8-bit RGB; ProtocolError where it may not be followed or holds no picture within limits.

    ``max_bytes`` bounds a file that is fetched (a data URL is bounded by its request), from public addresses alone and only with ``http``;
    pictures of more than ``max_pixels`` are refused before they are decoded.
    """
    return decoded(_data(url) if url[:5].lower() == "data:" else _fetched(url, max_bytes, http), max_pixels)


def decoded(data: bytes, max_pixels: int) -> Image.Image:
    """A file's photo, upright, 8-bit RGB; ProtocolError where it holds no picture of ``FORMATS``, or one of more than ``max_pixels``."""
    try:
        with Image.open(io.BytesIO(data), formats=PHOTO_FORMATS) as image:
            if image.width * image.height > max_pixels:
                message = f"the picture has {image.width} x {image.height} pixels; at most {max_pixels} are taken"
                raise _refused(message, "image_too_large")
            return opened(image)
    except ProtocolError:
        raise
    except Exception as error:
        message = f"the picture cannot be decoded ({type(error).__name__}); send JPEG, PNG or WebP"
        raise _refused(message, "invalid_image") from error


def _data(url: str) -> bytes:
    head, separator, content = url.partition(",")
    if not separator or not head.lower().startswith("data:image/") or not head.lower().endswith(";base64"):
        raise _refused("a data URL has to begin with data:image/TYPE;base64,", "invalid_image_url")
    try:
        return base64.b64decode(content, validate=True)
    except ValueError:
        raise _refused("the data URL is not valid base64", "invalid_image_url") from None


def _fetched(url: str, max_bytes: int, http: bool) -> bytes:
    if not http:
        message = "this server fetches no pictures; send a data URL (data:image/jpeg;base64,...)"
        raise _refused(message, "image_url_not_allowed")
    try:
        return fetch(url, seconds=_FETCH_SECONDS, max_bytes=max_bytes).body
    except FetchError as error:
        raise _refused(f"the picture cannot be fetched: {error}", "image_url_not_reachable") from error


def _refused(message: str, code: str) -> ProtocolError:
    return ProtocolError(400, message, code, param="messages")
