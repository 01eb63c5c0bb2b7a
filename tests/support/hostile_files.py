"""Pages and pictures that are made to take long, and exceptions that are no ``Exception``."""

from __future__ import annotations

import io
import random
import struct
import zlib
from typing import Any

from PIL import Image

HOSTILE_PAGE = "<dl>" + "<dt>x<dd>y" * 700_000
"""7 MB, for which trafilatura takes more than half a minute."""


class Panic(BaseException):
    """As ``pyo3_runtime.PanicException``, what a library written in Rust raises where it is broken."""


def encoded(size: tuple[int, int], kind: str, **options: Any) -> bytes:
    """The file of a red picture."""
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, kind, **options)
    return buffer.getvalue()


def bomb() -> bytes:
    """A PNG of black and white that is compressed a thousand times: 177 megapixels in 22 KB."""

    side = 13_300
    row = bytes(1 + (side + 7) // 8)
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", packed) + png_chunk(b"IEND", b"")


def png_chunk(kind: bytes, data: bytes) -> bytes:
    """A chunk of a PNG."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def chunks_behind_pixels(count: int) -> bytes:
    """A PNG with empty chunks behind its pixels, each of which Pillow's Python code reads."""
    whole = encoded((64, 48), "PNG")
    end = whole.rindex(b"IEND") - 4
    return whole[:end] + png_chunk(b"prVt", b"") * count + whole[end:]


def pixels_in_chunks(count: int) -> bytes:
    """A PNG with empty chunks of pixels before the others."""
    whole = encoded((64, 48), "PNG")
    begin = whole.index(b"IDAT") - 4
    return whole[:begin] + png_chunk(b"IDAT", b"") * count + whole[begin:]


def run_lengths(size: tuple[int, int]) -> bytes:
    """A BMP compressed by run lengths (RLE8) of eight pixels each; its width is a multiple of eight."""
    packed = (b"\x08\x01" * (size[0] // 8) + b"\0\0") * size[1]
    palette = bytes(4 * 256)
    offset = 14 + 40 + len(palette)
    head = struct.pack("<IiiHHIIiiII", 40, *size, 1, 8, 1, len(packed), 2835, 2835, 256, 256)
    return struct.pack("<2sIHHI", b"BM", offset + len(packed), 0, 0, offset) + head + palette + packed


def large_png(side: int) -> bytes:
    """A PNG of noise, its pixels in chunks of 8 KB, as libpng writes them."""
    rows = b"".join(b"\0" + row for row in batched_bytes(random.Random(1).randbytes(side * side), side))
    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    pixels = b"".join(png_chunk(b"IDAT", piece) for piece in batched_bytes(zlib.compress(rows, 1), 8192))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + pixels + png_chunk(b"IEND", b"")


def batched_bytes(data: bytes, size: int) -> list[bytes]:
    """The data in pieces of a size."""
    return [data[start : start + size] for start in range(0, len(data), size)]


def scans(count: int, side: int = 2048) -> bytes:
    """A progressive JPEG with one of its scans repeated: each takes some bytes, and a pass over the picture."""
    whole = encoded((side, side), "JPEG", progressive=True)
    last, end = whole.rindex(b"\xff\xda"), whole.rindex(b"\xff\xd9")
    return whole[:last] + whole[last:end] * count + whole[end:]
