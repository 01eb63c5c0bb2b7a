"""Batched search: through the public components of the organiser's pipeline where it has them, else one call for each query.

The parts compute the same as ``cragmm_search`` 0.5.1 for one query (search.py, image_search.py, web_search.py):
embedding of length 1, vector query, score = 1 - cosine distance, chunks merged by the part before ``_chunk``.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from PIL import Image

from agents.models.base import FloatArray
from agents.search.hits import Hit, ImageHit, Results, SearchError, WebHit, image_results, web_results
from agents.search.index_sources import KIND, THING
from agents.time_limits.deadline import NO_DEADLINE, Deadline

IMAGE_BATCH, TEXT_BATCH = 32, 64  # pictures and queries in one pass of their models
_MIN_SIDE = 4  # pixels

_PAGE_FIELDS = {"page_name": "get_page_name", "page_snippet": "get_page_snippet", "page_url": "get_page_url"}
_PAGES: Mapping[str, Any] = {KIND: {"$ne": THING}}  # parts of pages; few indices have other rows
_log = logging.getLogger(__name__)

# Fast tokenizers keep padding and truncation as state and raise "Already borrowed" when two threads use one at once.
_tokenizer_lock = threading.Lock()

Query_contra = TypeVar("Query_contra", contravariant=True)


class Searcher(Protocol[Query_contra, Hit]):
    """Searches for a batch of queries; one that works in this process may take no notice of the deadline."""

    def search(self, queries: Sequence[Query_contra], k: int, deadline: Deadline = NO_DEADLINE) -> list[Results[Hit]]:
        """Results of each query; Exception: whatever models and collections raise."""
        ...


@dataclass
class ReadySearch:
    """Searches made elsewhere, in place of a pipeline and with the attributes that the gateway reads."""

    images: Searcher[Image.Image, ImageHit]
    web: Searcher[str, WebHit]
    image_search: bool
    web_search: bool
    picture_folder: Path | None
    page_folder: Path | None
    own_pages: Path | None = (
        None  # folder with the whole texts of one's own pages (``own_pages``), if they are to be read
    )
    languages: tuple[str, ...] = ()  # of one's own pages, the most frequent first


def image_searcher(pipeline: Any) -> Searcher[Image.Image, ImageHit]:
    """Image search over a pipeline: its own, through its parts, or by plain calls."""
    if isinstance(pipeline, ReadySearch):
        return pipeline.images
    return ImageParts(pipeline) if ImageParts.fits(pipeline) else PlainSearch(pipeline, image_results)


def web_searcher(pipeline: Any) -> Searcher[str, WebHit]:
    """Web search over a pipeline, likewise."""
    if isinstance(pipeline, ReadySearch):
        return pipeline.web
    return WebParts(pipeline) if WebParts.fits(pipeline) else PlainSearch(pipeline, web_results)


def _has_parts(pipeline: Any, *paths: str) -> bool:
    """Return whether a pipeline, and its parts, have all of these attributes, and they are callable."""
    try:
        return all(callable(attrgetter(path)(pipeline)) for path in paths)
    except AttributeError:
        return False


class ImageParts:
    """Image search in batches, by the parts of a pipeline that ``fits``."""

    def __init__(self, pipeline: Any) -> None:
        self.model, self.processor = pipeline.image_model, pipeline.image_processor
        self.collection, self.kg = pipeline.image_collection, pipeline.crag_image_kg
        self.device = _device(pipeline, self.model)

    @staticmethod
    def fits(pipeline: Any) -> bool:
        """Return whether a pipeline is built like the organiser's."""
        parts = "image_model.get_image_features", "image_processor", "image_collection.query"
        graph = "crag_image_kg.get_image_url", "crag_image_kg.get_entity_name", "crag_image_kg.get_entity"
        return _has_parts(pipeline, *parts, *graph)

    def search(
        self,
        queries: Sequence[Image.Image],
        k: int,
        deadline: Deadline = NO_DEADLINE,  # noqa: ARG002 - see ``Searcher``
    ) -> list[Results[ImageHit]]:
        """Results of RGB images; Exception: whatever the model or the collection raises."""
        return [
            image_results([self._hit(int(identity), score) for identity, score in nearest])
            for nearest in _nearest(self.collection, self.embed(queries), k)
        ]

    def embed(self, queries: Sequence[Image.Image]) -> FloatArray:
        """Embed RGB images, shape (images, dimensions)."""
        return embed_images(self.model, self.processor, queries, self.device, IMAGE_BATCH)

    def _hit(self, index: int, score: float) -> dict[str, Any]:
        hit = {"index": index, "score": score}
        try:
            names = self.kg.get_entity_name(index)
            url = self.kg.get_image_url(index)
        except (LookupError, TypeError, ValueError):
            return hit  # broken metadata: the conversion drops this hit, and says so
        entities = [
            {"entity_name": name, "entity_attributes": self._attributes(name)}
            for name in (names if isinstance(names, list) else [names])
        ]
        return {**hit, "url": url, "entities": entities}

    def _attributes(self, name: Any) -> Any:
        try:
            return self.kg.get_entity(name)
        except (KeyError, TypeError):  # named by the image, absent from the graph; the organiser's code fails here
            return {}


