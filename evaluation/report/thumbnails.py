"""Photos for the report as data URLs: small, upright, with the regions that the agent looked at drawn in."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import cache

from PIL import Image, ImageDraw, ImageFont

from agents.models.pixels import to_rgb
from agents.record import BoxFound

SIZE = 300
"""Longest side in pixels."""

CROP_SIZE = 90
_MAX_CROPS = 3
_QUALITY = 55
COLOURS = ("#e5484d", "#0e9888", "#d9820a", "#7c4dd6", "#3b82d6")
"""Colours of boxes and their crops, used in rotation; white text is readable on each."""


def to_data_url(image: Image.Image) -> str:
    """Encode an image as a WebP data URL."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=_QUALITY, method=6)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def make_thumbnail(image: Image.Image, boxes: Sequence[BoxFound] = ()) -> Image.Image:
    """Shrink an image to 300 pixels a side and draw its numbered boxes.

    Boxes are in pixels of the full image.
    """
    upright = to_rgb(image)
    small = upright.copy()
    small.thumbnail((SIZE, SIZE))
    draw = ImageDraw.Draw(small)
    across, down = small.width / upright.width, small.height / upright.height
    for number, (box, caption) in enumerate(zip(boxes, make_captions(boxes), strict=True)):
        left, top = box.left * across, box.top * down
        colour = COLOURS[number % len(COLOURS)]
        right, bottom = max(left, box.right * across - 1), max(top, box.bottom * down - 1)
        draw.rectangle((left, top, right, bottom), outline=colour, width=2)
        left, top = max(0.0, left), max(0.0, top)
        ground = draw.textbbox((left + 4, top + 1), caption, font=_font())
        draw.rectangle((left, top, ground[2] + 3, ground[3] + 3), fill=colour)
        draw.text((left + 4, top + 1), caption, fill="white", font=_font())
    return small


def make_captions(boxes: Sequence[BoxFound]) -> list[str]:
    """Return the number of each box and its label, unless an earlier box or every box has the same label."""
    labels = [box.label for box in boxes]
    shown = [label if len({*labels}) > 1 and label not in labels[:place] else "" for place, label in enumerate(labels)]
    return [f"{number} {label}".rstrip() for number, label in enumerate(shown, 1)]


def cut_crops(image: Image.Image, boxes: Sequence[BoxFound]) -> list[tuple[int, Image.Image]]:
    """Cut out the first regions, at most 90 pixels a side, with their numbers from 0.

    Regions outside the image are left out.
    """
    upright = to_rgb(image)
    crops = []
    for number, box in enumerate(boxes[:_MAX_CROPS]):
        left, top = max(0, round(box.left)), max(0, round(box.top))
        right, bottom = min(upright.width, round(box.right)), min(upright.height, round(box.bottom))
        if right > left and bottom > top:
            part = upright.crop((left, top, right, bottom))
            part.thumbnail((CROP_SIZE, CROP_SIZE))
            crops.append((number, part))
    return crops


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=11)
