"""Batched image and web search over the organiser's pipeline or any callable with its contract; all stages search through it."""

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from PIL import Image

from agents.base.cache_folder import default_cache
from agents.base.result_cache import ResultCache
from agents.models.pixels import pixels_digest, to_rgb
from agents.search.hits import Hit, ImageHit, PageText, Results, WebHit
from agents.search.pages.web_cache import PageCache, PictureCache
from agents.search.paths import organiser_pages
from agents.search.provided_context import ProvidedContext
from agents.search.searchers import image_searcher, reason, web_searcher
from agents.time_limits.deadline import NO_DEADLINE, Deadline
from agents.time_limits.subprocess_worker import SubprocessWorker

_log = logging.getLogger(__name__)

_CACHE_SIZE = 512  # pictures whose results are kept: photos and their crops
_MAX_NAMED = 3  # search results that break the contract and are named in the log

READING_SECONDS = 1.0  # seconds per query for reading full pages; unread pages keep their snippet

ReadPages = Callable[[Sequence[str], Deadline], Sequence[PageText]]
"""From whole pages, those that matter most first, to their texts; it has to keep to the deadline and never raises."""

_Key = TypeVar("_Key", bound=Hashable)
_Query = TypeVar("_Query")
_Search = Callable[[Sequence[_Query], int], list[Results[Hit]]]


def as_they_are(pages: Sequence[str], deadline: Deadline) -> list[PageText]:  # noqa: ARG001 - nothing is done that takes time
    """Pages unchanged, with their markup; the default of ``read_pages``."""
    return [PageText(page) for page in pages]


