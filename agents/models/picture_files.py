"""Decoding of untrusted picture files, with limits of format, pixels and time, checked before decoding.

Seconds on one core of a 2024 server with Pillow 13: 4 megapixels take 0.02 (JPEG) to 0.11 (PNG of noise), 25 megapixels 0.11 to 0.64. A
progressive JPEG takes as long once more for each of its scans, of which a megabyte can have thousands. Pillow's Python code takes some
microseconds for each piece of a file, of which a megabyte can have a hundred thousand. So small pictures of common formats and of few
pieces are decoded at once; all others in a process that is killed when the picture's time limit is over.
"""

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from PIL import Image, ImageFile, UnidentifiedImageError

from agents.base.files import read_bounded
from agents.models.pixels import to_rgb
from agents.time_limits.subprocess_worker import SubprocessError, SubprocessWorker

_HEIF = "HEIF"
FORMATS: tuple[str, ...] = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", _HEIF)
"""Formats of cameras, phones, browsers, encyclopedias. Pillow's other decoders are seldom looked after; that of EPS starts Ghostscript."""

MAX_PIXELS = 178_956_970
"""Larger pictures are not decoded: Pillow's own limit against decompression bombs (2 x 2^30 / 12 pixels)."""

KEPT_PIXELS = 25_000_000
"""Larger pictures are made smaller at once: 16 of them at full size would take the memory that models need."""

MAX_FILE_BYTES = 300 * 2**20  # of a user's own picture; one of ``MAX_PIXELS`` in plain RGB has 512 MB
FILE_SECONDS = 30.0
"""Time limit of a user's own picture that may take long: nobody else waits for it."""

MAX_SCANS = 20  # of a JPEG that is decoded at once; libjpeg's own script of a progressive one has 10

_QUICK_FORMATS = frozenset({"JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP"})  # MPO: a JPEG with further pictures behind it
_HEADER_READS = 2_000  # of a file's header; a camera's has some dozens of segments
_MAX_SIDE = 20_000  # pixels of a picture that is decoded at once: each line costs time of its own
_READS = 20_000  # of its pixels: a PNG of 50 MB in blocks of 8 KB, as libpng writes them
_SCAN = b"\xff\xda"  # JPEG's marker "start of scan"
_LIMITS, _SIZE = struct.Struct(">QQ"), struct.Struct(">II")

Image.init()  # ``Image.open(formats=...)`` raises KeyError for a format whose plugin has not been loaded yet
try:
    import pi_heif
except ImportError:  # the image of the competition goes without photos of phones
    FORMATS = tuple(name for name in FORMATS if name != _HEIF)
else:
    pi_heif.register_heif_opener()


class TakesLongError(Exception):
    """A picture may take long to decode."""


class PictureTooLargeError(ValueError):
    """A picture has more pixels than are decoded."""


class _CountedFile(io.BytesIO):
    """File of a picture that raises TakesLongError at the read after the last one left."""

    reads_left = _HEADER_READS

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as any file does."""
        self.reads_left -= 1
        if self.reads_left < 0:
            raise TakesLongError
        return super().read(size)


def read_picture_file(path: Path, seconds: float = FILE_SECONDS) -> Image.Image:
    """Decode a user's own file as ``decode_picture`` does, within the limits of this module.

    Raises:
        ValueError: The file is too large, has no picture, or one too large or too slow to decode.
        OSError: The file cannot be read.
    """
    data = read_bounded(path, MAX_FILE_BYTES)
    return decode_picture(data, max_pixels=MAX_PIXELS, kept_pixels=KEPT_PIXELS, worker=_get_worker(), seconds=seconds)


@cache
def _get_worker() -> SubprocessWorker:
    return SubprocessWorker()


def decode_picture(
    data: bytes, *, max_pixels: int, kept_pixels: int, worker: SubprocessWorker, seconds: float
) -> Image.Image:
    """Decode a picture's file to RGB as ``to_rgb`` does, reduced to ``kept_pixels``.

    Pictures above ``max_pixels`` are refused by their header. Those above ``kept_pixels``, and any others that may take
    long, get ``seconds`` of real time in the worker's process.

    Raises:
        ValueError: The file has no picture, or one too large or too slow to decode.
    """
    try:
        return decode_at_once(data, max_pixels=max_pixels, kept_pixels=kept_pixels)
    except TakesLongError:
        return decoded_in(worker, data, max_pixels=max_pixels, kept_pixels=kept_pixels, seconds=seconds)


def decode_at_once(data: bytes, *, max_pixels: int, kept_pixels: int) -> Image.Image:
    """Decode a file that is sure to be quick.

    Raises:
        TakesLongError: The file may take long.
        PictureTooLargeError: Its picture has more than ``max_pixels``.
        ValueError: It has no picture, or a broken one.
    """
    file = _CountedFile(data)
    with _as_value_error(), _open(file, max_pixels) as image:
        if not _decodes_quickly(image, data, kept_pixels):
            raise TakesLongError
        file.reads_left = _READS
        return reduced_rgb(image, kept_pixels)


@contextmanager
def _as_value_error() -> Iterator[None]:
    """Turn the errors of Pillow's decoders on broken files, dozens of kinds, into ValueError."""
    try:
        yield
    except (TakesLongError, ValueError):
        raise
    except Exception as error:
        raise ValueError(f"image cannot be decoded: {type(error).__name__}: {error}") from error


