"""Builds search indices in the organiser's on-disk format: Chroma collections inside a Hugging Face cache.

The slow part, embedding, goes into the embedding cache batch by batch and survives a kill at any point. The collection
itself is then written from the cache in one go (seconds for 10,000 vectors) into a work folder which is renamed into
the hub once it is whole: a kill leaves a work folder that the next run removes, so nothing can be
lost or doubled.

Traps of the organiser's package that the format answers: ``collection.get()`` gives insertion order and image data is
looked up by position, so ids "0", "1", ... inserted in order; without ``hnsw:space = cosine`` scores would be L2.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from filelock import FileLock
from PIL import Image
from tqdm import tqdm

from agents.base.files import annotate_os_error, one_line, parse_json, shorten_name
from agents.base.sqlite_faults import find_errno, get_kind
from agents.base.worker_processes import Each, map_locally
from agents.models.base import FloatArray
from agents.models.picture_files import read_picture_file
from agents.search.embedding_cache import EmbeddingCache, cache_key
from agents.search.hits import SearchError
from agents.search.hub import point, publish, remove_snapshot, repository_folder, snapshot_path, working_copy
from agents.search.index_sources import KIND, THING, ChunkRow, ImageRow

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

IMAGE_COLLECTION = "image_embeddings"
WEB_COLLECTION = "web_search_embeddings"
MANIFEST = "manifest.json"
_DATABASE = "chroma.sqlite3"

_T = TypeVar("_T")
_FORMAT = 1
_PAGE_BYTES = 8192
_WRITE_BATCH = 2000  # rows a Chroma call; its own limit is about 5,400
_SQLITE_CODE = re.compile(r"\(code: (\d+)\)")  # in Chroma's message about its database


class Encoder(Protocol):
    """Embeds the contents of an index; `agents.search.encoders` has them."""

    @property
    def fingerprint(self) -> str:
        """A hash of the weights and of how they are used."""

    def embed(self, contents: Any) -> FloatArray:
        """Embeddings, shape (len(contents), dimensions), each of length 1."""


@dataclass(frozen=True)
class Manifest:
    """Manifest of an index, written beside it."""

    collection: str  # the Chroma collection
    count: int  # its rows
    dimensions: int  # of each embedding
    model: str  # fingerprint of the encoder
    content: str  # SHA-256 over ids, metadata and embedded contents, in order
    format: int = _FORMAT  # version of the way indices are written
    languages: tuple[str, ...] = ()  # ISO 639-1 codes of the languages of one's own pages, the most frequent first
    things: int = 0  # rows that are things of a table, not parts of pages
    files: Mapping[str, str] = field(
        default_factory=dict, compare=False
    )  # SHA-256 of the files of vectors, by their paths

    @property
    def revision(self) -> str:
        """40 hexadecimal digits: the same content and model have the same revision."""
        return hashlib.sha1(json.dumps(self.as_json(), sort_keys=True).encode(), usedforsecurity=False).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """Return what identifies it; without languages and things if there are none, so that an index without them keeps its revision."""
        fields = asdict(self)
        del fields["files"]
        return {name: value for name, value in fields.items() if value or name not in ("languages", "things")}

    @classmethod
    def read(cls, snapshot: Path) -> Manifest | None:
        """Read the manifest of a snapshot.

        Returns:
            None for a snapshot not built here.
        """
        try:
            fields = parse_json((snapshot / MANIFEST).read_bytes())
            return cls(**{**fields, "languages": tuple(fields.get("languages", ()))})
        except (OSError, ValueError, TypeError, AttributeError):
            return None


@dataclass(frozen=True)
class BuiltIndex:
    """A published index."""

    path: Path | str  # its snapshot, or where else it is
    manifest: Manifest  # its contents
    embedded: int  # contents embedded in this run; the rest came from the cache
    fresh: bool  # whether it was written in this run; False where it was there already
    left_out: tuple[str, ...] = ()  # images that cannot be decoded, and why


@dataclass(frozen=True)
class Row:
    """A row of a collection; ``key`` is that of its vector in the embedding cache."""

    id: str
    metadata: Mapping[str, str]
    key: bytes


_Contents = Sequence[tuple[bytes, str | Path]]
"""Texts, or the files of images, by their keys in the embedding cache."""


@dataclass(frozen=True)
class IndexBuilder:
    """Embeds rows into indices and publishes them. Run again after a kill, it resumes.

    Its methods raise SearchError if there are no rows, or the data set id has another form than ORG/NAME; OSError if files cannot be
    written.
    """

    hub: Path  # where to publish
    cache: EmbeddingCache  # embeddings by content
    batch_size: int = 16  # contents in one pass
    progress: bool = True  # show progress bars
    # Embeds the batches, by an encoder that has to be picklable where other processes do so (``agents.base.worker_processes``)
    each: Each = map_locally

    def images(self, rows: Sequence[ImageRow], encoder: Encoder, dataset_id: str) -> BuiltIndex:
        """Build the index of images; each image is read when it is embedded. Images that cannot be decoded are left out.

        Raises:
            SearchError: See the class; or no image can be decoded, and the message names them.
        """
        keys = [image_key(encoder, row) for row in rows]
        files: dict[bytes, list[Path]] = {}  # the same picture may be there several times
        for key, row in zip(keys, rows, strict=True):
            files.setdefault(key, []).append(row.path)
        missing = sorted(self.cache.missing(files), key=lambda key: files[key])
        broken = self._embed("image", [(key, files[key][0]) for key in missing], encoder)
        left_out = tuple(
            f"{path}: {problem}; save it as JPEG, PNG or WebP"
            for key, problem in broken.items()
            for path in dict.fromkeys(files[key])
        )
        kept = [(key, row) for key, row in zip(keys, rows, strict=True) if key not in broken]
        if rows and not kept:
            raise SearchError("\n".join(["no image can be decoded:", *left_out]))
        stored = [Row(str(position), _image_metadata(row), key) for position, (key, row) in enumerate(kept)]
        embedded = len(missing) - len(broken)
        return replace(
            self._publish(stored, IMAGE_COLLECTION, encoder.fingerprint, dataset_id, embedded), left_out=left_out
        )

    def chunks(
        self, rows: Sequence[ChunkRow], encoder: Encoder, dataset_id: str, languages: Sequence[str] = ()
    ) -> BuiltIndex:
        """Build the index of chunks of pages, and embed the chunks sorted by length. ``languages`` are kept beside it.

        Raises:
            SearchError: See the class; or different sources have pages with the same URL.
        """
        counts = Counter(row.id for row in rows)
        repeated = dict.fromkeys(row.page_url for row in rows if counts[row.id] > 1)
        if repeated:
            raise SearchError(
                f"{len(repeated)} pages are in several sources, such as {shorten_name(next(iter(repeated)))}; "
                "leave one of them out, or put --base-url URL before the paths of documents"
            )
        stored: list[Row] = []
        texts: dict[bytes, str] = {}
        for row in rows:
            key = text_key(encoder, row)
            texts[key] = row.embedded_text
            metadata = {"page_name": row.page_name, "page_snippet": row.page_snippet, "page_url": row.page_url}
            if row.is_thing:
                metadata |= {KIND: THING}
            stored.append(Row(row.id, metadata, key))
        missing = sorted(self.cache.missing(texts), key=lambda key: (len(texts[key]), texts[key]))
        self._embed("text", [(key, texts[key]) for key in missing], encoder)
        return self._publish(stored, WEB_COLLECTION, encoder.fingerprint, dataset_id, len(missing), tuple(languages))

    def _embed(self, unit: str, contents: _Contents, encoder: Encoder) -> dict[bytes, str]:
        """Embed contents batch by batch and store each batch. Returns why images could not be decoded."""
        broken: dict[bytes, str] = {}
        with tqdm(total=len(contents), desc=f"{unit}s", unit=unit, disable=not self.progress) as bar:
            for vectors, problems in self.each(partial(_embed_batch, encoder), batches(contents, self.batch_size)):
                self.cache.store(vectors)
                broken |= problems
                bar.update(len(vectors) + len(problems))
        return broken

    def _publish(
        self,
        rows: Sequence[Row],
        collection: str,
        model: str,
        dataset_id: str,
        embedded: int,
        languages: tuple[str, ...] = (),
    ) -> BuiltIndex:
        if not rows:
            raise SearchError(f"{dataset_id} cannot be built: its sources have no rows")
        folder = repository_folder(self.hub, dataset_id)
        folder.mkdir(parents=True, exist_ok=True)
        things = sum(row.metadata.get(KIND) == THING for row in rows)
        dimensions = int(self.cache.load([rows[0].key]).shape[1])
        manifest = Manifest(
            collection, len(rows), dimensions, model, content_hash(rows), languages=languages, things=things
        )
        with FileLock(folder / ".building.lock"):
            snapshot = snapshot_path(self.hub, dataset_id, manifest.revision)
            if (
                (earlier := Manifest.read(snapshot)) == manifest
                and earlier is not None
                and _is_whole(snapshot, earlier)
            ):
                # This also renews the time of ``main``: the default split is the one indexed last.
                point(self.hub, dataset_id, manifest.revision)
                return BuiltIndex(snapshot, manifest, embedded, fresh=False)
            work = folder / ".building"
            shutil.rmtree(work, ignore_errors=True)  # left by a killed run; no other is at work, since we have the lock
            work.mkdir()
            with _explain_write_faults(work):
                self._write_collection(work, rows, manifest)
                _compact(work)
            fields = {**manifest.as_json(), "files": _hash_files(work)}
            (work / MANIFEST).write_text(json.dumps(fields, indent=2), encoding="utf-8")
            if snapshot.is_dir():  # damaged, or without its manifest
                remove_snapshot(snapshot)
            publish(self.hub, dataset_id, manifest.revision, work)
            _remove_older(snapshot)
        return BuiltIndex(snapshot, manifest, embedded, fresh=True)

    def _write_collection(self, folder: Path, rows: Sequence[Row], manifest: Manifest) -> None:
        with chroma(folder) as client:
            collection = client.create_collection(manifest.collection, metadata={"hnsw:space": "cosine"})
            with tqdm(total=len(rows), desc=manifest.collection, unit="row", disable=not self.progress) as bar:
                for batch in batches(rows, _WRITE_BATCH):
                    collection.add(
                        ids=[row.id for row in batch],
                        embeddings=self.cache.load([row.key for row in batch]),
                        metadatas=[dict(row.metadata) for row in batch],
                    )
                    bar.update(len(batch))
            if collection.count() != manifest.count:
                raise SearchError(f"{manifest.collection} has {collection.count()} rows instead of {manifest.count}")


def image_key(encoder: Encoder, row: ImageRow) -> bytes:
    """Compute the key of an image's vector in the embedding cache.

    Raises:
        OSError: The image's file cannot be read.
    """
    return cache_key(encoder.fingerprint, b"image:" + _hash_file(row.path))


def _hash_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def text_key(encoder: Encoder, row: ChunkRow) -> bytes:
    """Compute the key of a chunk's vector in the embedding cache."""
    return cache_key(encoder.fingerprint, b"text:" + row.embedded_text.encode("utf-8", errors="surrogatepass"))


