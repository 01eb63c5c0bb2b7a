"""Batches of images or texts through a pipeline: by the public parts of the organiser's, put together again, else one call a query.

What the parts compute is what ``cragmm_search`` 0.5.1 computes for one query (search.py, image_search.py, web_search.py):
embedding of length 1, vector query, score = 1 - cosine distance, chunks merged by what stands before ``_chunk``.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np
from PIL import Image

from agents.models.base import FloatArray
from agents.search.encoders import embed_images, embed_texts
from agents.search.hits import Hit, ImageHit, Results, SearchError, WebHit, image_results, web_results

IMAGE_BATCH, TEXT_BATCH = 32, 64  # pictures and queries in one pass of their models

_PAGE_FIELDS = {"page_name": "get_page_name", "page_snippet": "get_page_snippet", "page_url": "get_page_url"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImageParts:
    """Image search in batches."""

    model: Any
    processor: Any
    collection: Any
    kg: Any
    device: Any

    @classmethod
    def of(cls, pipeline: Any) -> ImageParts | None:
        """The parts of a pipeline, or None where it is not built like the organiser's."""
        model, kg = getattr(pipeline, "image_model", None), getattr(pipeline, "crag_image_kg", None)
        processor, collection = getattr(pipeline, "image_processor", None), getattr(pipeline, "image_collection", None)
        complete = (
            callable(getattr(model, "get_image_features", None))
            and callable(processor)
            and callable(getattr(collection, "query", None))
            and all(callable(getattr(kg, name, None)) for name in ("get_image_url", "get_entity_name", "get_entity"))
        )
        if not complete:
            return None
        return cls(model, processor, collection, kg, _device(pipeline, model))

    def search(self, images: Sequence[Image.Image], k: int, fetch: int) -> list[Results[ImageHit]]:
        """Results of RGB images; ``fetch`` has no meaning here; Exception: whatever the model or the collection raises."""
        del fetch
        vectors = embed_images(self.model, self.processor, images, self.device, IMAGE_BATCH)
        return [
            image_results([self._hit(int(identity), score) for identity, score in nearest])
            for nearest in _nearest(self.collection, vectors, k)
        ]

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


@dataclass(frozen=True)
class WebParts:
    """Web search in batches."""

    model: Any
    tokenizer: Any
    web: Any
    device: Any
    private_content: str | None

    @classmethod
    def of(cls, pipeline: Any) -> WebParts | None:
        """The parts of a pipeline, or None where it has no web search or is not built like the organiser's."""
        model, tokenizer = getattr(pipeline, "text_model", None), getattr(pipeline, "text_tokenizer", None)
        web = getattr(pipeline, "text_web", None)
        complete = (
            callable(model)
            and callable(tokenizer)
            and callable(getattr(getattr(web, "vector_db", None), "query", None))
            and all(callable(getattr(web, name, None)) for name in _PAGE_FIELDS.values())
        )
        if not complete:
            return None
        private = getattr(pipeline, "web_content_private", None) if getattr(pipeline, "is_private", False) else None
        return cls(model, tokenizer, web, _device(pipeline, model), private)

    def search(self, queries: Sequence[str], k: int, fetch: int) -> list[Results[WebHit]]:
        """Results of texts, ``fetch`` chunks merged into at most k pages; Exception: whatever the model or the collection raises."""
        vectors = embed_texts(self.model, self.tokenizer, queries, self.device, TEXT_BATCH)
        return [
            web_results([self._hit(identity, score) for identity, score in merge_chunks(nearest)[:k]])
            for nearest in _nearest(self.web.vector_db, vectors, fetch)
        ]

    def _hit(self, index: str, score: float) -> dict[str, Any]:
        return {"index": index, "score": score, **dict(self._public(index)), **self._private(index)}

    def _public(self, index: str) -> Iterator[tuple[str, Any]]:
        for field, getter in _PAGE_FIELDS.items():
            try:
                yield field, getattr(self.web, getter)(index)
            except (KeyError, TypeError):
                continue  # the conversion drops the hit, and says so, unless the private content has the field

    def _private(self, index: str) -> Mapping[str, Any]:
        """The page of a pipeline whose content is in a separate store; empty where the store lacks it."""
        if self.private_content is None:
            return {}
        import lmdb
        from cragmm_search.utils import lookup_web_content

        try:
            content = lookup_web_content(self.private_content, self.web.get_page_url(index))
        except (KeyError, OSError, ValueError, lmdb.Error, json.JSONDecodeError):
            return {}
        return content if isinstance(content, Mapping) else {}


def merge_chunks(chunks: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The nearest chunk of each page, nearest page first (web_search.py: what stands before ``_chunk`` is the page)."""
    pages: dict[str, tuple[str, float]] = {}
    for index, score in chunks:
        pages.setdefault(index.split("_chunk")[0], (index, score))
    return sorted(pages.values(), key=lambda chunk: chunk[1], reverse=True)


def _nearest(collection: Any, vectors: FloatArray, n: int) -> list[list[tuple[str, float]]]:
    """For each vector its n nearest ids with their scores, in one query."""
    if not np.isfinite(vectors).all():
        raise SearchError("the embedding is not finite")
    found = collection.query(query_embeddings=vectors, n_results=n, include=["distances"])
    return [
        [(identity, 1.0 - distance) for identity, distance in zip(identities, distances, strict=True)]
        for identities, distances in zip(found["ids"], found["distances"], strict=True)
    ]


def _device(pipeline: Any, model: Any) -> Any:
    return getattr(pipeline, "device", None) or getattr(model, "device", None)


class PlainSearch(Generic[Hit]):
    """Search by plain calls: ``pipeline(query, k=k)`` gives a list of result dicts."""

    def __init__(self, pipeline: Any, convert: Callable[[Any], Results[Hit]]) -> None:
        self._pipeline = pipeline
        self._convert: Callable[[Any], Results[Hit]] = convert

    def search(self, queries: Sequence[Image.Image | str], k: int, fetch: int) -> list[Results[Hit]]:
        """Results of each query; a call that fails gives an error."""
        found: list[Results[Hit]] = []
        for query in queries:
            try:
                asked = as_text(query) if isinstance(query, str) else query
                results = self._convert(self._pipeline(asked, k=fetch))
                found.append(results if len(results.hits) <= k else replace(results, hits=results.hits[:k]))
            except Exception as error:  # noqa: BLE001 - a foreign pipeline raises anything; the other queries must be answered
                _log.warning("a search failed: %r", error)
                found.append(Results(error=reason(error)))
        return found


def as_text(query: str) -> str:
    """The query, quoted where the pipeline would fetch or open it as URL or file; SearchError for a file's name even in quotes."""
    if not (query.strip().lower().startswith("http") or _is_file(query)):
        return query
    quoted = f'"{query.strip()}"'
    if _is_file(quoted):
        raise SearchError("the query is the name of a file")
    return quoted


def reason(error: Exception) -> str:
    """An exception in one line, for the trace."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}"[:300] if said else type(error).__name__


def _is_file(text: str) -> bool:
    # Pipelines that strip their input would see the stripped name.
    return os.path.isfile(text) or os.path.isfile(text.strip())  # noqa: PTH113 - never raises on NUL or over-long names
