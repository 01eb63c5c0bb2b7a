"""Recall of the right entity with and without crops, on scenes of the mini set with several objects.

    python -m lab.benchmarks.crops [--split validation]

It counts objects at least a fifth of the picture wide that the graph holds. "whole" searches the picture as it is. "crops" adds a
search of each detected box and asks whether any list has the entity among its first k. "fused" makes one list of the first five of each
by score. "true boxes" crops by the layout.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, Json

from agents.base.command_options import Flag
from agents.methods.ranking import fuse
from agents.models.base import Box, Detection, Detector, FloatArray, ImageEncoder
from agents.models.registry import ModelRegistry
from agents.models.vision.boxes import crop, overlap, pad
from evaluation.commands import make_console
from lab.benchmarks.common import EncoderOptions, build_table, embed_graph, run
from mini_crag_mm.loader import ShownScene, read_scenes

MIN_WIDTH = 0.2
"""Objects narrower than this fraction of the picture are not counted."""

RANKS = (1, 2, 5)
FUSED = 5
"""Hits of each list that are fused: k of the image search in the presets."""

BOXES = (1, 3, 6)


@dataclass(frozen=True)
class ObjectResult:
    """An object of a scene, and the rank of its entity in each search (0 is first)."""

    overlaps: tuple[float, ...]  # IoU of its box with each detected box, best-scored box first
    whole: int  # in the search of the whole picture
    any_list: int  # the best in that search and those of the crops
    by_score: int  # in the list fused from them by score; the number of entities where it is in none of them
    true_box: int  # in the search of the true box


def _measure(options: CropsOptions) -> int:
    registry = ModelRegistry(options.cache)
    detector: Detector = registry.load(options.detector)
    encoder: ImageEncoder = registry.load(options.encoder)
    scenes = [scene for scene in read_scenes(options.split) if len(scene.things) >= options.min_objects]
    if not scenes:
        raise ValueError(f"{options.split} has no scenes with {options.min_objects} objects")
    entities, index = embed_graph(options.split, encoder)
    start = time.process_time()
    detections = detector.detect([scene.image for scene in scenes], [[] for _ in scenes])
    spent = (time.process_time() - start) / len(scenes)
    results = [
        one
        for scene, boxes in zip(scenes, detections, strict=True)
        for one in search(scene, boxes[: options.limit], entities, index, encoder, options.padding)
    ]
    console = make_console()
    console.print(
        f"{options.split}: {len(scenes)} scenes, {len(results)} objects, {len(entities)} entities in the index"
    )
    console.print(f"{detector.name}: {1000 * spent:.0f} ms of processor time an image")
    shares = [np.mean([max(one.overlaps[:boxes], default=0.0) >= 0.5 for one in results]) for boxes in BOXES]
    best = [f"best {boxes}" if boxes > 1 else "best box" for boxes in BOXES]
    title = "Objects whose box is found (IoU at least 0.5)"
    console.print(build_table(title, best, [[f"{share:.1%}" for share in shares]], left_columns=0))
    searches = {
        "whole picture": [one.whole for one in results],
        "whole picture and crops, any list": [one.any_list for one in results],
        "whole picture and crops, fused by score": [one.by_score for one in results],
        "true boxes": [one.true_box for one in results],
    }
    rows = [
        (name, *(f"{np.mean([place < rank for place in each]):.1%}" for rank in RANKS))
        for name, each in searches.items()
    ]
    headings = ("search", *(f"recall@{rank}" for rank in RANKS))
    console.print(build_table("Objects whose entity is found", headings, rows))
    return 0


def search(
    scene: ShownScene,
    detections: Sequence[Detection],
    entities: Sequence[str],
    index: FloatArray,
    encoder: ImageEncoder,
    padding: float,
) -> list[ObjectResult]:
    """Run all searches of one scene, in one pass over its crops.

    Things that are too narrow or not in the graph are left out.
    """
    size = scene.image.size
    minimum = MIN_WIDTH * size[0]
    things = (thing for thing in scene.things if thing.in_graph and thing.box[2] - thing.box[0] >= minimum)
    counted = [(thing.entity, Box(*thing.box)) for thing in things]
    crops = [crop(scene.image, pad(detection.box, padding, *size)) for detection in detections]
    truths = [crop(scene.image, pad(box, padding, *size)) for _, box in counted]
    scores = encoder.encode([scene.image, *crops, *truths]) @ index.T
    ranks: npt.NDArray[np.intp] = np.argsort(np.argsort(-scores, axis=1), axis=1)
    searched = scores[: 1 + len(crops)]
    lists = [[(int(row), float(own[row])) for row in np.argsort(-own)[:FUSED]] for own in searched]
    by_score = _rank_entities([hit for hit, _ in fuse(lists, key=lambda hit: hit[0], score=lambda hit: hit[1])])
    results = []
    for number, (entity, box) in enumerate(counted):
        column = entities.index(entity)
        results.append(
            ObjectResult(
                overlaps=tuple(overlap(detection.box, box) for detection in detections),
                whole=int(ranks[0, column]),
                any_list=int(ranks[: len(searched), column].min()),
                by_score=by_score.get(column, len(entities)),
                true_box=int(ranks[len(searched) + number, column]),
            )
        )
    return results


def _rank_entities(fused: Sequence[tuple[int, float]]) -> dict[int, int]:
    """Return the rank of each entity in a fused list."""
    return {entity: place for place, (entity, _) in enumerate(fused)}


class CropsOptions(EncoderOptions):
    """Options of the crops and scenes."""

    detector: Annotated[Json[dict[str, Any]], Flag(metavar="JSON")] = Field(
        {"kind": "salient-objects", "network": {"kind": "efficientnet-lite2"}}, description="model specification"
    )
    limit: int = Field(6, description="maximum of boxes of a picture to search")
    padding: float = Field(0.05, description="share of its sides that a box grows by")
    min_objects: int = Field(2, description="minimum of objects in a scene")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables.

    Returns:
        0, or 2 if scenes or models are missing.
    """
    return run(_measure, CropsOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