def _decodes_quickly(image: Image.Image, data: bytes, max_pixels: int) -> bool:
    """Return whether an opened file of few pieces decodes in a fraction of a second for some megapixels."""
    jpeg = image.format in ("JPEG", "MPO")
    return (
        image.format in _QUICK_FORMATS
        and image.width * image.height <= max_pixels
        and max(image.size) <= _MAX_SIDE
        and not image.info.get("interlace")  # seven passes
        and not (jpeg and data.count(_SCAN) > MAX_SCANS)
        and not any(tile[0] in Image.DECODERS for tile in getattr(image, "tile", ()))  # written in Python, as for RLE
    )


def decoded_in(
    worker: SubprocessWorker, data: bytes, *, max_pixels: int, kept_pixels: int, seconds: float
) -> Image.Image:
    """Decode a picture's file in the worker's process.

    Parameters and ValueError are those of ``decode_picture``.
    """
    try:
        payload = worker.run(f"{__name__}:decoded_bytes", _LIMITS.pack(max_pixels, kept_pixels) + data, seconds)
    except TimeoutError:
        raise ValueError(f"it takes more than {seconds:.2f} s to decode") from None
    except SubprocessError as error:
        raise ValueError(f"image cannot be decoded: {error}") from error
    return Image.frombytes("RGB", _SIZE.unpack_from(payload), payload[_SIZE.size :])


def decoded_bytes(data: bytes) -> bytes:
    """Decode a file in the process: limits and file in, size and pixels out."""
    max_pixels, kept_pixels = _LIMITS.unpack_from(data)
    with _open(io.BytesIO(data[_LIMITS.size :]), max_pixels) as image:
        rgb = reduced_rgb(image, kept_pixels)
    return _SIZE.pack(*rgb.size) + rgb.tobytes()


def reduced_rgb(image: Image.Image, kept_pixels: int) -> Image.Image:
    """Convert a picture as ``to_rgb`` does, shrinking it to ``kept_pixels`` while it is decoded.

    Raises:
        ValueError: As for ``to_rgb``.
    """
    pixels = image.width * image.height
    if pixels <= kept_pixels:
        return to_rgb(image)
    scale = (kept_pixels / pixels) ** 0.5
    size = max(1, int(image.width * scale)), max(1, int(image.height * scale))
    smaller = image.copy() if getattr(image, "fp", None) is None else image
    smaller.draft(None, size)  # a JPEG is decoded at a fraction of its size; others ignore it
    if smaller.width * smaller.height > kept_pixels:
        smaller = _shrink(smaller, size)
    rgb = to_rgb(smaller)
    if rgb.width * rgb.height > kept_pixels:
        rgb = rgb.copy()
        rgb.thumbnail(size if (rgb.width > rgb.height) == (size[0] > size[1]) else size[::-1])  # it is upright now
    return rgb


def _shrink(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Shrink a picture in a way that its mode allows: colours of a palette and 16-bit values cannot be averaged in place."""
    if image.mode in ("P", "PA") or image.mode.startswith("I;16"):
        return image.resize(size, Image.Resampling.NEAREST)
    return (image.convert("L") if image.mode == "1" else image).reduce(2)


def check_format(image: Image.Image) -> None:
    """Check the format of a picture that was opened and not decoded yet.

    Raises:
        ValueError: The picture's format is none of ``FORMATS``.
    """
    is_undecoded = isinstance(image, ImageFile.ImageFile) and getattr(image, "fp", None) is not None
    if is_undecoded and image.format not in (*FORMATS, "MPO"):
        raise ValueError(f"pictures of the format {image.format} are not decoded, only {', '.join(FORMATS)}")


def _open(file: io.BytesIO, max_pixels: int) -> Image.Image:
    try:
        image = Image.open(file, formats=FORMATS)
    except Image.DecompressionBombError as error:
        raise PictureTooLargeError(f"more than {max_pixels} pixels") from error
    except UnidentifiedImageError as error:
        raise ValueError(f"image cannot be decoded: it is none of {', '.join(FORMATS)}") from error
    if image.width * image.height > max_pixels:
        raise PictureTooLargeError(f"{image.width} x {image.height} pixels are more than {max_pixels}")
    return image