def _embed_batch(encoder: Encoder, batch: _Contents) -> tuple[dict[bytes, FloatArray], dict[bytes, str]]:
    """Embed a batch.

    Returns:
        The vectors by key, and for each missing one why its content could not be read.
    """
    read: dict[bytes, str | Image.Image] = {}
    broken: dict[bytes, str] = {}
    for key, content in batch:
        try:
            read[key] = content if isinstance(content, str) else read_picture_file(content)
        except (OSError, ValueError) as error:
            broken[key] = one_line(error)
    vectors = encoder.embed([*read.values()]) if read else ()
    return dict(zip(read, vectors, strict=True)), broken


def _image_metadata(row: ImageRow) -> dict[str, str]:
    return {
        "image_url": row.url,
        "entities": json.dumps([entity.name for entity in row.entities], ensure_ascii=False),
        "info": json.dumps({entity.name: entity.attributes for entity in row.entities}, ensure_ascii=False),
    }


def read_rows(hub: Path, dataset_id: str) -> list[Mapping[str, Any]]:
    """Read the metadata of all rows of a published index, from this process's copy of it.

    Raises:
        SearchError: No index is published under this id, or it is damaged.
    """
    from chromadb.errors import ChromaError

    snapshot = working_copy(hub, dataset_id)
    try:
        with chroma(snapshot) as client:
            return [
                row
                for collection in client.list_collections()
                for row in client.get_collection(collection.name).get(include=["metadatas"])["metadatas"] or ()
            ]
    except (ChromaError, sqlite3.Error) as error:
        raise explain_damage(hub, [dataset_id], error) from error


