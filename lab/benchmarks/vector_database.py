"""Recall, latency and size of Chroma and of a Milvus database over the same vectors.

    python -m lab.benchmarks.vector_database --chunks 100000 --url http://127.0.0.1:19530 --indices HNSW,IVF_SQ8
    python -m lab.benchmarks.vector_database --mini --url /tmp/mini.db

Vectors are those that come with the mini set (``--mini``; queries are every tenth of them, turned a little), or made up: of length 1,
around one topic for every hundred of them, with queries around the same topics. Recall is against exact search. Encoders are not timed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from agents.base.command_options import Flag, Options
from agents.models.base import FloatArray
from agents.search.index_builder import IMAGE_COLLECTION, WEB_COLLECTION, Row, batches, chroma
from agents.search.milvus import METADATA, Collection, StoredCollection, connect, format_alias
from agents.search.milvus_target import MilvusTarget
from evaluation.commands import make_console
from lab.benchmarks.common import build_table, run
from mini_crag_mm.loader import SET

K = 10
BATCH = 8
HEADINGS = (
    "vectors",
    "engine",
    "write s",
    "write CPU s",
    "disk MB",
    "recall@10",
    "one: p50, p95 ms",
    "of 8: p50, p95 ms",
)
_TOPIC, _SPREAD = 100, 0.7  # as lab.benchmarks.index_size
_MODEL = "0123456789abcdef"
_WRITE_BATCH = 2_000

Find = Callable[[FloatArray], Sequence[Sequence[str]]]
"""From vectors to the ids of the nearest rows of each."""


class DatabaseOptions(Options):
    """Compare Chroma and a Milvus database on the same vectors."""

    url: Annotated[str, Flag(metavar="URL")] = Field(
        description="the database: http://HOST:PORT or a path that ends in .db"
    )
    data: Annotated[Path | None, Flag(metavar="FOLDER")] = Field(
        None, description="folder of its index files, whose growth is its size; not given: of a .db, else not measured"
    )
    indices: str = Field("HNSW", description="kinds of index there, with commas between")
    chunks: int = Field(100_000, ge=1_000, description="made-up vectors")
    dimensions: int = Field(384, ge=8, description="of made-up vectors; 384 has MiniLM, 1024 has bge-large")
    queries: int = Field(200, ge=BATCH, description="queries, each asked by itself and in batches of 8")
    effort: int = Field(128, ge=1, description="neighbours that a search visits, or lists that it opens")
    mini: bool = Field(False, description="the vectors of the mini set instead of made-up ones")
    no_chroma: bool = Field(False, description="the database alone")


@dataclass(frozen=True)
class Vectors:
    """Vectors with queries, each of length 1."""

    name: str
    kind: str  # "image" or "web"
    stored: FloatArray
    queries: FloatArray

    @property
    def rows(self) -> list[Row]:
        """Rows whose key is their place."""
        text = "made-up text " * 16
        return [Row(str(n), dict.fromkeys(METADATA[self.kind], text), n.to_bytes(4)) for n in range(len(self.stored))]

    def load(self, keys: Sequence[bytes]) -> FloatArray:
        """Return vectors by key, in place of an embedding cache."""
        return self.stored[[int.from_bytes(key) for key in keys]]


def _make_up(count: int, dimensions: int, queries: int) -> Vectors:
    random = np.random.default_rng(0)
    topics = random.normal(size=(max(1, count // _TOPIC), dimensions)).astype(np.float32)

    def draw(number: int) -> FloatArray:
        own = random.normal(size=(number, dimensions)).astype(np.float32)
        return _units(topics[random.integers(len(topics), size=number)] + _SPREAD * own)

    return Vectors(f"{count:,} made-up chunks, {dimensions}", "web", draw(count), draw(queries))


def _units(vectors: FloatArray) -> FloatArray:
    units: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return units


def _read_mini() -> list[Vectors]:
    vector_sets = []
    for kind, modality in (("images", "image"), ("texts", "web")):
        with np.load(SET.embeddings) as arrays:
            stored = _units(arrays[kind].astype(np.float32))
        noise = _units(np.random.default_rng(0).normal(size=stored[::10].shape).astype(np.float32))
        name = f"{len(stored):,} {'pictures' if modality == 'image' else 'chunks'} of the mini set, {stored.shape[1]}"
        vector_sets.append(Vectors(name, modality, stored, _units(stored[::10] + 0.5 * noise)))
    return vector_sets


def _measure(vectors: Vectors, find: Find) -> list[str]:
    """Measure recall, and the time of a query by itself and in batches."""
    exact = np.argsort(-(vectors.queries @ vectors.stored.T), axis=1)[:, :K]
    find(vectors.queries[:BATCH])  # what is read once
    neighbours: list[Sequence[str]] = []
    alone, together = [], []
    for query in _split(vectors.queries, 1):
        begun = time.perf_counter()
        neighbours += find(query)
        alone.append(time.perf_counter() - begun)
    for some in _split(vectors.queries, BATCH):
        begun = time.perf_counter()
        find(some)
        together.append(time.perf_counter() - begun)
    hits = [len({*map(int, mine)} & {*best}) / K for mine, best in zip(neighbours, exact.tolist(), strict=True)]
    return [f"{np.mean(hits):.3f}", _in_ms(alone), _in_ms(together)]


def _split(queries: FloatArray, size: int) -> Iterator[FloatArray]:
    for start in range(0, len(queries), size):
        yield queries[start : start + size]


def _in_ms(seconds: Sequence[float]) -> str:
    return ", ".join(f"{1000 * np.quantile(seconds, q):.1f}" for q in (0.5, 0.95))


def _measure_chroma(vectors: Vectors) -> list[str]:
    collection = IMAGE_COLLECTION if vectors.kind == "image" else WEB_COLLECTION
    with tempfile.TemporaryDirectory() as folder, chroma(Path(folder)) as client:
        begun, cpu = time.perf_counter(), time.process_time()
        stored = client.create_collection(collection, metadata={"hnsw:space": "cosine"})
        for batch in batches(vectors.rows, _WRITE_BATCH):
            stored.add(
                ids=[row.id for row in batch],
                embeddings=vectors.load([row.key for row in batch]),
                metadatas=[dict(row.metadata) for row in batch],
            )
        spent = [f"{time.perf_counter() - begun:.0f}", f"{time.process_time() - cpu:.0f}", _size(Path(folder))]

        def find(queries: FloatArray) -> Any:
            return stored.query(query_embeddings=queries, n_results=K, include=["distances", "metadatas"])["ids"]

        return [vectors.name, "Chroma, HNSW", *spent, *_measure(vectors, find)]


def _measure_milvus(options: DatabaseOptions, vectors: Vectors, index: str) -> list[str]:
    place = options.data or (Path(options.url) if options.url.endswith(".db") else None)
    before = _bytes(place)
    dataset = f"benchmark/{vectors.kind}-{index.lower()}"
    collection = IMAGE_COLLECTION if vectors.kind == "image" else WEB_COLLECTION
    begun, cpu = time.perf_counter(), time.process_time()
    MilvusTarget(options.url, index, progress=False).publish(vectors.rows, vectors, collection, _MODEL, dataset)  # type: ignore[arg-type]
    client = connect(options.url)
    name = StoredCollection(format_alias(dataset), _MODEL, f"{index.lower()}_1").name
    while client.describe_index(name, "vector").get("pending_index_rows", 0):
        time.sleep(1)  # a server builds its index beside; what it has not indexed is searched exactly
    grown = "" if place is None else f"{(_bytes(place) - before) / 1e6:.0f}"
    spent = [f"{time.perf_counter() - begun:.0f}", f"{time.process_time() - cpu:.0f}", grown]
    fields = METADATA[vectors.kind]
    # Vectors are searched as they are: nothing is encoded, and rows are read as the database has them.
    nothing: Any = None
    as_they_are: Any = list
    searcher: Collection[Any, Any] = Collection(
        client, options.url, name, nothing, fields, "", options.effort, as_they_are
    )
    engine = f"{client.get_server_version()}, {index}"
    measured = _measure(
        vectors, lambda queries: [[row[0] for row in rows] for rows in searcher.search_vectors(queries, K)]
    )
    client.drop_alias(format_alias(dataset))
    client.drop_collection(name)
    return [vectors.name, engine, *spent, *measured]


def _bytes(folder: Path | None) -> int:
    files = folder.rglob("*") if folder is not None and folder.is_dir() else ()
    return sum(path.stat().st_size for path in files if path.is_file())


def _size(folder: Path) -> str:
    return f"{_bytes(folder) / 1e6:.0f}"


def compare(options: DatabaseOptions) -> int:
    """Print a row for each engine and index."""
    console = make_console()
    every = _read_mini() if options.mini else [_make_up(options.chunks, options.dimensions, options.queries)]
    rows = []
    for vectors in every:
        if not options.no_chroma:
            rows.append(_measure_chroma(vectors))
            console.print(" | ".join(rows[-1]))
        for index in options.indices.split(","):
            rows.append(_measure_milvus(options, vectors, index))
            console.print(" | ".join(rows[-1]))
    console.print(build_table("vector databases", HEADINGS, rows, left_columns=2))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; its exit status."""
    return run(compare, DatabaseOptions, arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main())
