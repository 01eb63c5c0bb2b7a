"""Stage 5b: boxes around the objects asked about (QA-Dragon, section 3.4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from agents.models.vision.boxes import usable
from agents.stage import Context
from agents.turn import Turn, with_image


class Ground:
    """One call of the detector for the batch; several boxes of one name are all kept."""

    name: ClassVar[str] = "ground"
    least_seconds: ClassVar[float] = 1.0
    wanted_seconds: ClassVar[float] = 2.0

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``regions`` of the turns whose picture is to be searched."""
        settings = context.settings.ground
        concerned = [turn for turn in with_image(turns) if turn.tools.image]
        if not concerned:
            return
        phrases = [[turn.target.phrase] if turn.target.phrase else list(turn.target.objects) for turn in concerned]
        found = context.models.detector.detect([turn.image for turn in concerned if turn.image is not None], phrases)
        for turn, detections in zip(concerned, found, strict=True):
            if turn.image is None:
                continue
            turn.regions = tuple(
                usable(
                    detections,
                    *turn.image.size,
                    padding=settings.padding,
                    most_overlap=settings.most_overlap,
                    least_side=settings.least_side,
                    most_area=settings.most_area,
                    most=settings.most_crops,
                )
            )
            turn.note(
                boxes=[
                    [*(round(side) for side in (region.box.left, region.box.top, region.box.right, region.box.bottom)), region.phrase,
                     round(region.score, 3)]
                    for region in turn.regions
                ]
            )  # fmt: skip
