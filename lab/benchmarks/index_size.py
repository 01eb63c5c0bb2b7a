"""Time, memory and disk of large search indices of synthetic vectors.

    python -m lab.benchmarks.index_size --pictures 100000 --chunks 1000000

The figures are extrapolated to the challenge's size. Each kind of index is built at a tenth of its size and at its size by the index
builder, opened by the organiser's classes and searched. Each step has a process of its own. Vectors lie around one topic for every hundred
of them, as those of pages about the same things do. Making them is not counted; a real encoder's time comes on top. A finished step is not
done again until ``--folder`` is removed.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import multiprocessing
import resource
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
import numpy.typing as npt
from PIL import Image
from pydantic import AfterValidator, Field

from agents.base.command_options import Flag, Options
from agents.models.base import FloatArray
from agents.search.embedding_cache import EmbeddingCache
from agents.search.hits import Entity
from agents.search.hub import local_indices, working_copy
from agents.search.index_builder import BuiltIndex, IndexBuilder
from agents.search.index_sources import CHUNK_WORDS, ChunkRow, ImageRow
from evaluation.commands import make_console
from lab.benchmarks.common import build_table, run

Kind = Literal["pictures", "chunks"]

CHALLENGE = {"pictures": 68_000, "chunks": 2_700_000}
"""Sizes of the challenge's two indices (its description of the mock search APIs)."""

DIMENSIONS = {"pictures": 768, "chunks": 1024}
"""Dimensions of the challenge's encoders, CLIP ViT-L/14-336 and bge-large-en-v1.5 (their ``config.json``)."""

NEAREST = 10
"""Neighbours that a query asks for: the largest K of a preset (``presets/cruise.toml``)."""

HEADINGS = (
    *("index", "dim.", "build s", "CPU s", "build GB", "index GB", "cache GB"),
    *("open s", "first ms", "p50 ms", "p95 ms", "batched ms", "CPU ms", "search GB"),
)

_ENTITIES = 26 / 68  # a picture, in the challenge's graph
_TOPIC = 100  # vectors of one topic
_SPREAD = 0.7  # a vector's own part beside its topic's, which makes neighbours of one topic 0.67 alike
_ATTRIBUTES = 10
_VOCABULARY = 5_000
_BATCH = 16
_QUERIES = 200
_ID = "made-up/index"


@dataclass(frozen=True)
class IndexFigures:
    """Figures of an index at one size, in seconds and bytes."""

    build_seconds: float  # from rows to the published index, without making vectors
    build_cpu: float  # of the processor, for the same: another load of the machine does not change it as much
    build_memory: float  # the most of the process that built it
    disk: float  # of the index
    cache: float  # of the embedding cache
    open_seconds: float  # copying it for this process and opening it by the organiser's class
    first_seconds: float  # the first query, for which the graph of neighbours is read
    p50: float  # median of a query
    p95: float  # 95th percentile of a query
    batched: float  # a query in batches of 16
    query_cpu: float  # of the processor, for a query by itself
    search_memory: float  # the most of the process that searched it


