"""Command line of the index builder: ``python -m agents.search.build_index --help``."""

import sys
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from io import BytesIO
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from agents.base.files import format_os_error, is_file_error, well_formed, write_whole
from agents.base.printing import print_error, print_text
from agents.base.worker_processes import Each, spread
from agents.search.changed_files import read_states, remember_files
from agents.search.collection import Collection
from agents.search.embedding_cache import EmbeddingCache
from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder
from agents.search.hits import SearchError
from agents.search.hub import current_revision, repository_folder
from agents.search.index_builder import BuiltIndex, IndexBuilder
from agents.search.index_sources import ChunkRow, ImageRow, Page, read_images, read_pages
from agents.search.kept_readings import KeptReadings, find_readings
from agents.search.losses import LOST
from agents.search.own_pages import detect_languages, find_own_pages, keep_pages, write_things
from agents.search.own_sources import keep_pictures, read_captions, read_documents, read_table
from agents.search.reading import Reading
from agents.search.reading_report import find_report, summarise, write_report
from agents.time_limits.signals import INTERRUPTED

IMAGE_ID = "crag-mm-2025/image-search-index-{tag}"
WEB_ID = "crag-mm-2025/web-search-index-{tag}"
_DEFAULT_SPLIT = "validation"
_MAX_TOLD = 20  # messages about files on the terminal; the report has all


