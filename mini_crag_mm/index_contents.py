"""What the indices of a split hold: its pictures, its pages and other pages, and where their vectors stand in the embedding cache."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agents.runtime.files import write_whole
from mini_crag_mm.content_models import Split
from mini_crag_mm.loader import WebPage, index_image, read_kg, read_pages, write_lines
from mini_crag_mm.wikipedia import background_pages

if TYPE_CHECKING:
    from agents.search.index_sources import ChunkRow, ImageRow

BACKGROUND = 2000
"""Other Wikipedia summaries that are indexed beside the set's own pages."""


def sampled(pages: Iterable[WebPage], limit: int) -> list[WebPage]:
    """The same ``limit`` pages every time, chosen by a hash of their address; all of them for a negative number."""
    ordered = sorted(pages, key=lambda page: hashlib.sha256(page["page_url"].encode()).digest())
    return ordered if limit < 0 else ordered[:limit]


def kg_images(split: Split, cache: Path) -> Path:
    """The pictures of a split as the image index embeds them (cut-outs on a neutral ground), and the JSONL that names them."""
    folder = cache / "kg" / split
    rows = []
    for row in read_kg(split):
        name = f"{Path(row['image']).stem}.png"
        encoded = io.BytesIO()
        index_image(row).save(encoded, format="PNG")
        write_whole(folder / name, encoded.getvalue())  # each time: a photograph may have changed under its name
        rows.append({**row, "image": name})
    return write_lines(folder / "kg.jsonl", rows)


def sources_of(split: Split, cache: Path, background: int) -> tuple[Sequence[ImageRow], Sequence[ChunkRow]]:
    """What the indices of a split hold, written below the cache: the pictures, and the chunks of its own and of other pages."""
    from agents.search.index_sources import read_images
    from agents.search.index_sources import read_pages as read_page_files

    kg = kg_images(split, cache)
    files = [write_lines(cache / "pages" / f"{split}.jsonl", read_pages(split))]
    if background:
        others = cache / "pages" / f"background{background}.jsonl"
        files.append(write_lines(others, sampled(background_pages(), background)))
    return read_images(kg, kg.parent), read_page_files(files)


def contents_of(split: Split, cache: Path, background: int) -> tuple[list[bytes], list[bytes]]:
    """The keys in the embedding cache of a split's pictures, and those of its chunks."""
    from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder
    from agents.search.index_builder import image_key, text_key

    images, chunks = sources_of(split, cache, background)
    viewer, reader = ImageIndexEncoder.load(EFFICIENTNET), TextIndexEncoder.load(MINILM)
    return [image_key(viewer, row) for row in images], [text_key(reader, row) for row in chunks]
