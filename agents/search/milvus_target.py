"""Writes indices into a Milvus database: ``crag index --to URL``. What has not changed stays; a killed run goes on where it was."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from agents.base.files import well_formed
from agents.search.embedding_cache import EmbeddingCache
from agents.search.hits import SearchError
from agents.search.index_builder import IMAGE_COLLECTION, BuiltIndex, Manifest, Row, batches, content_hash
from agents.search.milvus import CONTENT, ID, METADATA, VECTOR, StoredCollection, connect, failures, format_alias

if TYPE_CHECKING:
    from pymilvus import MilvusClient

_WRITE_BATCH = 1_000  # rows a request: 4 MB of vectors of 1,024 dimensions, well below the 64 MB that a server takes
_READ_BATCH = 10_000  # ids a request
_WRITE_SECONDS = 300.0  # for one request; a database that compacts takes its time
_MOST_BYTES = 65_535  # of a text in Milvus
_CUT = frozenset({"page_snippet", "page_name"})  # texts that may be cut at that length
_GRAPH = {"M": 16, "efConstruction": 100}  # of HNSW, as Chroma has it


class MilvusTarget:
    """Brings collections of a database to the state of an index.

    Args:
        url: See ``agents.search.milvus.connect``.
        index: Kind of index of the vectors: ``HNSW``, ``HNSW_SQ``, ``IVF_FLAT`` or ``IVF_SQ8``.
        shards: Shards of a collection.
        progress: Whether progress bars are shown.
    """

    def __init__(self, url: str, index: str = "HNSW", shards: int = 1, progress: bool = True) -> None:
        self._url, self._index, self._shards, self._progress = url, index, shards, progress
        self._client: MilvusClient | None = None

    def open(self) -> None:
        """Connect; SearchError if nothing answers."""
        self._client = connect(self._url)

    def publish(
        self, rows: Sequence[Row], cache: EmbeddingCache, collection: str, model: str, dataset_id: str
    ) -> BuiltIndex:
        """Write the rows that are new or changed, delete those that are gone, and let the alias name the collection.

        Raises:
            SearchError: The database fails, or a text is too long for it.
        """
        if self._client is None:
            self.open()
        client = self._client
        assert client is not None
        kind = "image" if collection == IMAGE_COLLECTION else "web"
        dimensions = int(cache.load([rows[0].key]).shape[1])
        manifest = Manifest(collection, len(rows), dimensions, model, content_hash(rows))
        stored = StoredCollection(format_alias(dataset_id), model, f"{self._index.lower()}_{self._shards}")
        with failures(self._url):
            if not client.has_collection(stored.name):
                self._create(client, stored.name, kind, manifest)
            client.load_collection(stored.name, timeout=_WRITE_SECONDS)
            hashes = self._read_contents(client, stored.name)
            changed = [row for row in rows if hashes.get(row.id) != row_hash(row)]
            self._write(client, stored.name, changed, cache)
            stale_ids = [*(hashes.keys() - {row.id for row in rows})]
            for ids in batches(stale_ids, _WRITE_BATCH):
                client.delete(stored.name, ids=[*ids], timeout=_WRITE_SECONDS)
            if changed or stale_ids:
                client.flush(stored.name, timeout=_WRITE_SECONDS)
            self._check_count(client, stored.name, len(rows))
            self._point(client, stored)
        return BuiltIndex(f"{self._url}, collection {stored.name}", manifest, 0, fresh=bool(changed or stale_ids))

    def _create(self, client: MilvusClient, name: str, kind: str, manifest: Manifest) -> None:
        from pymilvus import DataType

        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(ID, DataType.VARCHAR, is_primary=True, max_length=_MOST_BYTES)
        schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=manifest.dimensions)
        for field in (CONTENT, *METADATA[kind]):
            schema.add_field(field, DataType.VARCHAR, max_length=_MOST_BYTES)
        lists = max(1, min(4 * math.isqrt(manifest.count), 65_536))
        settings: dict[str, Any] = {"nlist": lists} if self._index.startswith("IVF") else _GRAPH
        vectors = client.prepare_index_params()
        vectors.add_index(VECTOR, index_type=self._index, metric_type="COSINE", params=settings)
        client.create_collection(
            name, schema=schema, index_params=vectors, num_shards=self._shards, timeout=_WRITE_SECONDS
        )

    def _read_contents(self, client: MilvusClient, name: str) -> dict[str, str]:
        """Read what the collection holds: the hash of each row by its id."""
        hashes: dict[str, str] = {}
        pages = client.query_iterator(
            name, batch_size=_READ_BATCH, filter="", output_fields=[ID, CONTENT], consistency_level="Strong"
        )
        try:
            while page := pages.next():
                hashes |= {row[ID]: row[CONTENT] for row in page}
        finally:
            pages.close()
        return hashes

    def _write(self, client: MilvusClient, name: str, rows: Sequence[Row], cache: EmbeddingCache) -> None:
        with tqdm(total=len(rows), desc=name, unit="row", disable=not self._progress) as bar:
            for batch in batches(rows, _WRITE_BATCH):
                vectors = cache.load([row.key for row in batch])
                data = [_fields(row, vector) for row, vector in zip(batch, vectors, strict=True)]
                client.upsert(name, data, timeout=_WRITE_SECONDS)
                bar.update(len(batch))

    def _check_count(self, client: MilvusClient, name: str, expected: int) -> None:
        counted = client.query(name, filter="", output_fields=["count(*)"], consistency_level="Strong")[0]["count(*)"]
        if counted != expected:
            raise SearchError(
                f"{name} in {self._url} holds {counted} rows instead of {expected}; run the same command again"
            )

    def _point(self, client: MilvusClient, stored: StoredCollection) -> None:
        """Let the alias name a collection, and drop those that it named before."""
        others = [each for name in client.list_collections() if (each := StoredCollection.read(name)) is not None]
        others = [each for each in others if each.alias == stored.alias and each != stored]
        if client.has_collection(stored.alias):
            client.alter_alias(stored.name, stored.alias)
        else:
            client.create_alias(stored.name, stored.alias)
        for each in others:
            client.drop_collection(each.name)


def row_hash(row: Row) -> str:
    """Hash what a row holds: its metadata and the key of its vector."""
    return hashlib.blake2b(
        json.dumps([row.metadata, row.key.hex()], sort_keys=True).encode(), digest_size=16
    ).hexdigest()


def _fields(row: Row, vector: Any) -> dict[str, Any]:
    texts = {name: _fit(name, value, row.id) for name, value in {ID: row.id, **row.metadata}.items()}
    return {**texts, CONTENT: row_hash(row), VECTOR: vector}


def _fit(field: str, text: str, identity: str) -> str:
    """Return a text as the database takes it.

    Raises:
        SearchError: It is too long, and half of it would be of no use.
    """
    text = well_formed(text)
    data = text.encode()
    if len(data) <= _MOST_BYTES:
        return text
    if field in _CUT:
        return data[:_MOST_BYTES].decode(errors="ignore")
    raise SearchError(
        f"row {identity[:200]}: {field} has {len(data)} bytes, and Milvus takes {_MOST_BYTES} at most; shorten it in the sources"
    )
