"""Photos for the report: small, upright, with the regions that the agent looked at drawn in, as data URLs."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import cache

from PIL import Image, ImageDraw, ImageFont, ImageOps

from evaluation.files.traces import BoxView

SIZE = 300
"""Longest side in pixels."""

CROP_SIZE = 90
_QUALITY = 70
_COLOURS = ("#ff4d4f", "#36cfc9", "#ffc53d", "#9254de", "#73d13d")


def data_url(image: Image.Image) -> str:
    """An image as a WebP data URL."""
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=_QUALITY)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def thumbnail(image: Image.Image, boxes: Sequence[BoxView] = ()) -> Image.Image:
    """The image at most 300 pixels wide and high, with its boxes (in pixels of the full image)."""
    upright = ImageOps.exif_transpose(image)
    small = _rgb(upright).copy()
    small.thumbnail((SIZE, SIZE))
    draw = ImageDraw.Draw(small)
    across, down = small.width / upright.width, small.height / upright.height
    for number, box in enumerate(boxes):
        corners = (box.left * across, box.top * down, box.right * across - 1, box.bottom * down - 1)
        colour = _COLOURS[number % len(_COLOURS)]
        draw.rectangle(_ordered(corners), outline=colour, width=3)
        if box.label:
            place = (corners[0] + 6, corners[1] + 4)
            draw.text(place, box.label, fill="white", font=_font(), stroke_width=1, stroke_fill="black")
    return small


def crops(image: Image.Image, boxes: Sequence[BoxView], most: int = 3) -> list[Image.Image]:
    """The first regions cut out, at most 90 pixels wide and high; those that lie outside the image are left out."""
    upright = ImageOps.exif_transpose(image)
    found = []
    for box in boxes[:most]:
        left, top = max(0, round(box.left)), max(0, round(box.top))
        right, bottom = min(upright.width, round(box.right)), min(upright.height, round(box.bottom))
        if right > left and bottom > top:
            part = _rgb(upright.crop((left, top, right, bottom)))
            part.thumbnail((CROP_SIZE, CROP_SIZE))
            found.append(part)
    return found


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=13)


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


def _ordered(corners: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    left, top, right, bottom = corners
    return left, top, max(left, right), max(top, bottom)
