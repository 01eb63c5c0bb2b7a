"""Recall of the right entity with and without crops, on the scenes of the mini set that show several objects.

Run: ``python -m benchmarks.crops [--split validation]``. Counted are objects at
least a fifth of the picture wide. "whole" searches the picture as it is; "crops" adds a search of each detected box and asks
whether any list has the entity among its first k; "fused" makes one list of the first five of each, by score or by reciprocal
rank; "true boxes" crops by the layout.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from PIL import Image
from rich.console import Console
from rich.table import Table

from agents.methods.boxes import crop, overlap, pad
from agents.methods.fusion import Method, fuse
from agents.models.base import Box, Detection, Detector, FloatArray, ImageEncoder, ModelError
from agents.models.registry import ModelRegistry
from mini_crag_mm.generator.compose import read_layout
from mini_crag_mm.generator.content import SPLITS, load_content
from mini_crag_mm.generator.kg import index_image, read_kg
from mini_crag_mm.generator.paths import DemoPaths

LEAST_WIDTH = 0.2
"""Objects narrower than this fraction of the picture are not counted."""

RANKS = (1, 2, 5)
FUSED = 5
"""Hits of each list that are fused: k of the image search in the presets."""

BOXES = (1, 3, 6)
METHODS: tuple[Method, ...] = get_args(Method)

IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Seen:
    """An object of a scene, and where each search put its entity (0 is first).

    Attributes:
        overlaps: IoU of its box with each detected box, best-scored box first.
        whole: Rank in the search of the whole picture.
        any_list: Best rank in that search and those of the crops.
        by_score: Rank in the list fused from them by score; the number of entities where it is in none of them.
        by_rank: The same, fused by reciprocal rank.
        true_box: Rank in the search of the true box.
    """

    overlaps: tuple[float, ...]
    whole: int
    any_list: int
    by_score: int
    by_rank: int
    true_box: int


@dataclass(frozen=True)
class Scene:
    """A picture and the boxes of its objects, by entity id."""

    image: Image.Image
    objects: tuple[tuple[str, Box], ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; 1 where scenes or models are missing."""
    options = _parser().parse_args(arguments)
    try:
        registry = ModelRegistry(options.cache)
        detector: Detector = registry.load(json.loads(options.detector))
        encoder: ImageEncoder = registry.load(json.loads(options.encoder))
        scenes = read_scenes(options.split, options.least_objects)
        if not scenes:
            print(f"error: {options.split} has no scenes with {options.least_objects} objects", file=sys.stderr)
            return 1
        entities, index = read_index(options.split, encoder)
        start = time.process_time()
        detections = detector.detect([scene.image for scene in scenes], [[] for _ in scenes])
        spent = (time.process_time() - start) / len(scenes)
        seen = [
            one
            for scene, found in zip(scenes, detections, strict=True)
            for one in search(scene, found[: options.most], entities, index, encoder, options.padding)
        ]
    except (ModelError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    console = Console()
    console.print(f"{options.split}: {len(scenes)} scenes, {len(seen)} objects, {len(entities)} entities in the index")
    console.print(f"{detector.name}: {1000 * spent:.0f} ms of processor time an image")
    console.print(_boxes_table(seen))
    console.print(_entities_table(seen))
    return 0


def read_scenes(split: str, least_objects: int) -> list[Scene]:
    """The scenes of a split with at least so many objects in them, those too small to count included."""
    paths = DemoPaths()
    wanted = {scene.id for scene in load_content(paths.content).scenes.values() if scene.split == split}
    scenes = []
    for name, entry in sorted(read_layout(paths.layout).items()):
        if name in wanted and len(entry["objects"]) >= least_objects:
            with Image.open(paths.scenes / f"{name}.webp") as picture:
                scenes.append(Scene(picture.convert("RGB"), _objects(entry)))
    return scenes


def _objects(entry: dict[str, Any]) -> tuple[tuple[str, Box], ...]:
    boxes = [(str(placed["entity"]), *placed["box"]) for placed in entry["objects"]]
    return tuple(
        (entity, Box(left, top, left + width, top + height))
        for entity, left, top, width, height in boxes
        if width >= LEAST_WIDTH * entry["size"][0]
    )


def read_index(split: str, encoder: ImageEncoder) -> tuple[list[str], FloatArray]:
    """Entity ids of the split's image KG and the embeddings of their photographs, in the same order."""
    images = read_kg("validation" if split == "validation" else "public_test")
    return [Path(image["image"]).stem for image in images], encoder.encode([index_image(image) for image in images])


def search(
    scene: Scene,
    found: Sequence[Detection],
    entities: Sequence[str],
    index: FloatArray,
    encoder: ImageEncoder,
    padding: float,
) -> list[Seen]:
    """All searches of one scene, in one pass over its crops."""
    size = scene.image.size
    crops = [crop(scene.image, pad(detection.box, padding, *size)) for detection in found]
    truths = [crop(scene.image, pad(box, padding, *size)) for _, box in scene.objects]
    scores = encoder.encode([scene.image, *crops, *truths]) @ index.T
    ranks: IntArray = np.argsort(np.argsort(-scores, axis=1), axis=1)
    searched = scores[: 1 + len(crops)]
    lists = [[(int(row), float(own[row])) for row in np.argsort(-own)[:FUSED]] for own in searched]
    places = {method: _places(lists, method) for method in METHODS}
    seen = []
    for number, (entity, box) in enumerate(scene.objects):
        column = entities.index(entity)
        seen.append(
            Seen(
                overlaps=tuple(overlap(detection.box, box) for detection in found),
                whole=int(ranks[0, column]),
                any_list=int(ranks[: len(searched), column].min()),
                by_score=places["score"].get(column, len(entities)),
                by_rank=places["reciprocal_rank"].get(column, len(entities)),
                true_box=int(ranks[len(searched) + number, column]),
            )
        )
    return seen


def _places(lists: Sequence[Sequence[tuple[int, float]]], method: Method) -> dict[int, int]:
    """The rank of each entity in the fused list."""
    fused = fuse(lists, key=lambda hit: hit[0], score=lambda hit: hit[1], method=method)
    return {entry.item[0]: place for place, entry in enumerate(fused)}


def _boxes_table(seen: Sequence[Seen]) -> Table:
    table = Table(title="Objects whose box is found (IoU at least 0.5)")
    for boxes in BOXES:
        table.add_column(f"best {boxes}" if boxes > 1 else "best box", justify="right")
    shares = [np.mean([max(one.overlaps[:boxes], default=0.0) >= 0.5 for one in seen]) for boxes in BOXES]
    table.add_row(*(f"{share:.1%}" for share in shares))
    return table


def _entities_table(seen: Sequence[Seen]) -> Table:
    table = Table(title="Objects whose entity is found")
    table.add_column("search")
    for rank in RANKS:
        table.add_column(f"recall@{rank}", justify="right")
    for name, found in (
        ("whole picture", [one.whole for one in seen]),
        ("whole picture and crops, any list", [one.any_list for one in seen]),
        ("whole picture and crops, fused by score", [one.by_score for one in seen]),
        ("whole picture and crops, fused by reciprocal rank", [one.by_rank for one in seen]),
        ("true boxes", [one.true_box for one in seen]),
    ):
        table.add_row(name, *(f"{np.mean([place < rank for place in found]):.1%}" for rank in RANKS))
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.crops", description="Entity recall with and without crops."
    )
    parser.add_argument("--split", choices=SPLITS, default="validation", help="tune on validation only")
    parser.add_argument("--detector", default='{"kind": "cam-detector"}', metavar="JSON", help="model specification")
    parser.add_argument(
        "--encoder", default='{"kind": "efficientnet-lite2"}', metavar="JSON", help="model specification"
    )
    parser.add_argument("--most", type=int, default=6, help="boxes of a picture that are searched (default: 6)")
    parser.add_argument("--padding", type=float, default=0.05, help="share of its sides a box grows by (default: 0.05)")
    parser.add_argument("--least-objects", type=int, default=2, help="objects a scene has at least (default: 2)")
    parser.add_argument("--cache", type=Path, default=Path(".cache"), help="folder for what models prepare")
    return parser


if __name__ == "__main__":
    sys.exit(main())
