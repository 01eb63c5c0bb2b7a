"""Printed things in a scene: street signs, labels, book covers, receipts and handwritten notes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mini_crag_mm.content_models import TextStyle
from mini_crag_mm.generator.noise import fractal, grain, to_image

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Print:
    """Look of a text style: a font file of matplotlib (DejaVu, STIX), and (paper, ink) pairs to draw from."""

    font: str
    inks: tuple[tuple[Colour, Colour], ...]
    padding: float
    align: str = "center"


PRINTS: dict[TextStyle, Print] = {
    "sign": Print("DejaVuSans-Bold.ttf", (((18, 92, 58), (250, 250, 246)), ((22, 62, 130), (250, 250, 250)),
                                          ((244, 244, 240), (20, 20, 24)), ((246, 204, 40), (24, 22, 18)),
                                          ((150, 24, 28), (252, 250, 246))), 0.13),
    "label": Print("DejaVuSans.ttf", (((248, 246, 238), (26, 26, 30)), ((250, 240, 206), (50, 30, 16))), 0.08),
    "cover": Print("DejaVuSerif-Bold.ttf", (((34, 48, 84), (240, 226, 186)), ((112, 26, 34), (248, 234, 206)),
                                            ((226, 214, 186), (56, 34, 22)), ((26, 74, 66), (244, 240, 226))), 0.12),
    "receipt": Print("DejaVuSansMono.ttf", (((246, 245, 240), (44, 44, 52)),), 0.06, "left"),
    "handwritten": Print("STIXGeneralBolIta.ttf", (((252, 240, 156), (34, 40, 96)), ((250, 250, 246), (30, 44, 120))), 0.08),
}  # fmt: skip

SMALLEST_FONT_PX = 8


@lru_cache(maxsize=256)
def _font(name: str, size_px: int) -> ImageFont.FreeTypeFont:
    # The fonts are inside matplotlib, which need not be imported for them.
    return ImageFont.truetype(str(files("matplotlib") / "mpl-data" / "fonts" / "ttf" / name), size_px)


def _fit(text: str, font: str, width: int, height: int) -> tuple[ImageFont.FreeTypeFont, float]:
    """Find the largest font in which `text` fits into width x height pixels, and its line spacing."""
    low, high = SMALLEST_FONT_PX, max(SMALLEST_FONT_PX + 1, height)
    probe = ImageDraw.Draw(Image.new("L", (1, 1)))
    while low + 1 < high:
        size = (low + high) // 2
        left, top, right, bottom = probe.multiline_textbbox((0, 0), text, font=_font(font, size), spacing=size * 0.22)
        if right - left <= width and bottom - top <= height:
            low = size
        else:
            high = size
    return _font(font, low), low * 0.22


def _paper(rng: np.random.Generator, width: int, height: int, colour: Colour) -> Image.Image:
    """Draw a sheet or board of one colour, with a trace of grain and uneven light."""
    light = 1 + 0.10 * (fractal(rng, width, height, cell=max(width, height) / 1.5, octaves=2) - 0.5)
    surface = np.array(colour, dtype=np.float32) * light[..., None] + 1.6 * grain(rng, width, height)[..., None]
    return to_image(surface).convert("RGBA")


def _decorate(draw: ImageDraw.ImageDraw, style: TextStyle, width: int, height: int, ink: Colour) -> None:
    """Draw edges and lines that make a board look like a sign, or a block like a book."""
    unit = max(2, min(width, height) // 40)
    if style == "sign":
        draw.rounded_rectangle(
            (unit * 1.5, unit * 1.5, width - unit * 1.5, height - unit * 1.5), radius=unit * 3, outline=ink, width=unit
        )
    elif style == "cover":
        draw.rectangle((unit * 2, unit * 2, width - unit * 2, height - unit * 2), outline=ink, width=max(1, unit // 2))
        draw.rectangle((0, 0, unit * 1.2, height), fill=(0, 0, 0, 60))
    elif style == "label":
        rim, grey = (1, 1, width - 2, height - 2), (150, 146, 138)
        draw.rounded_rectangle(rim, radius=unit * 2, outline=grey, width=max(1, unit // 2))


def print_text(text: str, style: TextStyle, width: int, height: int, rng: np.random.Generator) -> Image.Image:
    """Print `text` as large as possible on a thing of width x height pixels, in RGBA."""
    look = PRINTS[style]
    paper, ink = look.inks[int(rng.integers(len(look.inks)))]
    board = _paper(rng, width, height, paper)
    draw = ImageDraw.Draw(board, "RGBA")
    _decorate(draw, style, width, height, ink)
    pad_x, pad_y = int(width * look.padding * 0.7) + 3, int(height * look.padding) + 3
    lines = text.strip("\n")
    font, spacing = _fit(lines, look.font, width - 2 * pad_x, height - 2 * pad_y)
    left, top, right, bottom = draw.multiline_textbbox((0, 0), lines, font=font, spacing=spacing, align=look.align)
    at = ((width - (right - left)) / 2 - left, (height - (bottom - top)) / 2 - top)
    draw.multiline_text(at, lines, font=font, fill=(*ink, 255), spacing=spacing, align=look.align)
    if style == "sign":
        # Signs have rounded corners; everything else is cut square.
        mask = Image.new("L", board.size)
        rounding = max(3, min(width, height) // 14)
        ImageDraw.Draw(mask).rounded_rectangle((0, 0, width - 1, height - 1), radius=rounding, fill=255)
        board.putalpha(mask)
    return board
