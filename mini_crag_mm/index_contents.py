"""Contents of a split's indices: its pictures, its pages, background pages, and the keys of vectors."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from agents.base.files import write_whole
from agents.search import index_sources
from agents.search.index_sources import CHUNK_WORDS, ChunkRow, ImageRow
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import WebPage, read_index_image, read_kg, read_pages, write_lines
from mini_crag_mm.wikipedia import read_background_pages

BACKGROUND = 2000
"""Other Wikipedia summaries that are indexed beside the set's own pages."""


def sample_pages(pages: Iterable[WebPage], limit: int) -> list[WebPage]:
    """Return the same ``limit`` pages every time, chosen by a hash of their address; all if negative."""
    ordered = sorted(pages, key=lambda page: hashlib.sha256(page["page_url"].encode()).digest())
    return ordered if limit < 0 else ordered[:limit]


def write_kg_images(split: Split, cache: Path) -> Path:
    """Write the pictures of a split as the image index embeds them, and the JSONL that names them.

    Cut-outs stand on a neutral ground.
    """
    folder = cache / "kg" / split
    rows = []
    for row in read_kg(split):
        name = f"{Path(row['image']).stem}.png"
        encoded = io.BytesIO()
        read_index_image(row).save(encoded, format="PNG")
        write_whole(folder / name, encoded.getvalue())  # each time: a photograph may have changed under its name
        rows.append({**row, "image": name})
    return write_lines(folder / "kg.jsonl", rows)


def sample_background(background: int) -> list[WebPage]:
    """Return the background pages beside a split's own: none for 0, all for a negative number."""
    return sample_pages(read_background_pages(), background) if background else []


def list_pages(split: Split, background: int) -> list[WebPage]:
    """Return the pages of a split's web index."""
    return [*read_pages(split), *sample_background(background)]


def write_sources(
    split: Split, cache: Path, background: int, chunk_words: int = CHUNK_WORDS
) -> tuple[Sequence[ImageRow], Sequence[ChunkRow]]:
    """Write the sources of a split's indices below the cache; return its pictures and page chunks."""
    kg = write_kg_images(split, cache)
    files = [write_lines(cache / "pages" / f"{split}.jsonl", read_pages(split))]
    if background:
        files.append(write_lines(cache / "pages" / f"background{background}.jsonl", sample_background(background)))
    return index_sources.read_images(kg, kg.parent), index_sources.read_pages(files, chunk_words)


def list_keys(split: Split, cache: Path, background: int) -> tuple[list[bytes], list[bytes]]:
    """Return the embedding cache's keys of a split's pictures, and those of its chunks."""
    from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder
    from agents.search.index_builder import image_key, text_key

    images, chunks = write_sources(split, cache, background)
    viewer, reader = ImageIndexEncoder.load(EFFICIENTNET), TextIndexEncoder.load(MINILM)
    return [image_key(viewer, row) for row in images], [text_key(reader, row) for row in chunks]
