from collections.abc import Callable, Hashable, Sequence
from dataclasses import astuple, replace
from functools import partial
from typing import TypeVar

from PIL import Image
from pydantic import Field

from agents.base.result_cache import ResultCache
from agents.models.base import Box, Detection, Mask, Segmenter
from agents.models.pixels import picture_key
from agents.models.vision.boxes import overlap, pad, scale, usable
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
_DRAWN_SCORE = 2.0  # of a box that the look's model drew: above those of detectors

_MASK_SIDE = 1_600
"""Longer side in pixels of the copy that a larger photo is segmented on; its masks have the size of that copy.

SAM reads 1,024 pixels and GrabCut 240, crops are encoded from a few hundred, and photos of the data set are 960 x 1280. At 25 megapixels
six masks would take 150 MB and SAM 0.24 s for each.
"""

_KEPT_BOXES = 256  # photos
_KEPT_MASKS = 16  # photos; six masks of 960 x 1280 pixels take 7 MB, and at most 15 MB, for a square of ``_MASK_SIDE``

Query = TypeVar("Query", bound=Hashable)
Result = TypeVar("Result")


class Ground(Stage):
    """Detects the objects asked about (QA-Dragon, section 3.4.2), and segments them; one call each for the batch.

    A thing that the look's model drew a box of keeps it; the detector is asked for the other things alone. Boxes are padded, clipped and
    deduplicated: ``agents/models/vision/boxes.py``.
    """

    class Options(StageOptions):
        min_area: float = Field(0.0, ge=0, lt=1, description="share of the image that a box covers at least")
        masks: bool = Field(
            False, description="whether a segmenter separates the object in a box from its surroundings"
        )

    options: Options
    min_seconds, wanted_seconds = 1.0, 2.0
    fills = ("regions",)
    groups = ("cropping", "image")
    doing = "finding things in the photo"
    when_short = f"{_BOXES_WHEN_SHORT} box"

    def __init__(self, options: StageOptions | None = None) -> None:
        super().__init__(options)
        self._detected: ResultCache[tuple[str, tuple[str, ...]], list[Detection]] = ResultCache(_KEPT_BOXES)
        self._outlined: ResultCache[tuple[str, tuple[Box, ...]], list[Mask]] = ResultCache(_KEPT_MASKS)

    def roles(self) -> tuple[str, ...]:
        """Name the detector, and the segmenter if masks are wanted."""
        return ("detector", "segmenter") if self.options.masks else ("detector",)

    def run(self, turns: Sequence[Turn], context: Context) -> None:
        """Fill ``regions`` of the turns whose picture is to be searched."""
        concerned = [(turn, image) for turn, image in select_with_image(turns) if turn.tools.image]
        if not concerned:
            return
        photos = [(picture_key(image), image) for _, image in concerned]
        limit = _BOXES_WHEN_SHORT if context.short else _MAX_BOXES
        for turn, image in concerned:
            turn.regions = _list_drawn(turn, image)[:limit]
        undrawn = [place for place, (turn, _) in enumerate(concerned) if not _is_all_drawn(turn)]
        phrases = [_list_phrases(concerned[place][0]) for place in undrawn]
        detected = (
            look_once(self._detected, [photos[place] for place in undrawn], phrases, context.models.detector.detect)
            if undrawn
            else []
        )
        for place, detections in zip(undrawn, detected, strict=True):
            turn, image = concerned[place]
            own = usable(
                detections,
                *image.size,
                padding=_PADDING,
                max_overlap=_MAX_OVERLAP,
                min_side=_MIN_SIDE,
                max_area=_MAX_AREA,
                min_area=self.options.min_area,
                limit=_MAX_BOXES,
            )
            drawn = turn.regions
            others = (each for each in own if all(overlap(each.box, it.box) <= _MAX_OVERLAP for it in drawn))
            turn.regions = (*drawn, *others)[:limit]
        for turn, _ in concerned:
            turn.record(boxes=tuple(_convert_region(region) for region in turn.regions))
        if self.options.masks:
            boxes = [tuple(region.box for region in turn.regions) for turn, _ in concerned]
            outlined = look_once(self._outlined, photos, boxes, partial(_segment_copies, context.models.segmenter))
            for (turn, _), masks in zip(concerned, outlined, strict=True):
                turn.regions = tuple(
                    replace(region, mask=mask) for region, mask in zip(turn.regions, masks, strict=True)
                )


