"""Several pictures on one labelled sheet, for models that take one picture a prompt."""

import math
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont, ImageOps

from agents.models.pixels import to_rgb

SIDE = 1120
"""Pixels of a sheet's sides: Llama-3.2-Vision looks at up to 2 x 2 tiles of 560, so that nothing of a sheet is scaled down again."""

_LEADING = 0.6  # of the height, for the first picture: the photo that the question is about
_LABEL = 28  # pixels of the strip above a picture
_GAP = 4  # pixels around a picture


def montage(pictures: Sequence[tuple[str, Image.Image]]) -> Image.Image:
    """Arrange labelled pictures on a white RGB sheet of ``SIDE`` x ``SIDE`` pixels.

    The first picture is above, as large as possible, and the others are in a grid below it.

    Raises:
        ValueError: There is no picture, or one of them cannot be decoded.
    """
    if not pictures:
        raise ValueError("a sheet needs a picture")
    sheet = Image.new("RGB", (SIDE, SIDE), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(_LABEL - 2 * _GAP)
    for (label, picture), (left, top, width, height) in zip(pictures, cells(len(pictures)), strict=True):
        draw.text((left + _GAP, top + _GAP), label, fill="black", font=font)
        thumbnail = ImageOps.contain(to_rgb(picture), (width - 2 * _GAP, height - _LABEL - 2 * _GAP))
        sheet.paste(thumbnail, (left + (width - thumbnail.width) // 2, top + _LABEL + _GAP))
    return sheet


def cells(count: int) -> list[tuple[int, int, int, int]]:
    """Left, top, width and height in pixels of so many places; in those below the first fits as large a square as can be."""
    if count <= 1:
        return [(0, 0, SIDE, SIDE)] * count
    first = round(_LEADING * SIDE)
    below, rest = SIDE - first, count - 1
    sizes = [(columns, SIDE // columns, below // math.ceil(rest / columns)) for columns in range(1, rest + 1)]
    columns, width, height = max(sizes, key=lambda size: (min(size[1:]), size[1] * size[2]))
    places = [(index % columns * width, first + index // columns * height, width, height) for index in range(rest)]
    return [(0, 0, SIDE, first), *places]
