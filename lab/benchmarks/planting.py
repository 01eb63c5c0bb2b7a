"""Searches in which an attacker has planted something: pages beside those of the real index, values and names in the real graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from PIL import Image

from agents.search.encoders import TextIndexEncoder
from agents.search.hits import Entity, ImageHit, Results, WebHit
from agents.search.index_sources import ChunkRow
from agents.search.searchers import ReadySearch, image_searcher, web_searcher
from agents.time_limits.deadline import NO_DEADLINE, Deadline


@dataclass(frozen=True)
class PlantedContent:
    """What an attacker planted: pages, attributes by the entity's name, and new names by the old ones."""

    pages: tuple[WebHit, ...] = ()
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def entity(self, entity: Entity) -> Entity:
        """Return an entity as the poisoned graph has it."""
        attributes = {**entity.attributes, **self.attributes.get(entity.name, {})}
        return Entity(self.names.get(entity.name, entity.name), attributes)


class PlantedSearch:
    """The organiser's pipeline with ``planted`` added to it; planted pages compete by the index's own embedding.

    ``ready`` is what the agent takes for a pipeline. Change ``planted`` between batches, never within one.
    """

    def __init__(self, pipeline: Any) -> None:
        self.planted = PlantedContent()
        self._encoder = TextIndexEncoder(pipeline.text_model, pipeline.text_tokenizer)
        self.ready = ReadySearch(
            _PlantedImages(image_searcher(pipeline), self),
            _PlantedPages(web_searcher(pipeline), self),
            image_search=True,
            web_search=True,
            picture_folder=getattr(pipeline, "picture_folder", None),
            page_folder=getattr(pipeline, "page_folder", None),
        )

    def scores(self, queries: Sequence[str]) -> np.ndarray[Any, Any]:
        """Return the cosine of each query to each planted page, shape (queries, pages)."""
        rows = [ChunkRow(page.index, page.page_name, page.page_snippet, page.page_url) for page in self.planted.pages]
        vectors = [self._encoder.embed(texts) for texts in (queries, [row.embedded_text for row in rows])]
        first, second = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in vectors)
        cosines: np.ndarray[Any, Any] = first @ second.T
        return cosines


@dataclass(frozen=True)
class _PlantedPages:
    inner: Any
    search_of: PlantedSearch

    def search(self, queries: Sequence[str], k: int, deadline: Deadline = NO_DEADLINE) -> list[Results[WebHit]]:
        results: list[Results[WebHit]] = self.inner.search(queries, k, deadline)
        pages = self.search_of.planted.pages
        if not pages:
            return results
        planted_results = []
        for one, cosines in zip(results, self.search_of.scores(queries), strict=True):
            planted = (replace(page, score=float(score)) for page, score in zip(pages, cosines, strict=True))
            hits = sorted((*one.hits, *planted), key=lambda hit: -hit.score)[:k]
            planted_results.append(replace(one, hits=tuple(hits)))
        return planted_results


@dataclass(frozen=True)
class _PlantedImages:
    inner: Any
    search_of: PlantedSearch

    def search(
        self, queries: Sequence[Image.Image], k: int, deadline: Deadline = NO_DEADLINE
    ) -> list[Results[ImageHit]]:
        planted = self.search_of.planted
        results: list[Results[ImageHit]] = self.inner.search(queries, k, deadline)
        return [
            replace(
                one, hits=tuple(replace(hit, entities=tuple(map(planted.entity, hit.entities))) for hit in one.hits)
            )
            for one in results
        ]
