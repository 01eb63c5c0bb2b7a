"""Memory and throughput of search for several replicas on one machine.

    python -m lab.benchmarks.replica_search --chunks 100000 --pictures 10000 --replicas 4

Each replica has its own indices, or all share one search actor. The indices are of made-up vectors with the encoders of the embedded
profile (EfficientNet-Lite2, MiniLM), opened by the organiser's classes. Each replica is a process of Ray that asks batches of questions
about its own pictures and texts, all at the same time, as a run does. Memory is the sum of the proportional set sizes
(``/proc/PID/smaps_rollup``) of all processes that Ray started for replicas and search, after the questions. Processor time is that of a
query in all of them, which another load of the machine does not change as much as queries a second. It needs Linux and what
``make test-scale`` installs. Existing indices are not built again until ``--folder`` is removed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pydantic import Field

from agents.base.cluster import NodeActor, OnePerNode, cluster, end_actors
from agents.base.command_options import Options
from agents.search.embedding_cache import EmbeddingCache
from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder
from agents.search.gateway import SearchGateway
from agents.search.hits import Results
from agents.search.hub import current_revision
from agents.search.index_builder import IndexBuilder
from agents.search.pipelines import open_pipeline
from agents.search.shared_search import SearchActor, SharedSearch
from evaluation.commands import make_console
from lab.benchmarks.common import build_table, run
from lab.benchmarks.index_size import NEAREST, MadeUpEncoder, make_chunks, make_pictures

HEADINGS = (
    "search",
    "replicas",
    "open s",
    "memory GB",
    "of a process GB",
    "CPU ms",
    "queries/s",
    "batch p50 ms",
    "p95 ms",
)

_PICTURES, _PAGES = "made-up/pictures", "made-up/pages"
_WORDS = 12  # of a query
_SIZE = (960, 1280)  # of a photo, the evaluator's


class Asking(NodeActor):
    """Replica that only searches; without ``actor`` over indices of its own."""

    def __init__(self, cache: Path, folder: str) -> None:
        super().__init__(folder)
        self._cache = cache

    def start(self, actor: Any) -> float:
        """Open the search; return the seconds that took."""
        began = time.perf_counter()
        pipeline = open_made_up(self._cache) if actor is None else SharedSearch(actor)
        self._search = SearchGateway(pipeline)
        return time.perf_counter() - began

    def ask(self, seed: int, batches: int, size: int) -> list[float]:
        """Search for batches of ``size`` photos and as many texts; return the seconds of each.

        Raises:
            RuntimeError: A search failed.
        """
        chance = np.random.default_rng(seed)
        words = ["".join(map(chr, letters)) for letters in chance.integers(97, 123, (500, 5))]
        seconds = []
        for _ in range(batches):
            photos = [Image.fromarray(chance.integers(0, 256, (*_SIZE, 3), dtype=np.uint8)) for _ in range(size)]
            texts = [" ".join(chance.choice(words, _WORDS)) for _ in range(size)]
            began = time.perf_counter()
            searches: list[Results[Any]] = [*self._search.search_images(photos, NEAREST)]
            searches += self._search.search_web(texts, NEAREST)
            seconds.append(time.perf_counter() - began)
            if wrong := [results.error for results in searches if results.error or not results.hits]:
                raise RuntimeError(f"{len(wrong)} searches failed: {wrong[0]}")
        return seconds


def open_made_up(cache: Path) -> Any:
    """Open the pipeline over the made-up indices."""
    return open_pipeline(image_index=_PICTURES, web_index=_PAGES, cache=cache)


def build(options: ReplicaSearchOptions, cache: Path) -> None:
    """Build indices of made-up vectors that pass for those of the encoders."""
    with EmbeddingCache(cache / "embeddings") as vectors:
        builder = IndexBuilder(cache / "hub", vectors, progress=sys.stderr.isatty())
        if current_revision(cache / "hub", _PICTURES) is None:
            image_encoder = ImageIndexEncoder.load(EFFICIENTNET)
            made_up = _make_encoder(image_encoder, image_encoder.embed([Image.new("RGB", (8, 8))]), options.pictures)
            builder.images(make_pictures(options.pictures, cache / "pictures"), made_up, _PICTURES)
        if current_revision(cache / "hub", _PAGES) is None:
            text_encoder = TextIndexEncoder.load(MINILM)
            made_up = _make_encoder(text_encoder, text_encoder.embed(["one"]), options.chunks)
            builder.chunks(make_chunks(options.chunks), made_up, _PAGES)


def _make_encoder(encoder: Any, embedded: Any, count: int) -> MadeUpEncoder:
    made_up = MadeUpEncoder(embedded.shape[1], count)
    made_up.fingerprint = encoder.fingerprint
    return made_up


def measure_replicas(options: ReplicaSearchOptions, cache: Path, replicas: int, *, shared: bool) -> list[str]:
    """Measure one row of the table: so many replicas with one search, or each with its own."""
    folder = str(Path.cwd())
    with cluster(None, "this benchmark") as ray, ExitStack() as stack:
        search = None
        if shared:
            threads = min(replicas, os.cpu_count() or 1)
            arguments = partial(open_made_up, cache), threads, folder
            search = stack.enter_context(closing(OnePerNode(ray, SearchActor, arguments)))
        place = ray.remote(Asking).options(num_cpus=0)
        actors = [place.remote(cache, folder) for _ in range(replicas)]
        stack.callback(end_actors, ray, actors)
        nodes = ray.get([actor.node.remote() for actor in actors])
        handles = [None if search is None else search.on(node) for node in nodes]
        open_seconds = ray.get([actor.start.remote(handle) for actor, handle in zip(actors, handles, strict=True)])
        size, batches = options.batch, options.batches
        ray.get([actor.ask.remote(seed, 1, size) for seed, actor in enumerate(actors)])  # graphs of neighbours are read
        own = ray.get([actor.process.remote() for actor in actors])
        theirs = [] if search is None else ray.get([search.on(nodes[0]).process.remote()])
        processes = [*own, *theirs]
        cpu = -sum(map(_read_cpu_seconds, processes))
        began = time.perf_counter()
        refs = [actor.ask.remote(100 + seed, batches, size) for seed, actor in enumerate(actors)]
        times = np.concatenate([np.asarray(each) for each in ray.get(refs)])
        seconds = time.perf_counter() - began
        cpu += sum(map(_read_cpu_seconds, processes))
        memory = [_read_memory(process) for process in processes]
    queries = 2 * size * batches * replicas
    p50, p95 = 1000 * np.percentile(times, [50, 95])
    return [
        "one actor" if shared else "each its own",
        f"{replicas}",
        f"{max(open_seconds):.1f}",
        f"{sum(memory) / 1e9:.2f}",
        " + ".join(f"{each / 1e9:.2f}" for each in sorted(memory, reverse=True)),
        f"{1000 * cpu / queries:.0f}",
        f"{queries / seconds:.1f}",
        f"{p50:.0f}",
        f"{p95:.0f}",
    ]


def _read_cpu_seconds(process: int) -> float:
    """Read the processor seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_memory(process: int) -> float:
    """Read the bytes of a process; shared ones are divided by the number of sharers."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(float(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def measure(options: ReplicaSearchOptions) -> int:
    """Build what is missing, measure one and several replicas, and print a table."""
    console = make_console()
    cache = options.folder / f"{options.chunks}-{options.pictures}"
    cache.mkdir(parents=True, exist_ok=True)
    build(options, cache)
    rows = []
    for shared in (True,) if options.shared_only else (False, True):
        for replicas in sorted({1, options.replicas}):
            rows.append(measure_replicas(options, cache, replicas, shared=shared))
            console.print(*rows[-1], highlight=False)
    title = f"{options.chunks:,} chunks, {options.pictures:,} pictures, batches of {options.batch} photos and texts"
    console.print(build_table(title, HEADINGS, rows))
    return 0


class ReplicaSearchOptions(Options):
    """Options of how large the indices are, and who asks them."""

    chunks: int = Field(100_000, ge=100, description="vectors of the web index")
    pictures: int = Field(10_000, ge=100, description="vectors of the image index")
    replicas: int = Field(
        4, ge=1, description="number of replicas that ask at the same time; one alone is measured too"
    )
    shared_only: bool = Field(False, description="leave out replicas with indices of their own, which may not fit")
    batches: int = Field(20, ge=1, description="number of batches of each replica")
    batch: int = Field(4, ge=1, description="photos, and as many texts, in a batch")
    folder: Path = Field(Path(".cache/replica_search"), description="folder in which indices are built")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        0, or 2 if it cannot be measured.
    """
    return run(measure, ReplicaSearchOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
