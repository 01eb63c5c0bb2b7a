"""Command line of the index builder: ``python -m agents.search.build_index --help``."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agents.runtime.cluster import ClusterError, Each, cluster, in_turn, spread
from agents.runtime.files import doing, is_of_files, told, well_formed
from agents.search.embedding_cache import EmbeddingCache
from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder
from agents.search.hits import SearchError
from agents.search.hub import current_revision
from agents.search.index_builder import BuiltIndex, IndexBuilder
from agents.search.index_sources import ChunkRow, ImageRow, read_images, read_pages
from agents.search.own_sources import keep_pictures, read_documents, read_table
from agents.search.paths import default_cache
from agents.texts.page_text import main_content

IMAGE_ID = "crag-mm-2025/image-search-index-{tag}"
WEB_ID = "crag-mm-2025/web-search-index-{tag}"
_DEFAULT_SPLIT = "validation"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the indices that are asked for; 0 when they stand, 1 when the sources are bad, 2 for a wrong command line."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.kg is not None and options.table is not None:
        parser.error("--kg and --table say the same; give one")
    if (options.images is None) != (options.kg is None and options.table is None):
        parser.error("--images and --kg (or --table) go together")
    if options.images is None and not options.pages and options.documents is None:
        parser.error("nothing to build: give --images with --kg or --table, or --pages, or --documents")
    if options.table is not None or options.documents is not None:
        named = (options.table is None or options.image_id) and (options.documents is None or options.web_id)
        if options.split is None and not named:
            parser.error("give your knowledge a name: --split NAME")
    tag = (options.split or _DEFAULT_SPLIT).replace("_", "-")
    options.image_id = options.image_id or IMAGE_ID.format(tag=tag)
    options.web_id = options.web_id or WEB_ID.format(tag=tag)
    if options.batch_size < 1:
        parser.error("--batch-size has to be at least 1")
    if options.workers < 0 or (options.ray_address and not options.workers):
        parser.error("--workers has to be at least 1, and --ray-address takes it")
    try:
        with _workers(options) as (read, embed):
            _build(options, read, embed)
    except (SearchError, ClusterError) as error:
        print(f"error: {well_formed(str(error))}", file=sys.stderr)
        return 1
    except OSError as error:
        if not is_of_files(error):
            raise
        print(f"error: {told(error)}; the same command goes on where it was", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _workers(options: argparse.Namespace) -> Iterator[tuple[Each, Each]]:
    """What reads documents, and what embeds."""
    if not options.workers:
        yield in_turn, in_turn
        return
    with cluster(options.ray_address, "--workers"):
        yield spread(options.workers), spread(options.workers, gpus=True)


def _build(options: argparse.Namespace, read: Each, embed: Each) -> None:
    hub = options.out or options.cache / "hub"
    # Both sources are read before either is embedded: a bad line shows at once, not after minutes.
    images = _images(options)
    chunks = _chunks(options, read)
    if images is None and options.documents is not None and current_revision(hub, options.image_id) is None:
        images = [_blank(options.cache)]
    with EmbeddingCache(options.cache / "embeddings") as cache:
        builder = IndexBuilder(hub, cache, options.batch_size, not options.no_progress, embed)
        if images is not None:
            image_encoder = ImageIndexEncoder.load(options.image_model, options.batch_size)
            _report(options.image_id, builder.images(images, image_encoder, options.image_id))
        if chunks is not None:
            text_encoder = TextIndexEncoder.load(options.text_model, options.batch_size)
            _report(options.web_id, builder.chunks(chunks, text_encoder, options.web_id))


def _images(options: argparse.Namespace) -> list[ImageRow] | None:
    if options.table is not None:
        rows = read_table(options.table, options.images, options.base_url)
        keep_pictures(rows, options.cache / "image_cache")
        return rows
    return read_images(options.kg, options.images) if options.kg is not None else None


def _chunks(options: argparse.Namespace, read: Each) -> list[ChunkRow] | None:
    rows = read_pages(options.pages) if options.pages else []
    if options.documents is not None:
        own, left_out = read_documents(options.documents, options.base_url, content_of=main_content, each=read)
        for reason in left_out:
            print(f"left out: {reason}", file=sys.stderr)
        rows += own
    return rows or None


def _blank(cache: Path) -> ImageRow:
    """A grey picture of nothing: the organiser's pipeline opens no web index where there is no image index beside it."""
    from PIL import Image

    path = cache / "blank.png"
    with doing(f"writing {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (64, 64), "gray").save(path)
    return ImageRow(path, "", ())


def _report(dataset_id: str, built: BuiltIndex) -> None:
    state = "built" if built.fresh else "is up to date"
    print(f"{dataset_id} {state}: {built.manifest.count} rows, {built.embedded} newly embedded, in {built.path}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m agents.search.build_index",
        description="Build search indices that the organiser's pipeline opens offline. Killed runs go on where they were.",
    )
    parser.add_argument("--images", type=Path, metavar="FOLDER", help="folder of the knowledge graph's images")
    parser.add_argument("--kg", type=Path, metavar="KG.jsonl", help="lines of image, image_url and entities")
    parser.add_argument(
        "--table",
        type=Path,
        metavar="TABLE.csv",
        help="instead of --kg: columns file, entity, and one for each attribute",
    )
    parser.add_argument(
        "--pages",
        type=Path,
        action="append",
        default=[],
        metavar="PAGES.jsonl",
        help="lines of page_url, page_name and page_snippet; may be given several times",
    )
    parser.add_argument(
        "--documents", type=Path, metavar="FOLDER", help="HTML, Markdown, text and PDF files, in folders below it too"
    )
    parser.add_argument(
        "--base-url", default="", metavar="URL", help="put before the paths of documents and of a table's photos"
    )
    parser.add_argument(
        "--split",
        metavar="NAME",
        help="what the indices are found by, as --split of other commands (default: validation)",
    )
    parser.add_argument("--out", type=Path, metavar="HUB", help="where to publish (default: hub/ in the cache)")
    parser.add_argument("--image-id", metavar="ORG/NAME", help=f"data set id (default: {IMAGE_ID.format(tag='SPLIT')})")
    parser.add_argument("--web-id", metavar="ORG/NAME", help=f"data set id (default: {WEB_ID.format(tag='SPLIT')})")
    parser.add_argument(
        "--image-model", default=EFFICIENTNET, help="efficientnet-lite2, or a CLIP folder or id (default: %(default)s)"
    )
    parser.add_argument(
        "--text-model", default=MINILM, help="minilm, or an encoder's folder or id (default: %(default)s)"
    )
    parser.add_argument(
        "--batch-size", type=int, default=16, help="images or texts in one pass; 16 is fastest on a CPU (default: 16)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=0,
        metavar="N",
        help="read documents and embed in N processes of a Ray cluster (requirements/scale.txt)",
    )
    parser.add_argument(
        "--ray-address", metavar="HOST:PORT", help="that cluster; every machine has the same files (default: this one)"
    )
    parser.add_argument(
        "--cache", type=Path, default=default_cache(), help="embeddings (default: $CRAG_CACHE or .cache)"
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress bars")
    return parser


if __name__ == "__main__":
    sys.exit(main())