class WebParts:
    """Web search in batches, by the parts of a pipeline that ``fits``."""

    def __init__(self, pipeline: Any) -> None:
        self.model, self.tokenizer, self.web = pipeline.text_model, pipeline.text_tokenizer, pipeline.text_web
        self.device = _device(pipeline, self.model)
        private = getattr(pipeline, "is_private", False)
        self.private_content = getattr(pipeline, "web_content_private", None) if private else None
        self.where = _PAGES if getattr(pipeline, "hides_things", False) else None

    @staticmethod
    def fits(pipeline: Any) -> bool:
        """Return whether a pipeline has web search and is built like the organiser's."""
        getters = (f"text_web.{getter}" for getter in _PAGE_FIELDS.values())
        return _has_parts(pipeline, "text_model", "text_tokenizer", "text_web.vector_db.query", *getters)

    def search(
        self,
        queries: Sequence[str],
        k: int,
        deadline: Deadline = NO_DEADLINE,  # noqa: ARG002 - see ``Searcher``
    ) -> list[Results[WebHit]]:
        """Results of texts, the k nearest chunks merged into pages; Exception: whatever the model or the collection raises."""
        return [
            web_results([self._hit(identity, score) for identity, score in merge_chunks(nearest)])
            for nearest in _nearest(self.web.vector_db, self.embed(queries), k, self.where)
        ]

    def embed(self, queries: Sequence[str]) -> FloatArray:
        """Embed texts, shape (texts, dimensions)."""
        return embed_texts(self.model, self.tokenizer, queries, self.device, TEXT_BATCH)

    def _hit(self, index: str, score: float) -> dict[str, Any]:
        return {"index": index, "score": score, **dict(self._public(index)), **self._private(index)}

    def _public(self, index: str) -> Iterator[tuple[str, Any]]:
        for field, getter in _PAGE_FIELDS.items():
            try:
                yield field, getattr(self.web, getter)(index)
            except (KeyError, TypeError):
                continue  # the conversion drops the hit, and says so, unless the private content has the field

    def _private(self, index: str) -> Mapping[str, Any]:
        """Look up the page of a pipeline whose content is in a separate store.

        Returns:
            An empty mapping if the store lacks the page.
        """
        if self.private_content is None:
            return {}
        import lmdb
        from cragmm_search.utils import lookup_web_content

        try:
            content = lookup_web_content(self.private_content, self.web.get_page_url(index))
        except (KeyError, OSError, ValueError, lmdb.Error, json.JSONDecodeError):
            return {}
        return content if isinstance(content, Mapping) else {}


def embed_texts(model: Any, tokenizer: Any, texts: Sequence[str], device: Any, batch_size: int) -> FloatArray:
    """Embeddings, float32, shape (len(texts), dimensions), each of length 1; texts are sorted by length, so that little is padded."""
    from cragmm_search.web_search_mock_api.api.web_search import extract_features

    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    embeddings: FloatArray | None = None
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        with _tokenizer_lock:
            vectors = extract_features(model, tokenizer, [texts[row] for row in rows], device)
        if embeddings is None:
            embeddings = np.empty((len(texts), vectors.shape[1]), dtype=np.float32)
        embeddings[rows] = vectors
    return embeddings if embeddings is not None else np.zeros((0, 0), dtype=np.float32)


