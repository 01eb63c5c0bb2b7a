"""Pages and pictures that are made to take long, and exceptions that are no ``Exception``."""

from __future__ import annotations

import io
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

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    side = 13_300
    row = bytes(1 + (side + 7) // 8)
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def scans(count: int, side: int = 2048) -> bytes:
    """A progressive JPEG with one of its scans repeated: each takes some bytes, and a pass over the picture."""
    whole = encoded((side, side), "JPEG", progressive=True)
    last, end = whole.rindex(b"\xff\xda"), whole.rindex(b"\xff\xd9")
    return whole[:last] + whole[last:end] * count + whole[end:]
