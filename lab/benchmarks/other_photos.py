"""Recall of the image index of a split for photographs that it does not hold.

    python -m lab.benchmarks.other_photos --photos FOLDER [--split validation]
    python -m lab.benchmarks.other_photos --mini [--split validation]

FOLDER has photographs named by entity (``Eiffel Tower.jpg``, ``eiffel_tower_2.jpg``) or lying in sub-folders so named. A name is
that of the knowledge graph, or the entity's id in ``mini_crag_mm/content``. ``--mini`` searches with the crops of the mini set's own
question photos, by group: other photographs, altered copies, and things that the graph does not hold. ``--segmenter`` shows the things
alone, and ``--padding`` is the margin of the crops. It prints recall@1 and @5, and the cosines of right and of wrong first hits with their
lead over the second hit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from PIL import Image, ImageOps
from pydantic import Field, Json, model_validator
from rich.table import Table

from agents.base.command_options import Flag
from agents.models.base import Box, Detection, FloatArray, ImageEncoder, Segmenter
from agents.models.registry import ModelRegistry
from agents.models.vision.boxes import cut_out, pad
from evaluation.commands import make_console
from lab.benchmarks.common import EncoderOptions, build_table, embed_graph, run
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import read_kg, read_scenes

IMAGE_ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
QUANTILES = (0.1, 0.5, 0.9)
SHOWN_NAMES = 8


class PhotosError(ValueError):
    """The folder of photographs cannot be used; the message says what to do."""


@dataclass(frozen=True)
class Query:
    """A photograph to search with. `entity` is its id; None for a thing that the index does not hold."""

    image: Image.Image
    entity: str | None
    group: str


@dataclass(frozen=True)
class PhotoResult:
    """Result of the search with one photograph."""

    group: str
    rank: int | None  # place of the right entity, 0 for the first; None where the index does not hold it
    cosine: float  # of the first hit
    lead: float  # how much that is above the second's


def search(
    queries: Sequence[Query], entities: Sequence[str], index: FloatArray, encoder: ImageEncoder
) -> list[PhotoResult]:
    """Search the index with each photograph.

    Args:
        queries: The photographs.
        entities: Ids of the entities in the index, at least two.
        index: Embeddings of length 1 by the same encoder, shape (entities, d).
        encoder: The encoder.
    """
    scores = encoder.encode([query.image for query in queries]) @ index.T
    results = []
    for query, row in zip(queries, scores, strict=True):
        order = np.argsort(-row, kind="stable")
        rank = None if query.entity is None else int(np.flatnonzero(order == entities.index(query.entity))[0])
        first, second = float(row[order[0]]), float(row[order[1]])
        results.append(PhotoResult(query.group, rank, first, first - second))
    return results


def normalise_name(name: str) -> str:
    """Reduce a name to lower-case words, without brackets and without a number at the end."""
    words = re.sub(r"\(.*?\)", " ", name.casefold())
    return re.sub(r"\s+\d+$", "", " ".join(re.sub(r"[^\w]|_", " ", words).split()))


def map_names(split: Split) -> dict[str, str]:
    """Map the plain names and ids of a split's image KG to entity ids."""
    names: dict[str, str] = {}
    for image in read_kg(split):
        entity = Path(image["image"]).stem
        for name in (image["entities"][0]["entity_name"], entity):
            names.setdefault(normalise_name(name), entity)
    return names


def read_photos(folder: Path, names: dict[str, str]) -> tuple[list[Query], list[str]]:
    """Read the photographs below a folder whose names are known, and list the names that are not.

    Raises:
        PhotosError: There is no such folder, no photograph in it, none of a known entity, or one that cannot be decoded.
    """
    if not folder.is_dir():
        raise PhotosError(f"{folder} is no folder; give one with photographs named by entity")
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in IMAGE_ENDINGS and file.is_file())
    if not files:
        raise PhotosError(f"{folder} has no photographs ({', '.join(sorted(IMAGE_ENDINGS))})")
    queries, unknown = [], []
    for file in files:
        called = [normalise_name(file.stem), *([normalise_name(file.parent.name)] if file.parent != folder else [])]
        entity = next((names[name] for name in called if name in names), None)
        if entity is None:
            unknown.append(file.relative_to(folder).as_posix())
            continue
        try:
            with Image.open(file) as image:
                queries.append(Query(ImageOps.exif_transpose(image).convert("RGB"), entity, "photographs"))
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise PhotosError(f"{file} cannot be decoded ({error}); take it out of the folder") from error
    if not queries:
        raise PhotosError(
            f"none of the {len(files)} photographs in {folder} is named after an entity of the index, such as "
            + ", ".join(sorted(names)[:SHOWN_NAMES])
        )
    return queries, unknown


