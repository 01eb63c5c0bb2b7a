"""Reads printed text with RapidOCR: PP-OCRv4 run by onnxruntime, weights inside the package."""

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from agents.base.result_cache import ResultCache
from agents.models.base import Box, ModelError, TextLine
from agents.models.pixels import pixels_digest, to_rgb

REQUIREMENT = "rapidocr-onnxruntime==1.4.4"
SMALLEST_SIDE = 8  # pixels; smaller pictures have no readable letter and upset the detector
MAX_SIDE = 1280  # pixels; larger pictures are scaled down, boxes are those of the full picture
MIN_CONFIDENCE = 0.5  # the engine's own default; lines read with less are left out
CACHE_SIZE = 256  # photos whose lines are kept: several stages and models ask for those of one photo
SAME_ROW = 0.5  # two lines are in one row if they overlap by at least this share of the lower one's height


class RapidOcrReader:
    """An ``OcrReader``; the engine is loaded at the first call, and a picture is read once."""

    name = "rapidocr-ppocrv4"

    def __init__(self) -> None:
        self._lines: ResultCache[str, list[TextLine]] = ResultCache(CACHE_SIZE)

    def read(self, images: Sequence[Image.Image]) -> list[list[TextLine]]:
        """Read the lines of each image, top to bottom and left to right.

        Returns:
            The lines by image; a broken image has none.

        Raises:
            ModelError: rapidocr-onnxruntime is missing.
        """
        return [list(self._once(image)) for image in images]

    def _once(self, image: Image.Image) -> list[TextLine]:
        engine = self._engine  # load the engine first: if it is missing, that is the error, not a broken image
        try:
            rgb = to_rgb(image)
            key = pixels_digest(rgb)
        except ValueError as error:
            logging.getLogger(__name__).warning("Unreadable image: %s", error)
            return []
        return self._lines.get_all([key], lambda _: {key: in_reading_order(_read(engine, rgb))})[key]

    @cached_property
    def _engine(self) -> Any:
        try:
            from rapidocr_onnxruntime import RapidOCR
        except ImportError as error:
            raise ModelError(f"Reading text in images takes: pip install {REQUIREMENT} ({error})") from error
        # It logs each picture without text as a warning.
        for name in ("RapidOCR", "OrtInferSession"):
            logging.getLogger(name).setLevel(logging.ERROR)
        return RapidOCR(text_score=MIN_CONFIDENCE, intra_op_num_threads=1, inter_op_num_threads=1)


def _read(engine: Any, rgb: Image.Image) -> list[TextLine]:
    if min(rgb.size) < SMALLEST_SIDE:
        return []
    scale = max(1.0, max(rgb.size) / MAX_SIDE)
    if scale > 1.0:
        size = (max(SMALLEST_SIDE, round(rgb.width / scale)), max(SMALLEST_SIDE, round(rgb.height / scale)))
        small = rgb.resize(size, Image.Resampling.LANCZOS)
    else:
        small = rgb
    # The engine wants BGR, as OpenCV does.
    entries, _ = engine(np.asarray(small)[:, :, ::-1])
    ratio = (rgb.width / small.width, rgb.height / small.height)
    return [_line(entry, ratio) for entry in entries or () if str(entry[1]).strip()]


def in_reading_order(lines: Sequence[TextLine]) -> list[TextLine]:
    """Lines by rows from the top, each row from the left; a row has the lines that overlap vertically with its first."""
    rows: list[list[TextLine]] = []
    for line in sorted(lines, key=lambda item: (item.box.top + item.box.bottom) / 2):
        if rows and _same_row(rows[-1][0].box, line.box):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [line for row in rows for line in sorted(row, key=lambda item: item.box.left)]


def _same_row(first: Box, second: Box) -> bool:
    shared = min(first.bottom, second.bottom) - max(first.top, second.top)
    lower = min(first.bottom - first.top, second.bottom - second.top)
    return lower > 0 and shared / lower >= SAME_ROW


def _line(entry: Sequence[Any], ratio: tuple[float, float]) -> TextLine:
    """Convert one result of the engine: four corner points, the text, the confidence."""
    corners, text, score = entry[0], str(entry[1]).strip(), float(entry[2])
    xs = [float(x) * ratio[0] for x, _ in corners]
    ys = [float(y) * ratio[1] for _, y in corners]
    return TextLine(text, Box(min(xs), min(ys), max(xs), max(ys)), score)
