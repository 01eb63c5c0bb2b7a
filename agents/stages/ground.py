from collections.abc import Sequence
from dataclasses import astuple, replace

from pydantic import Field

from agents.models.base import Detection
from agents.models.vision.boxes import usable
from agents.record import BoxFound
from agents.stage import Context, Stage, StageOptions
from agents.turn import Turn, select_with_image

# Ours: the paper names a detector, and no rule for its boxes.
_PADDING = 0.05  # of its sides, by which a box is grown
_MAX_OVERLAP = 0.5  # IoU above which two boxes are one
_MIN_SIDE = 48  # pixels; smaller boxes show too little to be recognised
_MAX_AREA = 0.85  # of the image; the whole image is searched anyway
_MAX_BOXES = 6
_BOXES_WHEN_SHORT = 1


class Ground(Stage):
    """Boxes of a detector around the objects asked about (QA-Dragon, section 3.4.2), and their masks; one call each for the batch.

    Padded, clipped, without duplicates: ``agents/models/vision/boxes.py``.
    """

    class Options(StageOptions):
        min_area: float = Field(0.0, ge=0, lt=1, description="share of the image that a box covers at least")
        masks: bool = Field(False, description="whether a segmenter tells the object in a box from what is around it")

    options: Options
    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("regions",)
    groups = ("cropping", "image")
    doing = "finding things in the photo"
    when_short = f"{_BOXES_WHEN_SHORT} box"

    def roles(self) -> tuple[str, ...]:
        """Name the detector, and the segmenter if masks are wanted."""
        return ("detector", "segmenter") if self.options.masks else ("detector",)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``regions`` of the turns whose picture is to be searched."""
        concerned = [(turn, image) for turn, image in select_with_image(turns) if turn.tools.image]
        if not concerned:
            return
        targets = [turn.target for turn, _ in concerned]
        phrases = [[target.phrase] if target.phrase else list(target.objects) for target in targets]
        found = context.models.detector.detect([image for _, image in concerned], phrases)
        for (turn, image), detections in zip(concerned, found, strict=True):
            turn.regions = tuple(
                usable(
                    detections,
                    *image.size,
                    padding=_PADDING,
                    max_overlap=_MAX_OVERLAP,
                    min_side=_MIN_SIDE,
                    max_area=_MAX_AREA,
                    min_area=self.options.min_area,
                    limit=_BOXES_WHEN_SHORT if context.short else _MAX_BOXES,
                )
            )
            turn.record(boxes=tuple(_found(region) for region in turn.regions))
        if self.options.masks:
            boxes = [[region.box for region in turn.regions] for turn, _ in concerned]
            masks = context.models.segmenter.segment([image for _, image in concerned], boxes)
            for (turn, _), own in zip(concerned, masks, strict=True):
                turn.regions = tuple(replace(region, mask=mask) for region, mask in zip(turn.regions, own, strict=True))


def _found(region: Detection) -> BoxFound:
    left, top, right, bottom = (round(side) for side in astuple(region.box))
    return BoxFound(left, top, right, bottom, region.phrase, round(region.score, 3))
