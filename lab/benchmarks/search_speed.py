"""Queries a second of the agent's search in batches, beside the organiser's call of one query and the encoder by itself.

    python -m lab.benchmarks.search_speed --split public_test

All use one object, the organiser's ``UnifiedSearchPipeline`` over the indices of the mini set: called for one query after the other, or
through ``SearchGateway``, which encodes a batch at once. What its encoder takes for such batches is the limit of any search with it.
Queries are the set's questions and photos. Each is asked once a round, and the fastest of ``--rounds`` counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from PIL import Image
from pydantic import Field

from agents.models.base import FloatArray
from agents.models.pixels import to_rgb
from agents.search.gateway import SearchGateway
from agents.search.hits import Results
from agents.search.searchers import ImageParts, WebParts
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
    began = time.perf_counter()
    results = [result for batch in cut_batches(queries, size) for result in search(batch, HITS)]
    seconds = time.perf_counter() - began
    if errors := [result.error for result in results if not result.hits]:
        raise ValueError(f"{len(errors)} of {len(results)} queries found nothing: {errors[0]}")
    return len(queries) / seconds


def measure_encoder(embed: Callable[[Sequence[Any]], FloatArray], queries: Sequence[Any], size: int) -> float:
    """Measure the queries a second that an encoder embeds in batches."""
    began = time.perf_counter()
    for batch in cut_batches(queries, size):
        embed(batch)
    return len(queries) / (time.perf_counter() - began)


def cut_batches(queries: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Cut queries into batches of at most ``size``."""
    return [queries[start : start + size] for start in range(0, len(queries), size)]


def _measure(options: SearchSpeedOptions) -> int:
    mini = PreparedSet(options.split, options.cache)
    pipeline = mini.search()
    turns = list(mini.turns(kinds=("single-turn",)))[: options.queries]
    texts = list(dict.fromkeys(each.turn.query for each in turns))
    photos = [to_rgb(each.image) for each in turns if each.image is not None]
    for query in (texts[0], photos[0]):  # the graphs of neighbours are read
        pipeline(query, k=HITS)
    kinds: tuple[tuple[str, Sequence[Any], str, Callable[[Any], FloatArray]], ...] = (
        ("texts", texts, "search_web", WebParts(pipeline).embed),
        ("photos", photos, "search_images", ImageParts(pipeline).embed),
    )
    rows = []
    for name, queries, method, embed in kinds:
        theirs = _fastest(options, partial(measure_organiser, pipeline, queries))
        cells = [f"{len(queries)} {name}", f"{theirs:.1f}"]
        for size in options.batches:
            ours = _fastest(options, partial(_measure_gateway, pipeline, method, queries, size))
            limit = _fastest(options, partial(measure_encoder, embed, queries, size))
            cells.append(f"{ours:.1f} ({ours / theirs:.1f}x) of {limit:.1f}")
        rows.append(cells)
    columns = ("queries", "organiser's call", *(f"batches of {size}, of the encoder's" for size in options.batches))
    make_console().print(build_table("queries a second", columns, rows))
    return 0


def _measure_gateway(pipeline: Any, method: str, queries: Sequence[Any], size: int) -> float:
    """Measure a new gateway, because one keeps what it found for a photo."""
    return measure_batches(getattr(SearchGateway(pipeline), method), queries, size)


def _fastest(options: SearchSpeedOptions, measure: Callable[[], float]) -> float:
    return max(measure() for _ in range(options.rounds))


class SearchSpeedOptions(BenchmarkOptions):
    """Options of what is asked."""

    queries: int = Field(64, gt=0, description="questions of the split whose texts and photos are asked")
    batches: tuple[int, ...] = Field((1, 16, 64), description="queries in one call")
    rounds: int = Field(3, gt=0, description="rounds of which the fastest counts")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table.

    Returns:
        0; 2 if it cannot be measured.
    """
    return run(_measure, SearchSpeedOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