@contextlib.contextmanager
def chroma(folder: Path) -> Iterator[ClientAPI]:
    """Yield a client of a Chroma folder and release the folder's files in the end."""
    import chromadb
    from chromadb.api.client import SharedSystemClient
    from chromadb.config import Settings

    try:
        yield chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))
    finally:
        SharedSystemClient.clear_system_cache()  # clients of Chroma 1.4 cannot be closed; those in use stay as they are


@contextlib.contextmanager
def _explain_write_faults(folder: Path) -> Iterator[None]:
    """Raise faults of Chroma and of SQLite while an index is written as an OSError of one line."""
    from chromadb.errors import ChromaError

    try:
        yield
    except (ChromaError, sqlite3.Error) as error:
        reason = one_line(error)
        code = int(match[1]) if (match := _SQLITE_CODE.search(reason)) else get_kind(error)
        errno = find_errno(code)
        with annotate_os_error(f"writing the index in {folder}"):
            raise (OSError(reason) if errno is None else OSError(errno, reason)) from error


def _compact(folder: Path) -> None:
    """Halve Chroma's file, which each process copies, by giving back the pages of its queue, and by larger pages.

    Chroma has an SQL index of metadata, in which a chunk's text takes a page of its own as long as pages are of 4 KiB.
    """
    with contextlib.closing(sqlite3.connect(folder / _DATABASE)) as database:
        database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        database.execute("VACUUM")


