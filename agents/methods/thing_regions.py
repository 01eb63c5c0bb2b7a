"""Which box of a photo shows which of the things that a first look names."""

from collections.abc import Sequence

from agents.english.object_phrases import measure_offset
from agents.models.base import Box, Detection
from agents.models.vision.boxes import overlap, share_inside
from agents.turn import Thing

# Measured on the scenes of the mini set (lab/notes/retrieval.md).
_INSIDE = 0.8  # share of a box that a larger one covers, from which it is a part of the same thing
_LARGEST_WHOLE = 0.5  # of the photo; a larger box holds several things, none of which is a part of another
_SAME = 0.5  # IoU from which a box is that of a thing, padded
_ACROSS = 0.95  # of the photo's width or height; a box that reaches so far across holds the ground or a row of things


def assign_regions(
    things: Sequence[Thing], regions: Sequence[Detection], width: int, height: int
) -> list[Detection | None]:
    """Assign a box to each thing, each box once.

    A thing that has a box of its own gets that one. For another thing, boxes that the detector gave its phrase come before others, and
    whole things before their parts. Among them the nearest to the thing's place is taken, or the best one if the thing has no place.

    Args:
        things: Things of a look, the most important first.
        regions: Boxes, best first.
        width: Of the photo in pixels.
        height: Of the photo in pixels.

    Returns:
        A box for each thing; None if none is left, or its own box is none of the photo's because it fills the photo.
    """
    own = [None if thing.box is None else _find_own(thing.box, regions) for thing in things]
    wholes = [region for region in regions if _is_one_thing(region.box, width, height)]
    left = [region for region in regions if region not in own and not _is_part(region, wholes)]
    assigned: list[Detection | None] = []
    for thing, drawn in zip(things, own, strict=True):
        if thing.box is not None:
            assigned.append(drawn)
            continue
        named = [region for region in left if region.phrase and region.phrase.lower() in thing.phrase.lower()] or left
        place = thing.position
        if place is not None:
            named = sorted(named, key=lambda region: measure_offset(region.box, place, width, height))
        assigned.append(named[0] if named else None)
        left = [region for region in left if region is not assigned[-1]]
    return assigned


def find_small_things(
    things: Sequence[Thing], regions: Sequence[Detection], width: int, height: int, share: float
) -> list[tuple[Thing, Detection]]:
    """Return the things that are small in a photo, each with its box.

    A thing without a place is small only if no box is large: a large one may well be the thing, and the small one a part of it.

    Args:
        things: Things of a look, the most important first.
        regions: Boxes, best first.
        width: Of the photo in pixels.
        height: Of the photo in pixels.
        share: Share of the photo from which a thing is large.
    """
    area = share * width * height
    has_large = any(region.box.area >= area for region in regions)
    return [
        (thing, region)
        for thing, region in zip(things, assign_regions(things, regions, width, height), strict=True)
        if region is not None
        and region.box.area < area
        and (thing.position is not None or thing.box is not None or not has_large)
    ]


def _find_own(box: Box, regions: Sequence[Detection]) -> Detection | None:
    """Return the box of the photo that was made of a thing's own, which is padded."""
    best = max(regions, key=lambda region: overlap(region.box, box), default=None)
    return best if best is not None and overlap(best.box, box) >= _SAME else None


def _is_part(region: Detection, wholes: Sequence[Detection]) -> bool:
    """Return whether a box shows a part of a thing: a larger one of ``wholes``, found by the same name, covers it."""
    return any(
        region.box.area < whole.box.area
        and region.phrase == whole.phrase
        and share_inside(region.box, whole.box) >= _INSIDE
        for whole in wholes
    )


def _is_one_thing(box: Box, width: int, height: int) -> bool:
    across, down = (box.right - box.left) / width, (box.bottom - box.top) / height
    return box.area < _LARGEST_WHOLE * width * height and max(across, down) < _ACROSS
