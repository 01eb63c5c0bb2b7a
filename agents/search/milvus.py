"""Search in a Milvus database: kind ``milvus`` of ``[search]``. ``crag index --to URL`` writes there (``milvus_target``).

An index is a collection, found by its alias, which is made of its data set id. The collection's own name also says by which encoder it was
embedded, and how it is stored: another encoder or another kind of index makes another collection, and the alias moves once that is whole.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from PIL import Image

from agents.base.files import one_line
from agents.base.revisions import MAIN, with_revision
from agents.models.base import FloatArray
from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder
from agents.search.hits import Hit, ImageHit, Results, SearchError, WebHit, image_results, web_results
from agents.search.searchers import merge_chunks
from agents.time_limits.deadline import NO_DEADLINE, Deadline

if TYPE_CHECKING:
    from pymilvus import MilvusClient

    from agents.search.index_builder import Encoder

ID, VECTOR, CONTENT = "id", "vector", "content"
"""Fields of every collection: the row's id, its embedding, and a hash of both with the metadata, by which a build knows what changed."""

METADATA = {"image": ("image_url", "entities", "info"), "web": ("page_name", "page_snippet", "page_url")}
"""Further fields by the kind of index: texts, as the organiser's collections have them."""

TOKEN = "MILVUS_TOKEN"
"""Environment variable with the database's token, ``user:password`` or an API key; a secret is no option of a profile."""

CONNECT_SECONDS = 10.0
MOST_SECONDS = 30.0  # of one search, whose deadline may be further away

