"""Text read in the picture, for models that cannot see: signs, labels and covers become evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.stage import Context
from agents.turn import Turn, with_image


class ImageText:
    """OCR over all pictures of the batch."""

    name: ClassVar[str] = "image_text"
    least_seconds: ClassVar[float] = 1.0
    wanted_seconds: ClassVar[float] = 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``image_text``."""
        concerned = with_image(turns)
        if not concerned:
            return
        least = context.settings.image_text.min_score
        read = context.models.ocr.read([turn.image for turn in concerned if turn.image is not None])
        for turn, lines in zip(concerned, read, strict=True):
            turn.image_text = tuple(line for line in lines if line.score >= least)
            turn.note(image_text=[line.text for line in turn.image_text])
