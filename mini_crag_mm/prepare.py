"""Builds the data sets and search indices of the mini CRAG-MM.

    python -m mini_crag_mm.prepare --split public_test

Run again, it does only what is missing; a killed run goes on where it was.
"""

from __future__ import annotations

import hashlib
import io
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from agents.models import vision
from agents.runtime.files import write_whole
from agents.search.web_cache import cache_name
from agents.settings.run_config import DEFAULT_CACHE
from evaluation.commands import parser_of
from mini_crag_mm.content_models import SPLITS, Split
from mini_crag_mm.loader import SET, WebPage, index_image, read_kg, read_pages, write_lines
from mini_crag_mm.organiser_format import STAMP, build_datasets
from mini_crag_mm.wikipedia import background_pages


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


def entry_pictures(split: Split, cache: Path) -> None:
    """The pictures of the image index under their URLs, for agents that look at what the search found."""
    for row in read_kg(split):
        target = cache / "image_cache" / cache_name(row["image_url"])
        if not target.exists():
            write_whole(target, (SET.root / row["image"]).read_bytes())


def build_indices(split: Split, cache: Path, *, background: int, progress: bool) -> None:
    """The image and the web index of a split, in the organiser's on-disk format."""
    from agents.search.build_index import IMAGE_ID, WEB_ID
    from agents.search.embedding_cache import EmbeddingCache
    from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder
    from agents.search.index_builder import IndexBuilder
    from agents.search.index_sources import read_images
    from agents.search.index_sources import read_pages as read_page_files

    tag = split.replace("_", "-")
    kg = kg_images(split, cache)
    files = [write_lines(cache / "pages" / f"{split}.jsonl", read_pages(split))]
    if background:
        others = cache / "pages" / f"background{background}.jsonl"
        files.append(write_lines(others, sampled(background_pages(), background)))
    with EmbeddingCache(cache / "embeddings") as embeddings:
        builder = IndexBuilder(cache / "hub", embeddings, progress=progress)
        photographs, encoder = read_images(kg, kg.parent), ImageIndexEncoder.load(EFFICIENTNET)
        images = builder.images(photographs, encoder, IMAGE_ID.format(tag=tag))
        pages, reader = read_page_files(files), TextIndexEncoder.load(MINILM)
        web = builder.chunks(pages, reader, WEB_ID.format(tag=tag))
    tqdm.write(f"{split}: {images.manifest.count} pictures and {web.manifest.count} page chunks are indexed")


def fingerprint(datasets: Path) -> str:
    """What the indices are made of, in one hash: the knowledge graph, its photographs, the pages, the data sets, how it embeds."""
    graphs = [SET.kg(split) for split in SPLITS]
    # Read as files: importing the module would import torch.
    embedding = sorted(Path(vision.__file__ or "").parent.glob("object_embedding*.*"))
    sources = [*graphs, SET.own_pages, SET.wiki_pages, *sorted(SET.photos.glob("*.webp")), *embedding]
    digest = hashlib.sha256((datasets / STAMP).read_bytes())
    for source in sources:
        digest.update(source.name.encode() + hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Prepare the splits that are asked for; 0 when everything stands."""
    parser = parser_of("mini_crag_mm.prepare", "Build what the mini CRAG-MM needs, once.")
    # fmt: off
    add = parser.add_argument
    add("--split", choices=(*SPLITS, "all"), default="public_test", help="splits to index")
    add("--cache", type=Path, default=DEFAULT_CACHE, help="where everything is kept (default: %(default)s)")
    add("--background", type=int, default=2000, metavar="N",
        help="other Wikipedia summaries to index beside the set's own pages; -1 for all 9,500 (minutes on two cores)")
    add("--no-progress", action="store_true", help="no progress bars")
    # fmt: on
    options = parser.parse_args(arguments)
    started = time.perf_counter()

    built = build_datasets(options.cache / "datasets")
    wanted = fingerprint(built.root)
    for split in SPLITS if options.split == "all" else (options.split,):
        entry_pictures(split, options.cache)
        stamp = options.cache / "prepared" / f"{split}-{options.background}.txt"
        if not stamp.is_file() or stamp.read_text(encoding="utf-8") != wanted:
            build_indices(split, options.cache, background=options.background, progress=not options.no_progress)
            write_whole(stamp, wanted)
    print(f"The mini CRAG-MM is prepared in {options.cache} ({time.perf_counter() - started:.1f} s).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