class SearchGateway:
    """Searches with the organiser's ``UnifiedSearchPipeline``, or any callable that keeps its contract; None: no search.

    If the pipeline has its parts (image model, collection, knowledge graph; text model, web collection), a batch is embedded together and
    searched in one vector query, with the results of the organiser's one-at-a-time calls. Otherwise the pipeline is called once for each
    distinct query. A query that fails gets an ``error``; the others get their results. Nothing is fetched: a URL in a query is text.

    A ``ReadySearch`` in place of a pipeline brings its searches.

    Without a pipeline a query can carry the evidence that the evaluator found for its turn (``ProvidedContext``). The results are then its
    pictures and pages, and all of its pages whatever k: the evaluator did not know the entity when it sorted them.

    ``each_picture`` is applied to every image hit, ``each_page`` to every web hit without its whole page, ``read_pages`` to whole pages.
    """

    def __init__(
        self,
        pipeline: Any,
        *,
        each_picture: Callable[[ImageHit], ImageHit] = lambda hit: hit,
        each_page: Callable[[WebHit], WebHit] = lambda hit: hit,
        read_pages: ReadPages = as_they_are,
        worker: SubprocessWorker | None = None,  # for pictures that may take long to decode; one of its own if None
    ) -> None:
        self._each_picture, self._each_page, self._read_pages = each_picture, each_page, read_pages
        self._worker = worker or SubprocessWorker()
        self.use(pipeline)

    def use(self, pipeline: Any) -> None:
        """Search with another pipeline from now on. A search under way ends with the one that it began with."""
        self._pipeline = pipeline
        self._picture_folder = _folder(pipeline, "picture_folder", "image_cache")
        self._page_folder = _folder(pipeline, "page_folder", "page_cache")
        own_pages = getattr(pipeline, "own_pages", None)
        self._own_pages = (own_pages,) if isinstance(own_pages, Path) else ()
        languages = getattr(pipeline, "languages", ())
        self.languages: tuple[str, ...] = languages if isinstance(languages, tuple) else ()
        """Languages of one's own pages as ISO 639-1 codes, the most frequent first; empty for the organiser's indices."""
        self._images, self._web = image_searcher(pipeline), web_searcher(pipeline)
        self._image_results: ResultCache[tuple[str, int], Results[ImageHit]] = ResultCache(_CACHE_SIZE)

    def pictures(
        self, urls: Iterable[str], fetch: bool = False, deadline: Deadline = NO_DEADLINE
    ) -> dict[str, Image.Image]:
        """Load the available pictures of the index by URL (see ``agents.search.pages.web_cache``).

        They are in ``picture_folder`` of the pipeline, or in ``image_cache`` of the default cache; with ``fetch`` those that are not
        there are fetched over HTTP until the deadline. Never raises.
        """
        return PictureCache(self._picture_folder, http=fetch, worker=self._worker).get_all(urls, deadline)

    def page_texts(
        self, urls: Iterable[str], fetch: bool = False, deadline: Deadline = NO_DEADLINE
    ) -> dict[str, PageText]:
        """Load the available full texts of pages by URL (see ``agents.search.pages.web_cache``). Never raises.

        They come from the pipeline's ``page_folder``, the default ``page_cache``, its ``own_pages``, or the organiser's folder
        (``paths.organiser_pages``). A page that shows nothing without its scripts has an empty text.

        Args:
            urls: URLs, the most important ones first, because no page is read after the deadline.
            fetch: Fetch missing pages over HTTP.
            deadline: When reading has to end.
        """
        pages = PageCache(self._page_folder, http=fetch, further=(*self._own_pages, organiser_pages())).get_all(
            urls, deadline
        )
        return dict(zip(pages, self._read_pages(list(pages.values()), deadline), strict=True))

    @property
    def image_enabled(self) -> bool:
        """Whether images can be searched for; a pipeline on which ``image_search`` is False is not asked."""
        return self._pipeline is not None and getattr(self._pipeline, "image_search", True) is not False

    @property
    def web_enabled(self) -> bool:
        """Whether web pages can be searched for (not in task 1)."""
        return self._pipeline is not None and getattr(self._pipeline, "web_search", True) is not False

    def can_search_images(self, provided: ProvidedContext | None) -> bool:
        """Return whether the picture of a turn can be searched for, or the evaluator searched for it."""
        return self.image_enabled or self.uses_provided(provided)

    def can_search_web(self, provided: ProvidedContext | None) -> bool:
        """Return whether pages can be searched for, or the evaluator searched for them."""
        return self.web_enabled or self.uses_provided(provided)

    def uses_provided(self, provided: ProvidedContext | None) -> bool:
        """Return whether the evaluator's evidence replaces a search."""
        return self._pipeline is None and provided is not None

    def search_images(
        self,
        images: Sequence[Image.Image],
        k: int,
        provided: Sequence[ProvidedContext | None] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> list[Results[ImageHit]]:
        """Search the knowledge graph for the k nearest images of each image, nearest first.

        Images are made upright and opaque by ``to_rgb``. The hits of a picture are kept: the turns of a dialog are about one photo. A
        search that failed is made again. ``provided`` has for each image the evaluator's hits for it, used if there
        is no pipeline. A search that another process makes is waited for until the deadline.

        Raises:
            ValueError: k is below 1, or ``provided`` has another length than ``images``.
        """
        _at_least_one(k)
        if not self.image_enabled:
            found_by_evaluator = [
                None if one is None else one.pictures[:k] for one in self._usable(provided, len(images))
            ]
            return _convert_provided(found_by_evaluator, self._each_picture, "image search is off")
        keys: dict[int, tuple[str, int]] = {}  # id of the image object to the key of its search
        distinct: dict[tuple[str, int], Image.Image] = {}
        errors: dict[int, str] = {}
        for image in {id(image): image for image in images}.values():
            try:
                rgb = to_rgb(image)
            except ValueError as error:
                errors[id(image)] = str(error)
            else:
                key = keys[id(image)] = pixels_digest(rgb), k
                distinct[key] = rgb
        failed: dict[tuple[str, int], Results[ImageHit]] = {}

        def search(new: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Results[ImageHit]]:
            queries = {key: distinct[key] for key in new}
            results = _each(queries, partial(self._images.search, deadline=deadline), k, self._each_picture)
            failed.update({key: results[key] for key in new if results[key].error is not None})
            return {key: results[key] for key in new if key not in failed}

        results_by_key = self._image_results.get_all(distinct, search) | failed
        return [
            Results(error=errors[id(image)]) if id(image) in errors else results_by_key[keys[id(image)]]
            for image in images
        ]

    def search_web(
        self,
        queries: Sequence[str],
        k: int,
        provided: Sequence[ProvidedContext | None] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> list[Results[WebHit]]:
        """Search for the k nearest chunks of each query, nearest first, and keep the nearest of each page.

        The result has therefore at most k pages. Whole pages that results bring are read for ``READING_SECONDS`` a query, at most until
        the deadline. ``provided``, ``deadline`` and ValueError are as for ``search_images``.
        """
        _at_least_one(k)
        if not self.web_enabled:
            found_by_evaluator = [None if one is None else one.pages for one in self._usable(provided, len(queries))]
            return _convert_provided(found_by_evaluator, self._each_page, "web search is off")
        distinct: dict[Hashable, str] = {query: query for query in queries if isinstance(query, str) and query.strip()}
        results = _each(distinct, partial(self._web.search, deadline=deadline), k, self._page)
        results = self._with_texts(results, deadline.within(READING_SECONDS * len(distinct)))
        return [
            results[query] if isinstance(query, str) and query in results else Results(error="the query is empty")
            for query in queries
        ]

    def _page(self, hit: WebHit) -> WebHit:
        """``each_page`` of a hit, with the whole page that the search brought."""
        return replace(self._each_page(hit), page_text=hit.page_text)

    def _with_texts(
        self, results: Mapping[Hashable, Results[WebHit]], deadline: Deadline
    ) -> dict[Hashable, Results[WebHit]]:
        """Add to the results the texts of the whole pages that they bring.

        The best page of each query is read before the second best of any.
        """
        ranked = zip_longest(*(one.hits for one in results.values()))
        pages = list(
            dict.fromkeys(hit.page_text for rank in ranked for hit in rank if hit and hit.page_text is not None)
        )
        if not pages:
            return dict(results)
        texts = dict(zip(pages, self._read_pages(pages, deadline), strict=True))
        full_results = {}
        for query, one in results.items():
            read = {hit: texts[hit.page_text] for hit in one.hits if hit.page_text is not None}
            full_results[query] = replace(
                one,
                hits=tuple(replace(hit, page_text=read[hit].text) if hit in read else hit for hit in one.hits),
                notes=(*one.notes, *(f"{hit.page_url}: {text.note}" for hit, text in read.items() if text.note)),
            )
        return full_results

    def _usable(
        self, provided: Sequence[ProvidedContext | None] | None, count: int
    ) -> Sequence[ProvidedContext | None]:
        if provided is not None and len(provided) != count:
            raise ValueError(f"{len(provided)} given contexts for {count} queries")
        return [None] * count if provided is None or self._pipeline is not None else provided


def _folder(pipeline: Any, attribute: str, name: str) -> Path:
    folder = getattr(pipeline, attribute, None)
    return folder if isinstance(folder, Path) else default_cache() / name


def _convert_provided(
    hits_by_query: Sequence[tuple[Hit, ...] | None], each: Callable[[Hit], Hit], otherwise: str
) -> list[Results[Hit]]:
    """Convert the evaluator's hits of each query into results.

    Returns:
        An error for each query that the evaluator searched nothing for.
    """
    return [Results(error=otherwise) if hits is None else Results(tuple(map(each, hits))) for hits in hits_by_query]


def _each(
    queries: Mapping[_Key, _Query], search: _Search[_Query, Hit], k: int, each: Callable[[Hit], Hit]
) -> dict[_Key, Results[Hit]]:
    """Search distinct queries together; if that fails, each alone. ``each`` is applied to each hit."""
    if not queries:
        return {}
    results: dict[_Key, Results[Hit]] = {}
    try:
        results = dict(zip(queries, search(list(queries.values()), k), strict=True))
    except Exception as error:  # noqa: BLE001 - torch, Chroma and processors raise anything; one query may be to blame
        _log.warning("a batch of %d cannot be searched together: %r", len(queries), error)
        for key, query in queries.items():
            try:
                results[key] = search([query], k)[0]
            except Exception as alone:  # noqa: BLE001 - as above: this query fails, the others must not
                results[key] = Results(error=reason(alone))
    dropped = [note for one in results.values() for note in one.notes]
    if dropped:
        _log.warning("%d search results break the contract: %s", len(dropped), "; ".join(dropped[:_MAX_NAMED]))
    conversions: dict[Hashable, Hit | str] = {}  # queries of a batch find the same records again and again

    def convert(hit: Hit) -> Hit | str:
        record = hit.record
        if record not in conversions:
            try:
                conversions[record] = each(hit)
            except Exception as error:  # noqa: BLE001 - parsers raise anything on strangers' text; the other hits are kept
                conversions[record] = f"a hit dropped: {reason(error)}"
        return conversions[record]

    def convert_all(one: Results[Hit]) -> Results[Hit]:
        hits: list[Hit] = []
        notes: list[str] = []
        for hit in one.hits:
            other = convert(hit)
            if isinstance(other, str):
                notes.append(other)
            else:
                hits.append(replace(other, score=hit.score))
        return replace(one, hits=tuple(hits), notes=(*one.notes, *notes))

    return {key: convert_all(one) for key, one in results.items()}


def _at_least_one(k: int) -> None:
    if k < 1:
        raise ValueError(f"k has to be at least 1, not {k}")