_SEPARATOR = "__"
_PLAIN_ID = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*/[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
_log = logging.getLogger(__name__)

Content = TypeVar("Content")


class StoredCollection(NamedTuple):
    """What the name of a collection says."""

    alias: str
    model: str  # fingerprint of its encoder
    storage: str  # how its vectors are stored: kind of index and number of shards

    @property
    def name(self) -> str:
        """Name of the collection."""
        return _SEPARATOR.join(self)

    @classmethod
    def read(cls, name: str) -> StoredCollection | None:
        """Read the name of a collection; None for one that was not built here."""
        parts = name.rsplit(_SEPARATOR, 2)
        return cls(*parts) if len(parts) == 3 else None


def format_alias(dataset_id: str) -> str:
    """Spell a data set id as the alias of its collection: letters, digits and single underscores.

    A hash follows if the id has more than words between hyphens: ``a.b`` and ``a-b`` are two.
    """
    alias = re.sub(r"[\W_]+", "_", dataset_id, flags=re.ASCII)
    if _PLAIN_ID.fullmatch(dataset_id):
        return alias
    return f"{alias.rstrip('_')}_{hashlib.blake2b(dataset_id.encode(), digest_size=3).hexdigest()}"


def connect(url: str) -> MilvusClient:
    """Connect to a database.

    Args:
        url: ``http://HOST:PORT``, or a path that ends in ``.db``: a database in this process, by the package milvus-lite.

    Raises:
        SearchError: The client library is missing, or nothing answers.
    """
    try:
        from pymilvus import MilvusClient
    except ImportError as error:
        lock = "requirements/vectordb.txt"
        raise SearchError(
            f"kind of search 'milvus' takes pymilvus: pip install --no-deps --require-hashes -r {lock} ({one_line(error)})"
        ) from error
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs with a traceback what it raises
    try:
        with failures(url):
            return MilvusClient(uri=url, token=os.environ.get(TOKEN, ""), timeout=CONNECT_SECONDS)
    except (OSError, ImportError) as error:  # a path without milvus-lite, a folder that cannot be written
        raise SearchError(_explain(url, one_line(error))) from error


@contextmanager
def failures(url: str) -> Iterator[None]:
    """Raise whatever the client raises as a SearchError that says what to do."""
    import grpc
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except MilvusException as error:
        raise SearchError(_explain(url, one_line(error.message))) from error
    except grpc.RpcError as error:
        code = error.code().name if isinstance(error, grpc.Call) else type(error).__name__
        raise SearchError(_explain(url, code)) from error


def _explain(url: str, reason: str) -> str:
    if "DEADLINE_EXCEEDED" in reason:
        return (
            f"the vector database {url} did not answer in time; it may be overloaded: give it replicas, or lower effort"
        )
    if "UNAVAILABLE" in reason or "server unavailable" in reason:
        return f"the vector database {url} cannot be reached: start it, or name another one ({reason})"
    return f"the vector database {url} failed: {reason}"


class MilvusSearch:
    """Kind of search that asks a Milvus database, in one request a batch.

    Args:
        split: As of other commands; ``{split}`` of the ids.
        url: See ``connect``.
        image_model: Encoder of pictures, as of ``crag index``; it has to be the one that the collection was embedded by.
        image_revision: Commit of its hub id.
        text_model: Encoder of texts, likewise.
        text_revision: Commit of its hub id.
        image_index: Data set id of the index of pictures.
        web_index: Data set id of the index of pages.
        image_filter: Expression of Milvus over the fields of ``METADATA``; pictures that it is false for are not found. "": all.
        web_filter: The same for pages, such as ``page_url like "https://museum.example/%"``.
        effort: Neighbours that a search visits (``ef`` of HNSW), or lists that it opens (``nprobe`` of IVF).
    """

    def __init__(
        self,
        split: str,
        url: str = "http://127.0.0.1:19530",
        image_model: str = EFFICIENTNET,
        image_revision: str = MAIN,
        text_model: str = MINILM,
        text_revision: str = MAIN,
        image_index: str = "crag-mm-2025/image-search-index-{split}",
        web_index: str = "crag-mm-2025/web-search-index-{split}",
        image_filter: str = "",
        web_filter: str = "",
        effort: int = 128,
    ) -> None:
        if effort < 1:
            raise SearchError(f"effort has to be at least 1, not {effort}")
        self._url, self._effort = url, effort
        self._client = connect(url)
        self._image_model = with_revision(image_model, image_revision)
        self._text_model = with_revision(text_model, text_revision)
        tag = split.replace("_", "-")
        self._image_index, self._web_index = image_index.format(split=tag), web_index.format(split=tag)
        self._image_filter, self._web_filter = image_filter, web_filter

    @cached_property
    def images(self) -> Collection[Image.Image, ImageHit]:
        """Search for pictures; SearchError if their collection is missing or was embedded by another encoder."""
        alias = self._find("image", self._image_index)
        encoder = ImageIndexEncoder.load(self._image_model)
        return self._open("image", alias, encoder, self._image_filter, _picture_results)

    @cached_property
    def web(self) -> Collection[str, WebHit]:
        """Search for pages, likewise."""
        alias = self._find("web", self._web_index)
        encoder = TextIndexEncoder.load(self._text_model)
        return self._open("web", alias, encoder, self._web_filter, _page_results)

    def _find(self, kind: str, dataset_id: str) -> str:
        """Return the alias of an index.

        Raises:
            SearchError: There is none; the message lists those of the same kind that there are.
        """
        alias = format_alias(dataset_id)
        with failures(self._url):
            if self._client.has_collection(alias, timeout=CONNECT_SECONDS):
                return alias
            stored = [
                each for name in self._client.list_collections() if (each := StoredCollection.read(name)) is not None
            ]
        aliases = ", ".join(sorted({each.alias for each in stored if f"{kind}_search_index" in each.alias}))
        sources, without = {
            "image": ("--images FOLDER --table TABLE.csv", "--no-images"),
            "web": ("--documents FOLDER", "--no-web"),
        }[kind]
        raise SearchError(
            f"there is no {kind} index {alias} in {self._url}; it has {aliases or 'none'}. "
            f"Build it: crag index {sources} --split NAME --to {self._url} (or go without: {without})"
        )

    def _open(
        self,
        kind: str,
        alias: str,
        encoder: ImageIndexEncoder | TextIndexEncoder,
        filter_expression: str,
        convert: Convert[Hit],
    ) -> Collection[Any, Hit]:
        with failures(self._url):
            stored = StoredCollection.read(self._client.describe_collection(alias)["collection_name"])
            self._client.load_collection(alias)  # an engine for one machine forgets after a restart what was loaded
        if stored is not None and stored.model != encoder.fingerprint:
            raise SearchError(
                f"the {kind} index {alias} was embedded by another encoder ({stored.model}, not {encoder.fingerprint}): "
                f"name that one in [search] of the profile, or build the index again with --{encoder.what}-model"
            )
        return Collection(
            self._client, self._url, alias, encoder, METADATA[kind], filter_expression, self._effort, convert
        )


Row = tuple[str, float, Mapping[str, str]]
"""A search result: id, cosine, metadata."""
Convert = Callable[[Sequence[Row]], Results[Hit]]


class Collection(Generic[Content, Hit]):
    """Searcher of one collection.

    Args:
        client: Client of the database.
        url: Where that is, for messages.
        name: Name or alias of the collection.
        encoder: Embeds queries.
        fields: Metadata that hits are made of.
        filter_expression: Expression that hits have to fulfil; "": none.
        effort: See ``MilvusSearch``.
        convert: Makes hits of what was found, best first.
    """

    def __init__(
        self,
        client: MilvusClient,
        url: str,
        name: str,
        encoder: Encoder,
        fields: Sequence[str],
        filter_expression: str,
        effort: int,
        convert: Convert[Hit],
    ) -> None:
        self._client, self._url, self._name, self._encoder = client, url, name, encoder
        self._fields, self._filter, self._effort = list(fields), filter_expression, effort
        self._convert: Convert[Hit] = convert

    def search(self, queries: Sequence[Content], k: int, deadline: Deadline = NO_DEADLINE) -> list[Results[Hit]]:
        """Search for all queries in one request.

        Returns:
            Results of each query. If the database fails, all have its error: asked one by one they would fail again, each after its time.
        """
        vectors = self._encoder.embed(queries)
        if not np.isfinite(vectors).all():
            raise SearchError("the embedding is not finite")
        try:
            rows_by_query = self.search_vectors(vectors, k, deadline)
        except SearchError as error:
            _log.warning("a batch of %d was not searched: %s", len(queries), error)
            return [Results(error=str(error)) for _ in queries]
        return [self._convert(rows) for rows in rows_by_query]

    def search_vectors(self, vectors: FloatArray, k: int, deadline: Deadline = NO_DEADLINE) -> list[list[Row]]:
        """Find the k nearest rows of each vector, best first.

        Args:
            vectors: Shape (queries, dimensions), each of length 1.
            k: Rows for each.
            deadline: Until when the database is waited for, ``MOST_SECONDS`` at most.

        Raises:
            SearchError: The database fails, or no time is left.
        """
        seconds = min(deadline.left(), MOST_SECONDS)
        if seconds <= 0:
            raise SearchError("no time is left to search")
        with failures(self._url):
            hits_by_query = self._client.search(
                self._name,
                data=[*vectors],
                anns_field=VECTOR,
                limit=k,
                filter=self._filter,
                output_fields=self._fields,
                search_params={"params": {"ef": max(self._effort, k), "nprobe": self._effort}},
                timeout=seconds,
            )
        return [[(hit["id"], float(hit["distance"]), hit["entity"]) for hit in hits] for hits in hits_by_query]


def _picture_results(rows: Sequence[Row]) -> Results[ImageHit]:
    return image_results([_picture(*row) for row in rows])


def _picture(identity: str, score: float, stored: Mapping[str, str]) -> dict[str, Any]:
    try:
        names, attributes_by_entity = json.loads(stored["entities"]), json.loads(stored["info"])
        entities = [{"entity_name": name, "entity_attributes": attributes_by_entity.get(name, {})} for name in names]
    except (KeyError, TypeError, ValueError, AttributeError):
        return {"index": identity, "score": score}  # written by others: the conversion drops this hit, and says so
    return {"index": identity, "score": score, "url": stored.get("image_url"), "entities": entities}


def _page_results(rows: Sequence[Row]) -> Results[WebHit]:
    stored = {identity: metadata for identity, _, metadata in rows}
    best = merge_chunks([(identity, score) for identity, score, _ in rows])
    return web_results([{"index": identity, "score": score, **stored[identity]} for identity, score in best])
