"""Photos for the report as data URLs: small, upright, with the regions that the agent looked at drawn in."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import cache

from PIL import Image, ImageDraw, ImageFont, ImageOps

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
    """Shrink an image to 300 pixels a side and draw its numbered boxes; a label is written once.

    Boxes are in pixels of the full image.
    """
    upright = ImageOps.exif_transpose(image)
    small = _rgb(upright).copy()
    small.thumbnail((SIZE, SIZE))
    draw = ImageDraw.Draw(small)
    across, down = small.width / upright.width, small.height / upright.height
    labels: set[str] = set()
    for number, box in enumerate(boxes):
        left, top = box.left * across, box.top * down
        colour = COLOURS[number % len(COLOURS)]
        right, bottom = max(left, box.right * across - 1), max(top, box.bottom * down - 1)
        draw.rectangle((left, top, right, bottom), outline=colour, width=2)
        caption = f"{number + 1}" if box.label in {"", *labels} else f"{number + 1} {box.label}"
        labels.add(box.label)
        left, top = max(0.0, left), max(0.0, top)
        ground = draw.textbbox((left + 4, top + 1), caption, font=_font())
        draw.rectangle((left, top, ground[2] + 3, ground[3] + 3), fill=colour)
        draw.text((left + 4, top + 1), caption, fill="white", font=_font())
    return small


def cut_crops(image: Image.Image, boxes: Sequence[BoxFound]) -> list[tuple[int, Image.Image]]:
    """Cut out the first regions, at most 90 pixels a side, with their numbers from 0.

    Regions outside the image are left out.
    """
    upright = ImageOps.exif_transpose(image)
    crops = []
    for number, box in enumerate(boxes[:_MAX_CROPS]):
        left, top = max(0, round(box.left)), max(0, round(box.top))
        right, bottom = min(upright.width, round(box.right)), min(upright.height, round(box.bottom))
        if right > left and bottom > top:
            part = _rgb(upright.crop((left, top, right, bottom)))
            part.thumbnail((CROP_SIZE, CROP_SIZE))
            crops.append((number, part))
    return crops


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=11)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I"):  # 16-bit: scale down, or all but black turns white
        image = image.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if image.mode in {"RGBA", "LA", "PA"} or "transparency" in image.info:
        layer = image.convert("RGBA")
        ground = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(ground, layer).convert("RGB")
    return image.convert("RGB")