def _list_drawn(turn: Turn, image: Image.Image) -> tuple[Detection, ...]:
    """List the boxes that the look's model drew, padded; none of a thing that fills the photo, which is searched whole."""
    things = turn.look.things if turn.look is not None else ()
    boxes = [(thing.phrase, pad(thing.box, _PADDING, *image.size)) for thing in things if thing.box is not None]
    largest = _MAX_AREA * image.width * image.height
    return tuple(Detection(box, phrase, _DRAWN_SCORE) for phrase, box in boxes if box.area <= largest)


def _is_all_drawn(turn: Turn) -> bool:
    things = turn.look.things if turn.look is not None else ()
    return bool(things) and all(thing.box is not None for thing in things)


def _list_phrases(turn: Turn) -> tuple[str, ...]:
    """List the phrases to detect: of the things without a box if others have one, else those of the target."""
    things = turn.look.things if turn.look is not None else ()
    if any(thing.box is not None for thing in things):
        return tuple(dict.fromkeys(thing.phrase.lower() for thing in things if thing.box is None))
    return (turn.target.phrase,) if turn.target.phrase else tuple(turn.target.objects)


def look_once(
    cache: ResultCache[tuple[str, tuple[Query, ...]], list[Result]],
    photos: Sequence[tuple[str, Image.Image]],
    queries: Sequence[tuple[Query, ...]],
    look: Callable[[Sequence[Image.Image], Sequence[Sequence[Query]]], list[list[Result]]],
) -> list[list[Result]]:
    """Return a model's view of each photo, in one call for the new ones: a dialog asks of its photo again and again."""
    images = {(key, own): image for (key, image), own in zip(photos, queries, strict=True)}

    def see(new: Sequence[tuple[str, tuple[Query, ...]]]) -> dict[tuple[str, tuple[Query, ...]], list[Result]]:
        return dict(zip(new, look([images[one] for one in new], [own for _, own in new]), strict=True))

    results = cache.get_all(images, see)
    return [results[key, own] for (key, _), own in zip(photos, queries, strict=True)]


def _segment_copies(
    segmenter: Segmenter, photos: Sequence[Image.Image], boxes: Sequence[Sequence[Box]]
) -> list[list[Mask]]:
    """Segment each photo at its own size, or a copy of ``_MASK_SIDE`` if it is larger."""
    copies = [_shrink(photo) if own else photo for photo, own in zip(photos, boxes, strict=True)]
    scaled = [
        [scale(box, copy.width / photo.width, copy.height / photo.height) for box in own]
        for photo, copy, own in zip(photos, copies, boxes, strict=True)
    ]
    return segmenter.segment(copies, scaled)


def _shrink(photo: Image.Image) -> Image.Image:
    """Scale a photo down to ``_MASK_SIDE``; a smaller one stays as it is."""
    ratio = _MASK_SIDE / max(photo.size)
    if ratio >= 1:
        return photo
    width, height = (max(1, round(side * ratio)) for side in photo.size)
    # Reducing by a whole number first takes an eighth of the time of ``Image.thumbnail``, and is as good for outlines.
    return photo.resize((width, height), Image.Resampling.BILINEAR, reducing_gap=1.0)


def _convert_region(region: Detection) -> BoxFound:
    left, top, right, bottom = (round(side) for side in astuple(region.box))
    return BoxFound(left, top, right, bottom, region.phrase, round(region.score, 3))
