"""Small PDF files, written by hand: object offsets and all."""

from __future__ import annotations

from collections.abc import Iterable

_ENCODING = "<< /Type /Encoding /Differences [128 /fi /ffi /ff 131 /softhyphen 132 /afii57664 /afii57665 /afii57666] >>"
FI, FFI, FF, SOFT_HYPHEN, ALEF, BET, GIMEL = (f"\\{code:o}" for code in range(128, 135))
"""Letters in a text of ``show``."""


def show(x: float, y: float, text: str, size: float = 12) -> str:
    """Return the operators that draw a text, ``y`` points below the upper edge of a page of 600 x 800."""
    return f"BT /F1 {size} Tf {x} {800 - y} Td ({text}) Tj ET\n"


def show_turned(x: float, y: float, text: str, angle: int, size: float = 12) -> str:
    """Return the operators that draw a text turned to the left by an angle of 90, -90 or 180 degrees; ``y`` is from below."""
    cosine, sine = {90: (0, 1), -90: (0, -1), 180: (-1, 0)}[angle]
    return f"BT /F1 {size} Tf {cosine} {sine} {-sine} {cosine} {x} {y} Tm ({text}) Tj ET\n"


def show_rows(rows: Iterable[Iterable[str]], columns: Iterable[float], top: float = 100, step: float = 15) -> str:
    """Return the operators that draw rows of texts, row by row; an empty text is not drawn."""
    places = list(columns)
    return "".join(
        show(x, top + step * number, text)
        for number, row in enumerate(rows)
        for x, text in zip(places, row, strict=False)
        if text
    )


def draw_rules(lefts: Iterable[float], tops: Iterable[float]) -> str:
    """Return the operators that draw the rules of a table."""
    xs, ys = list(lefts), [800 - top for top in tops]
    lines = [
        *(f"{x} {ys[0]} m {x} {ys[-1]} l S\n" for x in xs),
        *(f"{xs[0]} {y} m {xs[-1]} {y} l S\n" for y in ys),
    ]
    return "".join(lines)


PICTURE = "q 400 0 0 400 100 200 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \x7f EI Q\n"


def make_pdf(*pages: str, title: str = "", rotate: int = 0, crop_box: str = "") -> bytes:
    """Return a PDF with a page for each of the operators."""
    more = f"/Rotate {rotate} " + (f"/CropBox [{crop_box}] " if crop_box else "")
    count = len(pages)
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding {_ENCODING} >>",
        f"<< /Title ({title}) >>",
    ]
    for number, content in enumerate(pages):
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {6 + 2 * number} 0 R "
            f"{more}/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    data, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    start = len(data)
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    data += b"".join(f"{offset:010} 00000 n \n".encode() for offset in offsets)
    trailer = f"<< /Size {len(objects) + 1} /Root 1 0 R /Info 4 0 R >>"
    return data + f"trailer\n{trailer}\nstartxref\n{start}\n%%EOF\n".encode()