class MadeUpEncoder:
    """Encoder of vectors of length 1 by content alone.

    ``spent`` is what making them took (see ``_read_clocks``).
    """

    def __init__(self, dimensions: int, count: int) -> None:
        self.fingerprint = f"made up, {dimensions} dimensions"
        self.spent = np.zeros(2)
        self._dimensions, self._topics = dimensions, max(1, count // _TOPIC)

    def embed(self, contents: Sequence[str | Image.Image]) -> FloatArray:
        """Make vectors of shape (len(contents), dimensions)."""
        start = _read_clocks()
        vectors = [self.vector(zlib.crc32(one.encode() if isinstance(one, str) else one.tobytes())) for one in contents]
        self.spent += _read_clocks() - start
        return np.stack(vectors)

    def vector(self, seed: int) -> FloatArray:
        """Make one vector of shape (dimensions,), near those of its topic."""
        topic = np.random.default_rng(seed % self._topics).standard_normal(self._dimensions, dtype=np.float32)
        own = np.random.default_rng([seed, 1]).standard_normal(self._dimensions, dtype=np.float32)
        vector = topic + _SPREAD * own
        return cast(FloatArray, vector / np.linalg.norm(vector))


def build(kind: Kind, count: int, dimensions: int, folder: Path) -> dict[str, float]:
    """Build an index of made-up rows in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    encoder = MadeUpEncoder(dimensions, count)
    rows = make_pictures(count, folder / "pictures") if kind == "pictures" else make_chunks(count)
    with EmbeddingCache(folder / "embeddings") as cache:
        builder = IndexBuilder(folder / "hub", cache, progress=sys.stderr.isatty())
        make: Callable[..., BuiltIndex] = builder.images if kind == "pictures" else builder.chunks
        start = _read_clocks()
        built = make(rows, encoder, _ID)
        seconds, cpu = (_read_clocks() - start - encoder.spent).tolist()
    sizes = {"disk": _count_bytes(Path(built.path)), "cache": _count_bytes(folder / "embeddings")}
    return {"build_seconds": seconds, "build_cpu": cpu, "build_memory": _read_peak(), **sizes}


def search(kind: Kind, count: int, dimensions: int, folder: Path) -> dict[str, float]:
    """Open a built index as an agent does, and query it."""
    from cragmm_search.image_search_mock_api.image_kg import CragImageKG
    from cragmm_search.web_search_mock_api.api.web_index import CragMockWeb

    start = time.perf_counter()
    copies = {_ID: working_copy(folder / "hub", _ID)}
    with contextlib.redirect_stdout(io.StringIO()), local_indices(copies):
        opened_index = (CragImageKG if kind == "pictures" else CragMockWeb)(None, None, _ID)
    open_seconds = time.perf_counter() - start
    look_up = opened_index.get_entity_name if kind == "pictures" else opened_index.get_page_snippet
    encoder = MadeUpEncoder(dimensions, count)

    def query(seeds: Sequence[int]) -> npt.NDArray[np.float64]:
        vectors = np.stack([encoder.vector(seed) for seed in seeds])
        start = _read_clocks()
        results = opened_index.vector_db.query(
            query_embeddings=vectors, n_results=min(NEAREST, count), include=["distances"]
        )
        for identities in results["ids"]:
            for identity in identities:
                look_up(int(identity) if kind == "pictures" else identity)
        return _read_clocks() - start

    first = query([2**32])  # above every crc32: of a topic, but none of the vectors that are there
    single = np.array([query([2**32 + number]) for number in range(1, 1 + _QUERIES)])
    batched = [query(range(2**33 + start, 2**33 + start + _BATCH))[0] for start in range(0, _QUERIES, _BATCH)]
    p50, p95 = np.percentile(single[:, 0], [50, 95])
    return {
        "open_seconds": open_seconds,
        "first_seconds": float(first[0]),
        "p50": float(p50),
        "p95": float(p95),
        "batched": float(np.median(batched)) / _BATCH,
        "query_cpu": float(single[:, 1].mean()),
        "search_memory": _read_peak(),
    }


def make_pictures(count: int, folder: Path) -> list[ImageRow]:
    """Write tiny pictures, each of another colour, to the folder, and return their rows."""
    folder.mkdir(parents=True)
    rows = []
    for number in range(count):
        path = folder / f"{number}.bmp"
        Image.new("RGB", (8, 8), (number >> 16, number >> 8 & 255, number & 255)).save(path)
        entity = f"entity {number % max(1, round(count * _ENTITIES))}"
        attributes = {f"attribute {place}": f"value {place} of {entity}" for place in range(_ATTRIBUTES)}
        rows.append(ImageRow(path, f"https://pictures.example/{number}.jpg", (Entity(entity, attributes),)))
    return rows


def make_chunks(count: int) -> list[ChunkRow]:
    """Make chunks of the builder's size; three or four a page, as in the challenge."""
    chance = np.random.default_rng(0)
    words = ["".join(map(chr, letters)) for letters in chance.integers(97, 123, (_VOCABULARY, 5))]
    rows = []
    for number in range(count):
        page, place = divmod(number * 10, 34)
        url = f"https://pages.example/{page}"
        text = " ".join([words[word] for word in chance.integers(0, _VOCABULARY, CHUNK_WORDS)])
        rows.append(ChunkRow(f"{url}_chunk_{place}", f"page {page}", text, url))
    return rows


def extrapolate(at: Sequence[tuple[int, IndexFigures]], size: int) -> IndexFigures:
    """Extrapolate two measurements to another size: seconds by a power of the size, bytes linearly."""
    (less, small), (more, large) = at

    def seconds(first: float, second: float) -> float:
        return float(second * (size / more) ** (math.log(second / first) / math.log(more / less)))

    def space(first: float, second: float) -> float:
        return second + (second - first) * (size - more) / (more - less)

    bytes_of = {"build_memory", "search_memory", "disk", "cache"}
    first, second = asdict(small), asdict(large)
    return IndexFigures(**{k: (space if k in bytes_of else seconds)(first[k], second[k]) for k in first})


def measure(options: IndexSizeOptions) -> int:
    """Measure what has not been measured, and print all."""
    console = make_console()
    done_file = options.folder / "measured.json"
    figures: dict[str, dict[str, float]] = json.loads(done_file.read_text()) if done_file.exists() else {}
    options.folder.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, str, IndexFigures]] = []
    for kind in ("pictures", "chunks"):
        size, dimensions = getattr(options, kind), options.dimensions or DIMENSIONS[kind]
        at = []
        for count in (size // 10, size) if size else ():
            name = f"{kind}-{count}-{dimensions}"
            folder = options.folder / name
            for step in (build, search):
                if f"{name}-{step.__name__}" not in figures:
                    console.print(f"{step.__name__} {name}", highlight=False)
                    figures[f"{name}-{step.__name__}"] = _run_alone(step, kind, count, dimensions, folder)
                    done_file.write_text(json.dumps(figures, indent=2))
            shutil.rmtree(folder, ignore_errors=True)
            at.append((count, IndexFigures(**figures[f"{name}-build"], **figures[f"{name}-search"])))
            rows.append((f"{count:,} {kind}", f"{dimensions}", at[-1][1]))
        if at:
            rows.append((f"{CHALLENGE[kind]:,} {kind}, computed", f"{dimensions}", extrapolate(at, CHALLENGE[kind])))
    console.print(build_table("Indices of made-up vectors", HEADINGS, [_format_row(*row) for row in rows]))
    return 0


def _check_size(size: int) -> int:
    if size and size < 100:
        raise ValueError(f"{size}: at least 100, or 0")
    return size


Size = Annotated[int, AfterValidator(_check_size)]


class IndexSizeOptions(Options):
    """Options of how large the built indices are."""

    pictures: Size = Field(100_000, description="vectors of the image index; 0: none")
    chunks: Size = Field(1_000_000, description="vectors of the web index; 0: none")
    dimensions: Annotated[int | None, Flag(metavar="N")] = Field(
        None, description=f"dimensions of a vector; default: {DIMENSIONS}"
    )
    folder: Path = Field(Path(".cache/index_size"), description="folder in which indices are built")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print.

    Returns:
        0, or 2 if it cannot be measured.
    """
    return run(measure, IndexSizeOptions, arguments, __doc__)


def _run_alone(step: Callable[..., dict[str, float]], *arguments: Any) -> dict[str, float]:
    """Run a step in a process of its own, whose memory is its own, and return its result."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
        return processes.submit(step, *arguments).result()


def _read_clocks() -> npt.NDArray[np.float64]:
    """Return the seconds of the clock and of the processor."""
    return np.array([time.perf_counter(), time.process_time()])


def _read_peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0  # Linux counts in KiB


def _count_bytes(folder: Path) -> float:
    return float(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()))


def _format_row(name: str, dimensions: str, figures: IndexFigures) -> list[str]:
    space = [f"{each / 1e9:.2f}" for each in (figures.build_memory, figures.disk, figures.cache)]
    times = [
        f"{1000 * each:.1f}"
        for each in (figures.first_seconds, figures.p50, figures.p95, figures.batched, figures.query_cpu)
    ]
    built = f"{figures.build_seconds:.0f}", f"{figures.build_cpu:.0f}"
    return [
        name,
        dimensions,
        *built,
        *space,
        f"{figures.open_seconds:.1f}",
        *times,
        f"{figures.search_memory / 1e9:.2f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