def _hash_files(folder: Path) -> dict[str, str]:
    """Hash the files of vectors of a Chroma folder, by their paths in it; whoever opens the folder changes its database."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in (_DATABASE, MANIFEST))
    return {path.relative_to(folder).as_posix(): _hash_file(path).hex() for path in files}


def _is_whole(snapshot: Path, manifest: Manifest) -> bool:
    """Return whether the files of an index are as they were written, so far as a check of seconds can tell."""
    try:
        with contextlib.closing(sqlite3.connect(f"{(snapshot / _DATABASE).as_uri()}?mode=ro", uri=True)) as database:
            checked = database.execute("PRAGMA quick_check").fetchone() == ("ok",)
            counted = database.execute("SELECT COUNT(*) FROM embeddings").fetchone() == (manifest.count,)
        return checked and counted and _hash_files(snapshot) == manifest.files
    except (sqlite3.Error, OSError):
        return False


def explain_damage(hub: Path, dataset_ids: Iterable[str], error: Exception) -> SearchError:
    """Return the error of an index that cannot be opened: where it is, and how it is mended."""
    folders = ", ".join(str(repository_folder(hub, dataset_id)) for dataset_id in dataset_ids)
    return SearchError(
        f"the index cannot be opened ({type(error).__name__}: {one_line(error)}); if a file is damaged, build it again from the vectors "
        f"that are kept: crag index COLLECTION, or python -m mini_crag_mm.prepare. It is in {folders}"
    )


def content_hash(rows: Sequence[Row]) -> str:
    """Hash ids, metadata and embedded contents of rows, in order."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps([row.id, row.metadata, row.key.hex()], sort_keys=True).encode())
    return digest.hexdigest()


def _remove_older(snapshot: Path) -> None:
    """Earlier snapshots of the same data set built here; processes serve from copies of them."""
    for other in list(snapshot.parent.iterdir()):
        if other != snapshot and Manifest.read(other) is not None:
            remove_snapshot(other)


def batches(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Cut a sequence into pieces of at most ``size`` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
