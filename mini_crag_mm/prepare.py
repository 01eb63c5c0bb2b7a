"""Everything that must stand before the mini CRAG-MM can be answered: data sets and search indices.

    python -m mini_crag_mm.prepare --split public_test

Run again, it does only what is missing; a killed run goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from tqdm import tqdm

from mini_crag_mm.generator.content import Split
from mini_crag_mm.generator.datasets import STAMP, build_datasets, cache_name
from mini_crag_mm.generator.kg import index_image, read_kg
from mini_crag_mm.generator.paths import DemoPaths, atomic_file, write_text
from mini_crag_mm.generator.wiki import WebPage, background_pages, read_pages

IMAGE_ID = "crag-mm-2025/image-search-index-{tag}"
WEB_ID = "crag-mm-2025/web-search-index-{tag}"


def write_lines(target: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write JSON lines atomically."""
    write_text(target, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return target


def sampled(pages: Iterable[WebPage], most: int) -> list[WebPage]:
    """The same ``most`` pages every time, chosen by a hash of their address; all of them for a negative number."""
    ordered = sorted(pages, key=lambda page: hashlib.sha256(page["page_url"].encode()).digest())
    return ordered if most < 0 else ordered[:most]


def kg_images(split: Split, cache: Path) -> Path:
    """The pictures of a split as the image index embeds them (cut-outs on a neutral ground), and the JSONL that names them."""
    folder = cache / "kg" / split
    rows = []
    for row in read_kg(split):
        name = f"{Path(row['image']).stem}.png"
        with atomic_file(folder / name) as part:  # anew each time: a photograph may have changed under its name
            index_image(row).save(part, format="PNG")
        rows.append({**row, "image": name})
    return write_lines(folder / "kg.jsonl", rows)


def entry_pictures(split: Split, cache: Path) -> None:
    """The pictures of the image index under their URLs, for agents that look at what the search found."""
    for row in read_kg(split):
        target = cache / "image_cache" / cache_name(row["image_url"])
        if not target.exists():
            with atomic_file(target) as part:
                part.write_bytes((DemoPaths().root / row["image"]).read_bytes())


def build_indices(split: Split, cache: Path, *, background: int, progress: bool) -> None:
    """The image and the web index of a split, in the organiser's on-disk format."""
    from agents.search.embedding_cache import EmbeddingCache
    from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder
    from agents.search.folders import hub_folder
    from agents.search.index_builder import build_image_index, build_web_index
    from agents.search.index_sources import read_images
    from agents.search.index_sources import read_pages as read_page_files

    tag = split.replace("_", "-")
    kg = kg_images(split, cache)
    files = [write_lines(cache / "pages" / f"{split}.jsonl", read_pages(split=split))]
    if background:
        files.append(
            write_lines(cache / "pages" / f"background{background}.jsonl", sampled(background_pages(), background))
        )
    common: dict[str, Any] = {"hub": hub_folder(cache), "progress": progress}
    with EmbeddingCache(cache / "embeddings") as embeddings:
        images = build_image_index(
            read_images(kg, kg.parent),
            ImageIndexEncoder.load(EFFICIENTNET),
            dataset_id=IMAGE_ID.format(tag=tag),
            cache=embeddings,
            **common,
        )
        web = build_web_index(
            read_page_files(files),
            TextIndexEncoder.load(MINILM),
            dataset_id=WEB_ID.format(tag=tag),
            cache=embeddings,
            **common,
        )
    tqdm.write(f"{split}: {images.manifest.count} pictures and {web.manifest.count} page chunks are indexed")


def fingerprint(datasets: Path) -> str:
    """What the indices are made of, in one hash: the knowledge graph, its photographs, the pages and the data sets."""
    paths = DemoPaths()
    sources = [paths.kg(split) for split in get_args(Split)] + [
        paths.own_pages,
        paths.wiki_pages,
        *sorted(paths.photos.glob("*.webp")),
    ]
    digest = hashlib.sha256((datasets / STAMP).read_bytes())
    for source in sources:
        digest.update(source.name.encode() + hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()


def main(arguments: list[str] | None = None) -> int:
    """Prepare the splits that are asked for; 0 when everything stands."""
    from agents.launch import DEFAULT_CACHE

    parser = argparse.ArgumentParser(
        prog="python -m mini_crag_mm.prepare", description="Build what the mini CRAG-MM needs, once."
    )
    parser.add_argument("--split", choices=(*get_args(Split), "all"), default="public_test", help="splits to index")
    parser.add_argument(
        "--cache", type=Path, default=DEFAULT_CACHE, help="where everything is kept (default: %(default)s)"
    )
    parser.add_argument(
        "--background",
        type=int,
        default=2000,
        metavar="N",
        help="other Wikipedia summaries to index beside the set's own pages; -1 for all 9,500 (minutes on two cores)",
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress bars")
    options = parser.parse_args(arguments)
    started = time.perf_counter()

    built = build_datasets(options.cache / "datasets")
    splits: tuple[Split, ...] = get_args(Split) if options.split == "all" else (options.split,)
    for split in splits:
        entry_pictures(split, options.cache)
    stamp = options.cache / "prepared" / f"{options.split}-{options.background}.txt"
    wanted = fingerprint(built.root)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        print(f"The mini CRAG-MM is prepared ({time.perf_counter() - started:.1f} s).")
        return 0
    for split in splits:
        build_indices(split, options.cache, background=options.background, progress=not options.no_progress)
    write_text(stamp, wanted)
    print(f"The mini CRAG-MM is prepared in {options.cache} ({time.perf_counter() - started:.1f} s).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
