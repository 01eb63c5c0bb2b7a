"""Build the data sets, the search indices and the page cache of the mini CRAG-MM.

    python -m mini_crag_mm.prepare --split public_test

Run again, it does only what is missing; a killed run goes on where it was.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from tqdm import tqdm

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from agents.base.files import write_whole
from agents.models import vision
from agents.search.hits import SearchError
from agents.search.index_sources import CHUNK_WORDS
from agents.search.pages.web_cache import cache_name
from mini_crag_mm import embeddings
from mini_crag_mm.content_models import SPLITS, Split
from mini_crag_mm.full_pages import FOLDER, PageMaker, write_pages
from mini_crag_mm.index_contents import BACKGROUND, list_pages, write_sources
from mini_crag_mm.loader import SET, read_kg
from mini_crag_mm.organiser_format import STAMP, build_datasets


def write_entry_pictures(split: Split, cache: Path) -> None:
    """Write the pictures of the image index under their URLs, for agents that look at retrieved pictures."""
    for row in read_kg(split):
        target = cache / "image_cache" / cache_name(row["image_url"])
        picture = (SET.root / row["image"]).read_bytes()
        if not target.exists() or target.read_bytes() != picture:  # it may have been replaced in the set
            write_whole(target, picture)


def write_full_pages(split: Split, cache: Path, background: int) -> None:
    """Bring the page cache up to date for the pages of a split's web index."""
    pages = list_pages(split, background)
    cached = write_pages(pages, cache, PageMaker.load().make)
    tqdm.write(f"{split}: {cached} of {len(pages)} pages have their full text in {cache / FOLDER}")


def build_indices(split: Split, cache: Path, *, background: int, chunk_words: int, progress: bool) -> None:
    """Build the image and the web index of a split, in the organiser's on-disk format."""
    from agents.search.build_index import IMAGE_ID, WEB_ID
    from agents.search.embedding_cache import EmbeddingCache
    from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder
    from agents.search.index_builder import IndexBuilder

    tag = split.replace("_", "-")
    photographs, chunks = write_sources(split, cache, background, chunk_words)
    with EmbeddingCache(cache / "embeddings") as vectors:
        embeddings.add_missing(vectors)
        builder = IndexBuilder(cache / "hub", vectors, progress=progress)
        images = builder.images(photographs, ImageIndexEncoder.load(EFFICIENTNET), IMAGE_ID.format(tag=tag))
        if images.left_out:
            raise SearchError("\n".join(images.left_out))
        web = builder.chunks(chunks, TextIndexEncoder.load(MINILM), WEB_ID.format(tag=tag))
    tqdm.write(f"{split}: {images.manifest.count} pictures and {web.manifest.count} page chunks are indexed")


def compute_fingerprint(datasets: Path) -> str:
    """Compute one hash of all that the indices are made of.

    This is the knowledge graph, its photographs, the pages, the data sets, and how pictures are embedded.
    """
    graphs = [SET.kg(split) for split in SPLITS]
    # Read as files: importing the module would import torch.
    embedding = sorted(Path(vision.__file__ or "").parent.glob("object_embedding*.*"))
    sources = [*graphs, SET.own_pages, SET.wiki_pages, *sorted(SET.photos.glob("*.webp")), *embedding]
    digest = hashlib.sha256((datasets / STAMP).read_bytes())
    for source in sources:
        digest.update(source.name.encode() + hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()


def read_stamp(folder: Path, split: Split) -> str:
    """Return what the indices of a split were made of, the number of other pages first; "" if unknown."""
    stamp = folder / f"{split}.txt"
    return stamp.read_text(encoding="utf-8") if stamp.is_file() else ""


class PrepareOptions(Options):
    """Build what the mini CRAG-MM needs, once."""

    split: Literal["validation", "public_test", "all"] = Field("public_test", description="splits to index")
    cache: CacheOption = Field(DEFAULT_CACHE, description="cache folder to write to")
    background: Annotated[int, Flag(metavar="N")] = Field(
        BACKGROUND,
        description="other Wikipedia summaries to index beside the set's own pages; -1 for all 9,500 (minutes on two cores)",
    )
    chunk_words: Annotated[int, Flag(metavar="N")] = Field(
        CHUNK_WORDS,
        ge=1,
        description="words per chunk of the web index; with few, a snippet is a part of its page, as at the evaluator",
    )
    no_progress: bool = Field(False, description="show no progress bars")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare the requested splits; return 0 when they are complete."""
    options = PrepareOptions.parse(arguments)
    started = time.perf_counter()

    built = build_datasets(options.cache / "datasets")
    expected_stamp = f"{options.background}: {compute_fingerprint(built.root)}"
    if options.chunk_words != CHUNK_WORDS:
        expected_stamp += f" {options.chunk_words} words"
    stamps = options.cache / "prepared"
    for split in SPLITS if options.split == "all" else (options.split,):
        write_entry_pictures(split, options.cache)
        write_full_pages(split, options.cache, options.background)
        if read_stamp(stamps, split) != expected_stamp:
            (stamps / f"{split}.txt").unlink(
                missing_ok=True
            )  # a build that is killed leaves neither set of indices whole
            build_indices(
                split,
                options.cache,
                background=options.background,
                chunk_words=options.chunk_words,
                progress=not options.no_progress,
            )
            write_whole(stamps / f"{split}.txt", expected_stamp)
    print(f"The mini CRAG-MM is prepared in {options.cache} ({time.perf_counter() - started:.1f} s).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