def crop_mini_set(split: Split, segmenter: Segmenter | None = None, padding: float = 0.0) -> list[Query]:
    """Crop all things of a split's scenes by the boxes of the layout; with a segmenter, the things alone."""
    queries = []
    for scene in read_scenes(split):
        boxes = [Box(*thing.box) for thing in scene.things]
        masks = [None] * len(boxes) if segmenter is None else segmenter.segment([scene.image], [boxes])[0]
        for thing, box, mask in zip(scene.things, boxes, masks, strict=True):
            picture = cut_out(scene.image, Detection(pad(box, padding, *scene.image.size), "", 0.0, mask))
            group = "altered copy" if thing.same_photo else "other photo"
            entity = thing.entity if thing.in_graph else None
            queries.append(Query(picture, entity, group if entity else "not in the graph"))
    return queries


def build_recall_table(results: Sequence[PhotoResult]) -> Table:
    """Build the table of recall by group."""
    rows = []
    for group in sorted({one.group for one in results}):
        ranks = [one.rank for one in results if one.group == group]
        known_ranks = [rank for rank in ranks if rank is not None]
        shares = [
            f"{np.mean([rank < k for rank in known_ranks]):.1%}" if known_ranks else "none can be right" for k in (1, 5)
        ]
        rows.append((group, str(len(ranks)), *shares))
    return build_table("Is the right entity found?", ("group", "photographs", "recall@1", "recall@5"), rows)


def build_cosine_table(results: Sequence[PhotoResult]) -> Table:
    """Build the table of cosines of right and wrong first hits, and of their lead over the second hit.

    It has mean and quantiles by group.
    """
    rows = []
    for group in sorted({one.group for one in results}):
        for right in (True, False):
            hits = [one for one in results if one.group == group and (one.rank == 0) == right]
            if hits:
                cells = (_format_spread([hit.cosine for hit in hits]), _format_spread([hit.lead for hit in hits]))
                rows.append((group, "right" if right else "wrong", str(len(hits)), *cells))
    title = f"First hits: mean and quantiles {', '.join(f'{q:.0%}' for q in QUANTILES)}"
    return build_table(title, ("group", "first hit", "hits", "cosine", "lead over the second"), rows, left_columns=5)


def _format_spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f} ({', '.join(f'{value:.2f}' for value in np.quantile(values, QUANTILES))})"


def _measure(options: OtherPhotosOptions) -> int:
    unknown: list[str] = []
    registry = ModelRegistry(options.cache)
    if options.photos is None:
        segmenter = None if options.segmenter is None else registry.load(options.segmenter)
        queries = crop_mini_set(options.split, segmenter, options.padding)
    else:
        queries, unknown = read_photos(options.photos, map_names(options.split))
    encoder: ImageEncoder = registry.load(options.encoder)
    entities, index = embed_graph(options.split, encoder)
    results = search(queries, entities, index, encoder)
    console = make_console()
    if unknown:
        more = f" and {len(unknown) - SHOWN_NAMES} more" if len(unknown) > SHOWN_NAMES else ""
        console.print(f"left out, named after no entity of {options.split}: {', '.join(unknown[:SHOWN_NAMES])}{more}")
    console.print(f"{options.split}: {len(entities)} entities in the index, encoder {encoder.name}")
    console.print(build_recall_table(results))
    console.print(build_cosine_table(results))
    return 0


class OtherPhotosOptions(EncoderOptions):
    """Options of whose photographs are searched."""

    photos: Annotated[Path | None, Flag(metavar="FOLDER")] = Field(None, description="photographs named by entity")
    mini: bool = Field(False, description="in place of --photos: the question photos of the mini set, by group")
    segmenter: Annotated[Json[dict[str, Any]] | None, Flag(metavar="JSON")] = Field(
        None, description='with --mini: model specification, such as {"kind": "grab-cut"}'
    )
    padding: float = Field(0.0, ge=0, description="with --mini: share of its sides that a crop has around the thing")

    @model_validator(mode="after")
    def _one_source(self) -> OtherPhotosOptions:
        if (self.photos is not None) == self.mini:
            raise ValueError("give one of --photos and --mini")
        return self


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables.

    Returns:
        0, or 2 if the photographs, the set or the model cannot be used.
    """
    return run(_measure, OtherPhotosOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