def embed_images(model: Any, processor: Any, images: Sequence[Image.Image], device: Any, batch_size: int) -> FloatArray:
    """Embeddings, float32, shape (len(images), dimensions), each of length 1; the images are RGB already."""
    from cragmm_search.image_search_mock_api.image_search import extract_features

    batches = [
        extract_features(model, processor, [*map(_unmistakable, images[start : start + batch_size])], device)
        for start in range(0, len(images), batch_size)
    ]
    return np.concatenate(batches).astype(np.float32, copy=False) if batches else np.zeros((0, 0), dtype=np.float32)


def _unmistakable(image: Image.Image) -> Image.Image:
    """Enlarge an image if one of its sides could be taken for the three colour channels.

    CLIP's processor guesses the order of an array's axes from their lengths, and for a whole batch from its first image:
    a picture of 1 x 1 pixels raises, one of 3 x 500 is read sideways, and either spoils the pictures after it.
    """
    width, height = (max(side, _MIN_SIDE) for side in image.size)
    return image if (width, height) == image.size else image.resize((width, height), Image.Resampling.NEAREST)


def merge_chunks(chunks: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Keep the nearest chunk of each page, nearest page first.

    The part before ``_chunk`` in an index is the page (web_search.py).
    """
    pages: dict[str, tuple[str, float]] = {}
    for index, score in chunks:
        pages.setdefault(index.split("_chunk")[0], (index, score))
    return sorted(pages.values(), key=lambda chunk: chunk[1], reverse=True)


def _nearest(
    collection: Any, vectors: FloatArray, n: int, where: Mapping[str, Any] | None = None
) -> list[list[tuple[str, float]]]:
    """Find the n nearest ids of each vector, with their scores, in one query; only of rows that fit ``where``, if given."""
    if not np.isfinite(vectors).all():
        raise SearchError("the embedding is not finite")
    only = {} if where is None else {"where": where}
    results = collection.query(query_embeddings=vectors, n_results=n, include=["distances"], **only)
    return [
        [(identity, 1.0 - distance) for identity, distance in zip(identities, distances, strict=True)]
        for identities, distances in zip(results["ids"], results["distances"], strict=True)
    ]


def _device(pipeline: Any, model: Any) -> Any:
    return getattr(pipeline, "device", None) or getattr(model, "device", None)


class PlainSearch(Generic[Hit]):
    """Search by plain calls: ``pipeline(query, k=k)`` gives a list of result dicts."""

    def __init__(self, pipeline: Any, convert: Callable[[Any], Results[Hit]]) -> None:
        self._pipeline = pipeline
        self._convert: Callable[[Any], Results[Hit]] = convert

    def search(
        self,
        queries: Sequence[Image.Image | str],
        k: int,
        deadline: Deadline = NO_DEADLINE,  # noqa: ARG002 - see ``Searcher``
    ) -> list[Results[Hit]]:
        """Results of each query; a call that fails gives an error."""
        all_results: list[Results[Hit]] = []
        for query in queries:
            try:
                pipeline_input = as_text(query) if isinstance(query, str) else query
                results = self._convert(self._pipeline(pipeline_input, k=k))
                all_results.append(replace(results, hits=results.hits[:k]))
            except Exception as error:  # noqa: BLE001 - a foreign pipeline raises anything; the other queries must be answered
                _log.warning("a search failed: %r", error)
                all_results.append(Results(error=reason(error)))
        return all_results


def as_text(query: str) -> str:
    """Quote a query that the pipeline would fetch as a URL or open as a file.

    Returns:
        Any other query as it is.

    Raises:
        SearchError: The query is a file's name even in quotes.
    """
    if not (query.strip().lower().startswith("http") or _is_file(query)):
        return query
    quoted = f'"{query.strip()}"'
    if _is_file(quoted):
        raise SearchError("the query is the name of a file")
    return quoted


def reason(error: Exception) -> str:
    """Format an exception as one line, for the trace."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}"[:300] if message else type(error).__name__


def _is_file(text: str) -> bool:
    # Pipelines that strip their input would see the stripped name.
    return os.path.isfile(text) or os.path.isfile(text.strip())  # noqa: PTH113 - never raises on NUL or over-long names
