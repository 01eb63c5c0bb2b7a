"""How well the boxes that a detector finds are assigned to things, on the composed scenes, whose true boxes are known.

    python -m lab.benchmarks.thing_boxes --split validation

No chat model is asked: the things of a scene have the names of its entities, and their places where there are several. A box is right from
an IoU of 0.5 with the thing, and misses it below 0.1. Close-ups are those that ``grounded_answer.enlarge`` shows by default.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.methods.thing_regions import assign_regions, find_small_things
from agents.models.base import Box, Detection
from agents.models.vision.boxes import overlap, share_inside
from agents.settings.run_config import RunConfig
from agents.stage import Context
from agents.stages.ground import Ground
from agents.stages.grounded_answer import GroundedAnswer
from agents.turn import Position, Target, Thing, Tools, Turn
from evaluation.commands import make_console
from lab.benchmarks.common import ProfileOptions, build_table, run
from mini_crag_mm.content_models import Content, load_content
from mini_crag_mm.loader import SET, ShownScene, read_scenes

RIGHT, MISSED = 0.5, 0.1  # IoU
SHOWN = 0.5  # share of a thing that a close-up of it shows at least
_BATCH = 8


@dataclass(frozen=True)
class PlacedThing:
    """A thing of a scene as a look would name it, and its true box."""

    thing: Thing
    box: Box


def place_things(scene: ShownScene, content: Content) -> list[PlacedThing]:
    """Name the things of a scene, with their places along its longer row if there are several."""
    boxes = [Box(*map(float, thing.box)) for thing in scene.things]
    names = [content.entities[thing.entity].name for thing in scene.things]
    if len(boxes) < 2:
        return [PlacedThing(Thing(name), box) for name, box in zip(names, boxes, strict=True)]
    across = [(box.left + box.right) / 2 / scene.image.width for box in boxes]
    down = [(box.top + box.bottom) / 2 / scene.image.height for box in boxes]
    is_row = max(across) - min(across) >= max(down) - min(down)
    centres = across if is_row else down
    ends: tuple[Position, Position] = ("left", "right") if is_row else ("top", "bottom")
    places: dict[float, Position] = {min(centres): ends[0], max(centres): ends[1]}
    return [
        PlacedThing(Thing(name, places.get(centre, "middle")), box)
        for name, box, centre in zip(names, boxes, centres, strict=True)
    ]


def count_boxes(
    placed: Sequence[PlacedThing], regions: Sequence[Detection], size: tuple[int, int], enlarge: float
) -> Counter[str]:
    """Count the right and missed things of a scene, and its right and wrong close-ups."""
    counts: Counter[str] = Counter()
    things = [each.thing for each in placed]
    boxes = {id(each.thing): each.box for each in placed}
    for each, region in zip(placed, assign_regions(things, regions, *size), strict=True):
        likeness = 0.0 if region is None else overlap(region.box, each.box)
        counts["things"] += 1
        counts["found"] += any(overlap(other.box, each.box) >= RIGHT for other in regions)
        counts["right"] += likeness >= RIGHT
        counts["missed"] += likeness < MISSED
    for thing, region in find_small_things(things, regions, *size, enlarge):
        box = boxes[id(thing)]
        is_other = overlap(region.box, box) < MISSED
        counts["close-ups"] += 1
        counts["of another thing"] += is_other
        counts["of a part"] += not is_other and share_inside(box, region.box) < SHOWN
    return counts


def detect(
    scenes: Sequence[tuple[ShownScene, Sequence[PlacedThing]]], config: RunConfig
) -> list[tuple[Detection, ...]]:
    """Return the boxes that stage ``ground`` finds in each scene."""
    stage, context = Ground(), Context(config.models(), None, config.prompts)  # type: ignore[arg-type]  # nothing is searched
    turns = []
    for scene, placed in scenes:
        phrases = tuple(each.thing.phrase.lower() for each in placed)
        turn = Turn("", scene.image, tools=Tools(image=True))
        turn.target = Target(phrases, phrases[0] if len(phrases) == 1 else None)
        turns.append(turn)
    for start in range(0, len(turns), _BATCH):
        stage.run(turns[start : start + _BATCH], context)
    return [turn.regions for turn in turns]


def build_rows(counted: Iterable[tuple[int, Counter[str]]]) -> list[list[str]]:
    """Build a row for scenes of one thing, of several, and of all."""
    totals: dict[str, Counter[str]] = {"of one thing": Counter(), "of several": Counter(), "all": Counter()}
    for things, counts in counted:
        for name in ("of one thing" if things == 1 else "of several", "all"):
            totals[name] += counts
    return [[name, *(str(total[column]) for column in COLUMNS)] for name, total in totals.items()]


COLUMNS = ("things", "found", "right", "missed", "close-ups", "of another thing", "of a part")


def _measure(options: ProfileOptions) -> int:
    content = load_content(SET.content)
    scenes = [(scene, place_things(scene, content)) for scene in read_scenes(options.split) if scene.things]
    config = RunConfig.of_profile(options.profile, cache=options.cache)
    enlarge = GroundedAnswer.Options().enlarge
    counted = [
        (len(placed), count_boxes(placed, regions, scene.image.size, enlarge))
        for (scene, placed), regions in zip(scenes, detect(scenes, config), strict=True)
    ]
    make_console().print(build_table(f"Boxes of things, {options.split}", ("scenes", *COLUMNS), build_rows(counted)))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0; 2 if it cannot be measured.
    """
    return run(_measure, ProfileOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
