"""Times the gateway's batched searches against the organiser's one-at-a-time calls, over the same index.

Run: ``python -m benchmarks.gateway --image-index ORG/NAME --web-index ORG/NAME`` (built by agents.search.build_index).
Queries are pictures of the evaluator's size and the openings of the index's own pages. Both ways are run in turn, so that
whatever else the machine does burdens them alike, and must find the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

from agents.search.build_index import IMAGE_ID, WEB_ID
from agents.search.folders import default_cache
from agents.search.gateway import SearchGateway
from agents.search.hits import SearchError
from agents.search.pipelines import open_pipeline


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where an index is missing or the two ways find different things."""
    options = _parser().parse_args(arguments)
    if options.threads is not None:
        import torch

        torch.set_num_threads(options.threads)
    try:
        pipeline = open_pipeline(
            image_index=options.image_index, web_index=options.web_index, cache=options.cache, hub=options.hub
        )
    except SearchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    gateway = SearchGateway(pipeline)
    images = [_picture(seed) for seed in range(options.batch)]
    stored = pipeline.text_web.vector_db.get(limit=options.batch, include=["metadatas"])["metadatas"]
    queries = [" ".join(str(page["page_snippet"]).split()[:12]) for page in stored]
    k = options.k
    table = Table(title=f"batch {options.batch}, k {k}, median of {options.repeats} (ms a batch)")
    for column in ("search", "one at a time", "gateway", "ratio", "same ids", "largest score difference"):
        table.add_column(column, justify="left" if column == "search" else "right")
    same = True
    for name, plain, batched in (
        ("image", lambda: [pipeline(image, k=k) for image in images], lambda: gateway.search_images(images, k)),
        ("web", lambda: [pipeline(query, k=k) for query in queries], lambda: gateway.search_web(queries, k)),
    ):
        slow, fast, wanted, found = _timed(plain, batched, options.repeats)
        equal, difference = _compared(wanted, found)
        same = same and equal
        table.add_row(
            name, f"{slow:.1f}", f"{fast:.1f}", f"{slow / fast:.2f}x", "yes" if equal else "NO", f"{difference:.1e}"
        )
    Console().print(table)
    return 0 if same else 1


def _timed(
    plain: Callable[[], Any], batched: Callable[[], Any], repeats: int
) -> tuple[float, float, list[Any], list[Any]]:
    """Median milliseconds of both, and what they found; a first run of each warms up and is not counted."""
    wanted, found = plain(), batched()
    spent: dict[Callable[[], Any], list[float]] = {plain: [], batched: []}
    for _ in range(repeats):
        for way, times in spent.items():
            start = time.perf_counter()
            way()
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(spent[plain]), statistics.median(spent[batched]), wanted, found


def _compared(wanted: Sequence[Any], found: Sequence[Any]) -> tuple[bool, float]:
    """Whether ids and their order are the same, and the largest difference of scores."""
    equal, difference = True, 0.0
    for ours, theirs in zip(found, wanted, strict=True):
        equal = equal and [hit.index for hit in ours.hits] == [hit["index"] for hit in theirs]
        for a, b in zip(ours.hits, theirs, strict=False):
            difference = max(difference, abs(a.score - b["score"]))
    return equal, difference


def _picture(seed: int) -> Image.Image:
    """A picture of the size in which the evaluator passes egocentric ones: smooth colours, no two alike."""
    small = np.random.default_rng(seed).integers(0, 256, (12, 9, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((960, 1280), Image.Resampling.BICUBIC)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description="Gateway against plain calls.")
    parser.add_argument("--image-index", default=IMAGE_ID.format(tag="validation"), metavar="ORG/NAME")
    parser.add_argument("--web-index", default=WEB_ID.format(tag="validation"), metavar="ORG/NAME")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--hub", type=Path, help="where the indices are (default: hub/ in the cache)")
    parser.add_argument("--batch", type=int, default=16, help="queries in a batch (default: 16)")
    parser.add_argument("--k", type=int, default=30, help="results a query (default: 30)")
    parser.add_argument("--repeats", type=int, default=7, help="timed runs of each way (default: 7)")
    parser.add_argument("--threads", type=int, help="threads of torch (default: its own choice)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
