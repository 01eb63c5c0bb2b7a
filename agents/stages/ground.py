from collections.abc import Sequence
from dataclasses import astuple, replace

from PIL import Image
from pydantic import Field

from agents.base.remembered import Remembered
from agents.models.base import Box, Detection, Mask
from agents.models.pixels import picture_key
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

_KEPT_BOXES, _KEPT_MASKS = 256, 16  # photos; six masks of one take some 7 MB

Photo = tuple[str, Image.Image]  # with the key of its pixels


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

    def __init__(self, options: StageOptions | None = None) -> None:
        super().__init__(options)
        self._detected: Remembered[tuple[str, tuple[str, ...]], list[Detection]] = Remembered(_KEPT_BOXES)
        self._outlined: Remembered[tuple[str, tuple[Box, ...]], list[Mask]] = Remembered(_KEPT_MASKS)

    def roles(self) -> tuple[str, ...]:
        """Name the detector, and the segmenter if masks are wanted."""
        return ("detector", "segmenter") if self.options.masks else ("detector",)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``regions`` of the turns whose picture is to be searched."""
        concerned = [(turn, image) for turn, image in select_with_image(turns) if turn.tools.image]
        if not concerned:
            return
        photos = [(picture_key(image), image) for _, image in concerned]
        for (turn, image), detections in zip(concerned, self._detect(concerned, photos, context), strict=True):
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
            for (turn, _), own in zip(concerned, self._outline(concerned, photos, context), strict=True):
                turn.regions = tuple(replace(region, mask=mask) for region, mask in zip(turn.regions, own, strict=True))

    def _detect(
        self, concerned: Sequence[tuple[Turn, Image.Image]], photos: Sequence[Photo], context: Context
    ) -> list[list[Detection]]:
        """Return the boxes of each turn's photo. What was found in a photo is kept: a dialog asks of it again and again."""
        targets = [turn.target for turn, _ in concerned]
        phrases = [(target.phrase,) if target.phrase else tuple(target.objects) for target in targets]
        asked = {(key, said): image for (key, image), said in zip(photos, phrases, strict=True)}

        def detect(new: Sequence[tuple[str, tuple[str, ...]]]) -> dict[tuple[str, tuple[str, ...]], list[Detection]]:
            found = context.models.detector.detect([asked[one] for one in new], [list(said) for _, said in new])
            return dict(zip(new, found, strict=True))

        found = self._detected.get_all(asked, detect)
        return [found[key, said] for (key, _), said in zip(photos, phrases, strict=True)]

    def _outline(
        self, concerned: Sequence[tuple[Turn, Image.Image]], photos: Sequence[Photo], context: Context
    ) -> list[list[Mask]]:
        """Return the mask of each region of each turn, likewise."""
        boxes = [tuple(region.box for region in turn.regions) for turn, _ in concerned]
        asked = {(key, own): image for (key, image), own in zip(photos, boxes, strict=True)}

        def outline(new: Sequence[tuple[str, tuple[Box, ...]]]) -> dict[tuple[str, tuple[Box, ...]], list[Mask]]:
            masks = context.models.segmenter.segment([asked[one] for one in new], [own for _, own in new])
            return dict(zip(new, masks, strict=True))

        found = self._outlined.get_all(asked, outline)
        return [found[key, own] for (key, _), own in zip(photos, boxes, strict=True)]


def _found(region: Detection) -> BoxFound:
    left, top, right, bottom = (round(side) for side in astuple(region.box))
    return BoxFound(left, top, right, bottom, region.phrase, round(region.score, 3))
