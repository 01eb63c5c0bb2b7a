"""Which detected box shows which of the things that a first look names."""

from collections.abc import Sequence

from agents.english.object_phrases import measure_offset
from agents.models.base import Detection
from agents.turn import Thing


def assign_regions(
    things: Sequence[Thing], regions: Sequence[Detection], width: int, height: int
) -> list[Detection | None]:
    """Assign a box to each thing, each box once.

    Boxes that the detector gave the thing's phrase come before others. Among them the nearest to the thing's place is taken, or the best
    one if the thing has no place.

    Args:
        things: Things of a look, the most important first.
        regions: Boxes, best first.
        width: Of the photo in pixels.
        height: Of the photo in pixels.

    Returns:
        A box for each thing; None if none is left.
    """
    left, assigned = list(regions), []
    for thing in things:
        named = [region for region in left if region.phrase and region.phrase.lower() in thing.phrase.lower()] or left
        place = thing.position
        if place is not None:
            named = sorted(named, key=lambda region: measure_offset(region.box, place, width, height))
        assigned.append(named[0] if named else None)
        left = [region for region in left if region is not assigned[-1]]
    return assigned