class IndexOptions(Options):
    """Build search indices that the organiser's pipeline opens offline. Killed runs resume."""

    collection: Annotated[Path | None, Flag(positional=True)] = Field(
        None, description="folder with photos/ and pages/ (docs/own_knowledge.md), in place of the options for sources"
    )
    images: Annotated[Path | None, Flag(metavar="FOLDER")] = Field(
        None, description="folder of the knowledge graph's images"
    )
    kg: Annotated[Path | None, Flag(metavar="KG.jsonl")] = Field(
        None, description="lines of image, image_url and entities"
    )
    table: Annotated[Path | None, Flag(metavar="TABLE.csv")] = Field(
        None, description="instead of --kg: columns file, entity, and one for each attribute"
    )
    pages: Annotated[tuple[Path, ...], Flag(metavar="PAGES.jsonl", repeated=True)] = Field(
        (), description="lines of page_url, page_name and page_snippet; may be given several times"
    )
    documents: Annotated[Path | None, Flag(metavar="FOLDER")] = Field(
        None, description="HTML, Markdown, text and PDF files, in folders below it too"
    )
    base_url: Annotated[str, Flag(metavar="URL")] = Field(
        "", description="put before the paths of documents and photos; not given: the split before those of photos"
    )
    split: Annotated[str | None, Flag(metavar="NAME")] = Field(
        None, description=f"name of the indices, as --split of other commands; not given: {_DEFAULT_SPLIT}"
    )
    out: Annotated[Path | None, Flag(metavar="HUB")] = Field(
        None, description="where to publish; not given: hub/ in the cache"
    )
    image_id: Annotated[str | None, Flag(metavar="ORG/NAME")] = Field(
        None, description=f"data set id; not given: {IMAGE_ID.format(tag='SPLIT')}"
    )
    web_id: Annotated[str | None, Flag(metavar="ORG/NAME")] = Field(
        None, description=f"data set id; not given: {WEB_ID.format(tag='SPLIT')}"
    )
    image_model: str = Field(EFFICIENTNET, description="efficientnet-lite2, or a CLIP folder or ORG/NAME@COMMIT")
    text_model: str = Field(MINILM, description="minilm, or an encoder's folder or ORG/NAME@COMMIT")
    batch_size: int = Field(16, ge=1, description="images or texts in one pass; 16 is fastest on a CPU")
    workers: Annotated[int, Flag(metavar="N")] = Field(
        0, ge=0, description="read documents and embed in N processes; 0: in this one"
    )
    cache: CacheOption = Field(DEFAULT_CACHE, description="embeddings")
    no_progress: bool = Field(False, description="no progress bars")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.collection is not None:
            sources = (self.images, self.kg, self.table, self.pages or None, self.documents, self.split)
            if any(source is not None for source in sources):
                raise ValueError("a collection has its sources and its name: leave out all other sources, and --split")
            return self
        of_graph = self.kg is not None or self.table is not None
        own = self.table is not None or self.documents is not None
        named = (self.table is None or self.image_id) and (self.documents is None or self.web_id)
        wrong = {
            "--kg and --table say the same; give one": self.kg is not None and self.table is not None,
            "--images and --kg (or --table) go together": (self.images is not None) != of_graph,
            "nothing to build: name a collection, or give --images with --kg or --table, or --pages, or --documents": self.images
            is None
            and not self.pages
            and self.documents is None,
            "give your knowledge a name: --split NAME": own and self.split is None and not named,
        }
        for message in (message for message, holds in wrong.items() if holds):
            raise ValueError(message)
        return self

    @property
    def image_dataset(self) -> str:
        """Data set id of the image index."""
        return self.image_id or IMAGE_ID.format(tag=self.tag)

    @property
    def web_dataset(self) -> str:
        """Data set id of the web index."""
        return self.web_id or WEB_ID.format(tag=self.tag)

    @property
    def tag(self) -> str:
        """Name of the split, as data set ids have it."""
        if self.collection is not None:
            return Collection(self.collection).split
        return (self.split or _DEFAULT_SPLIT).replace("_", "-")


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the requested indices.

    Returns:
        Exit status: 0, 1 when the sources are bad, 2 for a wrong command line, 130 when stopped by Ctrl-C.
    """
    options = IndexOptions.parse(arguments)
    try:
        build(options)
    except SearchError as error:
        print_error(f"error: {well_formed(str(error))}")
        return 1
    except BrokenProcessPool:
        print_error("error: a worker process ended, perhaps for want of memory; give fewer --workers")
        return 1
    except OSError as error:
        if not is_file_error(error):
            raise
        print_error(f"error: {format_os_error(error)}; the same command goes on where it was")
        return 1
    except KeyboardInterrupt:
        print_error("stopped; the same command goes on where it was")
        return INTERRUPTED
    return 0


def build(options: IndexOptions) -> None:
    """Build the requested indices, embed only new rows, and print a summary.

    Raises:
        SearchError: The sources are bad (``SourceError`` names each line), or an encoder cannot be loaded.
        BrokenProcessPool: A worker process ended.
        OSError: A file cannot be read or written; the next call resumes.
    """
    with spread(options.workers) as each:
        _build(options, each)


def _build(options: IndexOptions, each: Each) -> None:
    hub = options.out or options.cache / "hub"
    for dataset_id in (options.image_dataset, options.web_dataset):
        repository_folder(hub, dataset_id)  # checks the id before anything is embedded
    # As they are before they are read: a file that changes meanwhile counts as changed.
    collection = Collection.open(options.collection) if options.collection is not None else None
    states = read_states(collection) if collection is not None else {}
    # Both sources are read before either is embedded: a bad line shows at once, not after minutes.
    pages: list[Page] = []
    images, chunks = (
        _read_collection(options, each, pages)
        if options.collection
        else (_images(options), _chunks(options, each, pages))
    )
    has_table = options.collection is not None or options.table is not None
    if has_table and images is not None and chunks is not None:
        chunks = [*chunks, *write_things(images)]
    lacks_images = images is None and (
        options.collection is not None or current_revision(hub, options.image_dataset) is None
    )
    blank = [_blank(options.cache)] if lacks_images else None
    with EmbeddingCache(options.cache / "embeddings") as cache:
        builder = IndexBuilder(hub, cache, options.batch_size, not options.no_progress, each)
        if (pictures := images if images is not None else blank) is not None:
            image_encoder = ImageIndexEncoder.load(options.image_model, options.batch_size)
            built = builder.images(pictures, image_encoder, options.image_dataset)
            _tell_left_out(built.left_out)
            if images is not None:
                _report(options.image_dataset, built)
        if chunks is not None:
            text_encoder = TextIndexEncoder.load(options.text_model, options.batch_size)
            keep_pages(pages, find_own_pages(options.cache, options.tag))
            languages = detect_languages(pages)
            _report(options.web_dataset, builder.chunks(chunks, text_encoder, options.web_dataset, languages))
    if collection is not None:
        remember_files(collection, states, options.cache)


def _read_collection(
    options: IndexOptions, read: Each, pages: list[Page]
) -> tuple[list[ImageRow] | None, list[ChunkRow] | None]:
    """Read the photos and the pages of the collection, and add the whole pages to ``pages``."""
    assert options.collection is not None
    collection = Collection.open(options.collection)
    images, chunks = None, None
    if (folder := collection.photos) is not None:
        images = _own_photos(options, folder, collection.table, collection.split)
    if collection.pages is not None:
        chunks = _documents(options, collection.pages, options.base_url or f"{collection.name}/", read, pages)
    return images, chunks


def _images(options: IndexOptions) -> list[ImageRow] | None:
    if options.images is None:
        return None
    if options.table is not None:
        return _own_photos(options, options.images, options.table, options.image_id or options.tag)
    return read_images(options.kg, options.images) if options.kg is not None else None


def _own_photos(options: IndexOptions, folder: Path, table: Path | None, name: str) -> list[ImageRow]:
    """Read photos with a table or captions, report those left out, and copy them into the picture cache."""
    prefix = f"{name}/"  # pictures are cached by URL, so that two indices may not share one
    base_url = options.base_url or prefix
    rows, left_out = read_captions(folder, base_url) if table is None else read_table(table, folder, base_url, prefix)
    _tell_left_out(left_out)
    keep_pictures(rows, options.cache / "image_cache")
    return rows


def _tell_left_out(reasons: Sequence[str]) -> None:
    for reason in reasons:
        print_error(f"left out: {well_formed(reason)}")


def _chunks(options: IndexOptions, read: Each, pages: list[Page]) -> list[ChunkRow] | None:
    if not options.pages and options.documents is None:
        return None
    rows = read_pages(options.pages) if options.pages else []
    if options.documents is not None:
        rows += _documents(options, options.documents, options.base_url, read, pages)
    return rows


def _documents(options: IndexOptions, folder: Path, base_url: str, read: Each, pages: list[Page]) -> list[ChunkRow]:
    """Read the documents that changed, name the worst losses and write the report of all of them."""
    readings: dict[str, Reading] = {}
    kept = KeptReadings(find_readings(options.cache, options.tag))
    chunks, left_out = read_documents(
        folder, base_url, each=read, on_reading=readings.__setitem__, on_pages=pages.extend, kept=kept
    )
    if kept.num_kept:
        print_text(
            f"{kept.num_kept} of {kept.num_kept + kept.num_read} documents have not changed and were not read again"
        )
    report = find_report(options.cache, options.tag)
    write_report(readings, left_out, report)
    worst_first = sorted(left_out, key=lambda message: LOST not in message)
    _tell_left_out(worst_first[:_MAX_TOLD])
    if more := worst_first[_MAX_TOLD:]:
        print_error(f"left out: {len(more)} more, in the report")
    print_text(f"{summarise(readings)}; report: {report}")
    return chunks


def _blank(cache: Path) -> ImageRow:
    """Create a plain grey picture for an image index beside a web index.

    The organiser's pipeline opens no web index unless there is an image index beside it.
    """
    from PIL import Image

    path, picture = cache / "blank.png", BytesIO()
    Image.new("RGB", (64, 64), "gray").save(picture, "PNG")
    if not path.is_file() or path.read_bytes() != picture.getvalue():
        write_whole(path, picture.getvalue())
    return ImageRow(path, "", ())


def _report(dataset_id: str, built: BuiltIndex) -> None:
    state = "built" if built.fresh else "is up to date"
    print_text(f"{dataset_id} {state}: {built.manifest.count} rows, {built.embedded} newly embedded, in {built.path}")


if __name__ == "__main__":
    sys.exit(main())
