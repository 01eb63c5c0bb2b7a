"""Queries a second of the agent's search in batches, beside the organiser's call of one query.

    python -m lab.benchmarks.search_speed --split public_test

Both search the indices of the mini set by the same object, the organiser's ``UnifiedSearchPipeline``: called for one query after the other,
or through ``SearchGateway``, which encodes a batch at once. Queries are the set's questions and photos, each asked once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image
from pydantic import Field

from agents.models.pixels import to_rgb
from agents.search.gateway import SearchGateway
from agents.search.hits import Results
from evaluation.commands import make_console
from lab.benchmarks.common import BenchmarkOptions, build_table, run
from mini_crag_mm.loader import PreparedSet

HITS = 10


def measure_organiser(pipeline: Any, queries: Sequence[str] | Sequence[Image.Image]) -> float:
    """Measure the queries a second of the organiser's call."""
    began = time.perf_counter()
    for query in queries:
        pipeline(query, k=HITS)
    return len(queries) / (time.perf_counter() - began)


def measure_batches(
    search: Callable[[Sequence[Any], int], Sequence[Results[Any]]], queries: Sequence[Any], size: int
) -> float:
    """Measure the queries a second of a batched search.

    Raises:
        ValueError: A query found nothing.
    """
    batches = [queries[start : start + size] for start in range(0, len(queries), size)]
    began = time.perf_counter()
    results = [result for batch in batches for result in search(batch, HITS)]
    seconds = time.perf_counter() - began
    if errors := [result.error for result in results if not result.hits]:
        raise ValueError(f"{len(errors)} of {len(results)} queries found nothing: {errors[0]}")
    return len(queries) / seconds


def _measure(options: SearchSpeedOptions) -> int:
    mini = PreparedSet(options.split, options.cache)
    pipeline = mini.search()
    turns = list(mini.turns(kinds=("single-turn",)))[: options.queries]
    texts = list(dict.fromkeys(each.turn.query for each in turns))
    photos = [to_rgb(each.image) for each in turns if each.image is not None]
    for query in (texts[0], photos[0]):  # the graphs of neighbours are read
        pipeline(query, k=HITS)
    rows = []
    for name, queries, method in (("texts", texts, "search_web"), ("photos", photos, "search_images")):
        theirs = measure_organiser(pipeline, queries)
        # A gateway for each size, because it keeps what it found for a photo.
        ours = [measure_batches(getattr(SearchGateway(pipeline), method), queries, size) for size in options.batches]
        rows.append(
            (f"{len(queries)} {name}", f"{theirs:.1f}", *(f"{each:.1f} ({each / theirs:.1f}x)" for each in ours))
        )
    columns = ("queries", "organiser's call", *(f"batches of {size}" for size in options.batches))
    make_console().print(build_table("queries a second", columns, rows))
    return 0


class SearchSpeedOptions(BenchmarkOptions):
    """Options of what is asked."""

    queries: int = Field(64, gt=0, description="questions of the split whose texts and photos are asked")
    batches: tuple[int, ...] = Field((1, 16, 64), description="queries in one call")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0; 2 if it cannot be measured.
    """
    return run(_measure, SearchSpeedOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
