"""Look up photos and queries in the indices without answering: entities with their facts, passages with their sources."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from PIL import Image

from agents.search.gateway import SearchGateway
from agents.search.hits import ImageHit, Results, WebHit
from agents.texts.infobox import facts
from agents.texts.text import cut_words
from agents.time_limits.deadline import Deadline

MAX_RESULTS = 20
"""Maximum number of entities and of passages. Every query fetches as many, so that queries of different ``k`` share a batch."""

_MAX_TEXT = 4_000  # characters of a passage: the part of a page that the default agent reads around a hit

Region = tuple[float, float, float, float]
"""Left, top, right and bottom of a part of a photo, as fractions of its width and height."""


@dataclass(frozen=True)
class LookupQuery:
    """A photo, of which ``region`` is searched if given, a text, or both, and the maximum number of results of each."""

    photo: Image.Image | None = None
    region: Region | None = None
    text: str = ""
    k: int = 5


@dataclass(frozen=True)
class FoundEntity:
    """An entity of the image knowledge graph with the cosine and the URL of its most similar picture.

    ``changed``: its photo, table or caption was edited after ``crag index`` read it.
    """

    name: str
    score: float
    url: str
    facts: Mapping[str, str]
    changed: bool = False


@dataclass(frozen=True)
class FoundPassage:
    """The part of a page that matches a query, with its cosine; ``changed``: its file was edited after ``crag index`` read it."""

    text: str
    title: str
    url: str
    score: float
    changed: bool = False


@dataclass(frozen=True)
class Found:
    """Results of one query, most similar first. ``off`` names a search that does not exist here, ``error`` a failure."""

    entities: Sequence[FoundEntity] = ()
    passages: Sequence[FoundPassage] = ()
    off: str = ""
    error: str = ""


@dataclass(frozen=True)
class Lookup:
    """Both searches of a gateway, made for a batch of queries at once.

    Args:
        gateway: Makes the searches; its results are cleaned as those of the stages are.
        name_source: Returns the name for people of a source whose URL is a key of a collection.
        has_changed: Returns whether the file of a source changed after it was indexed, by its URL.
    """

    gateway: SearchGateway
    name_source: Callable[[str], str] = field(default=lambda url: url)
    has_changed: Callable[[str], bool] = field(default=lambda _: False)

    def search(self, queries: Sequence[LookupQuery], deadline: Deadline) -> list[Found]:
        """Search all photos in one batch and all texts in another."""
        photos = [(place, _crop(query.photo, query.region)) for place, query in enumerate(queries) if query.photo]
        texts = [(place, query.text) for place, query in enumerate(queries) if query.text]
        images: dict[int, Results[ImageHit]] = {}
        pages: dict[int, Results[WebHit]] = {}
        if photos and self.gateway.image_enabled:
            results = self.gateway.search_images([photo for _, photo in photos], MAX_RESULTS, deadline=deadline)
            images = {place: found for (place, _), found in zip(photos, results, strict=True)}
        if texts and self.gateway.web_enabled:
            found_pages = self.gateway.search_web([text for _, text in texts], MAX_RESULTS, deadline=deadline)
            pages = {place: found for (place, _), found in zip(texts, found_pages, strict=True)}
        return [self._join(query, images.get(place), pages.get(place)) for place, query in enumerate(queries)]

    def _join(self, query: LookupQuery, images: Results[ImageHit] | None, pages: Results[WebHit] | None) -> Found:
        if query.photo is not None and images is None:
            return Found(off="picture search")
        if query.text and pages is None:
            return Found(off="page search")
        errors = [results.error for results in (images, pages) if results is not None and results.error is not None]
        return Found(
            self._list_entities(() if images is None else images.hits, query.k),
            [self._make_passage(hit) for hit in (() if pages is None else pages.hits[: query.k])],
            error="; ".join(errors),
        )

    def _list_entities(self, hits: Sequence[ImageHit], k: int) -> list[FoundEntity]:
        """List the entities of the hits, each name once, with its best picture."""
        entities: dict[str, FoundEntity] = {}
        for hit in hits:
            for entity in hit.entities:
                if len(entities) < k and entity.name not in entities:
                    url, changed = self.name_source(hit.url), self.has_changed(hit.url)
                    entities[entity.name] = FoundEntity(
                        entity.name, hit.score, url, dict(facts(entity.attributes)), changed
                    )
        return list(entities.values())

    def _make_passage(self, hit: WebHit) -> FoundPassage:
        text = cut_words(hit.page_snippet or hit.page_text or "", _MAX_TEXT)
        url = hit.page_url
        return FoundPassage(text, hit.page_name, self.name_source(url), hit.score, self.has_changed(url))


def _crop(photo: Image.Image, region: Region | None) -> Image.Image:
    """Cut a region out of a photo; it has at least one pixel."""
    if region is None:
        return photo
    width, height = photo.size
    left, top = min(int(region[0] * width), width - 1), min(int(region[1] * height), height - 1)
    right, bottom = max(round(region[2] * width), left + 1), max(round(region[3] * height), top + 1)
    return photo.crop((left, top, right, bottom))
