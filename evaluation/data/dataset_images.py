"""Images of a data set: decoded from the row, or fetched by URL through a folder of cached files."""

from __future__ import annotations

import hashlib
import io
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import httpx
from PIL import Image, ImageOps
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from agents.base.files import write_whole
from evaluation.records import Session
from evaluation.rules import EgoImage

EGO_SIZE = (960, 1280)
"""Width and height in pixels of egocentric images (challenge rules)."""

MAX_IMAGE_BYTES = 64 * 1024 * 1024
"""Longest download; the largest images of the public sets are some tens of megabytes."""

TIMEOUT_SECONDS = 20.0
_WHOLE_SECONDS = 300.0  # of a download; TIMEOUT_SECONDS is for each silence alone
USER_AGENT = "crag-mm-evaluation/0.1 (research; image cache)"
_KNOWN_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})


@dataclass(frozen=True)
class LoadedImage:
    """An image as the agent gets it, or None with a note that says why there is none."""

    image: Image.Image | None
    note: str | None = None


class ImageSource(Protocol):
    """Source of the images of sessions (a ``CragDataset``, or a list of images in a test)."""

    def image(self, session: Session) -> LoadedImage:
        """Return the image of a session, or None with a note."""


def cache_name(url: str) -> str:
    """Return the file name of a URL in an image cache.

    Returns:
        The URL's SHA-256 in hex and the extension of its path (".img" if unknown).
    """
    suffix = PurePosixPath(re.split(r"[?#]", url, maxsplit=1)[0]).suffix.lower()
    return hashlib.sha256(url.encode()).hexdigest() + (suffix if suffix in _KNOWN_SUFFIXES else ".img")


def open_image(data: bytes) -> Image.Image:
    """Decode an image file and turn it upright, as ``datasets.Image`` does.

    Raises:
        OSError: The data are no image, or a broken one.
    """
    try:
        image: Image.Image = Image.open(io.BytesIO(data))
        image.load()
        return ImageOps.exif_transpose(image)
    except (
        SyntaxError,
        ValueError,
        EOFError,
        Image.DecompressionBombError,
    ) as error:  # Pillow raises these for broken files
        raise OSError(f"not a readable image: {error}") from error


def fit_ego(image: Image.Image) -> Image.Image:
    """Shrink an egocentric image to fit 960x1280 pixels, keeping its aspect; smaller ones are unchanged."""
    if image.width <= EGO_SIZE[0] and image.height <= EGO_SIZE[1]:
        return image
    if image.mode == "P":  # a palette cannot be interpolated
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    elif image.mode.startswith("I;16"):
        image = image.convert("I")
    return ImageOps.contain(image, EGO_SIZE, Image.Resampling.LANCZOS)


EGO_IMAGES: Mapping[EgoImage, Callable[[Image.Image], Image.Image]] = {
    "as it is": lambda image: image,
    "fitted": fit_ego,
    "stretched": lambda image: image.resize(EGO_SIZE),  # with Pillow's default filter (research release)
}


class ImageCache:
    """Images by URL, from the cache folders in order, then by HTTP if online.

    Downloads are put into the last folder.
    """

    def __init__(self, folders: Sequence[Path], online: bool, attempts: int = 3) -> None:
        self.folders = tuple(folders)
        self.online = online
        self.attempts = attempts

    def load(self, url: str) -> LoadedImage:
        """Load the image behind a URL; any failure gives a note, never an exception."""
        name = cache_name(url)
        for folder in self.folders:
            path = folder / name
            if path.is_file():
                try:
                    return LoadedImage(open_image(path.read_bytes()))
                except OSError as error:
                    return LoadedImage(None, f"cached image {path.name} of {url}: {error}")
        if not self.online:
            return LoadedImage(None, f"image {url} is not in the image cache and downloads are off")
        if not url.startswith(("http://", "https://")):
            return LoadedImage(None, f"image {url} is no http(s) address and not in the image cache")
        try:
            data = self._download(url)
            image = open_image(data)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return LoadedImage(None, f"image {url} could not be fetched: {error}")
        self._keep(name, data)
        return LoadedImage(image)

    def _download(self, url: str) -> bytes:
        attempts = Retrying(
            stop=stop_after_attempt(self.attempts),
            wait=wait_exponential_jitter(initial=0.5, max=4.0),
            retry=retry_if_exception_type(httpx.TransportError),
            reraise=True,
        )
        return attempts(self._download_once, url)

    def _download_once(self, url: str) -> bytes:
        headers = {"User-Agent": USER_AGENT}
        end = time.monotonic() + _WHOLE_SECONDS
        with httpx.stream("GET", url, headers=headers, timeout=TIMEOUT_SECONDS, follow_redirects=True) as response:
            response.raise_for_status()
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > MAX_IMAGE_BYTES:
                    raise OSError(f"larger than {MAX_IMAGE_BYTES} bytes")
                if time.monotonic() > end:
                    raise OSError(f"not there within {_WHOLE_SECONDS:g} s")
        return bytes(data)

    def _keep(self, name: str, data: bytes) -> None:
        write_whole(self.folders[-1] / name, data)  # a killed download leaves no half file under the final name


def decode_cell(cell: Mapping[str, Any] | None) -> LoadedImage | None:
    """Decode an ``image`` cell (``{"bytes": ..., "path": ...}``); None for an empty cell."""
    if not cell or not (cell["bytes"] or cell["path"]):
        return None
    try:
        return LoadedImage(open_image(cell["bytes"] or Path(cell["path"]).read_bytes()))
    except OSError as error:
        return LoadedImage(None, f"image of the row: {error}")
