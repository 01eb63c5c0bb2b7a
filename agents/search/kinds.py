"""Kinds of search besides the organiser's pipeline: a class with two batched searchers, named in ``[search]`` of a profile.

It is named as ``package.module:Class``, and its parameters are the options.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from PIL import Image

from agents.base.files import one_line
from agents.base.named import import_object, import_path
from agents.profiles.profile import SearchModels
from agents.search.hits import Hit, ImageHit, Results, SearchError, WebHit
from agents.search.searchers import ReadySearch, Searcher, reason
from agents.time_limits.deadline import NO_DEADLINE, Deadline

DEPENDENCIES = ("cache", "split")
"""Parameters of a class other than options: the folder of caches, and the split of the command line."""

_Query = TypeVar("_Query")


class Search(Protocol):
    """Parts of a class of a kind of search; None for a missing searcher. Each is read only if the run searches for its hits."""

    @property
    def images(self) -> Searcher[Image.Image, ImageHit] | None:
        """Searches for pictures like RGB pictures."""

    @property
    def web(self) -> Searcher[str, WebHit] | None:
        """Searches for pages by texts."""


def open_search(search: SearchModels, *, split: str, cache: Path, web: bool = True, images: bool = True) -> ReadySearch:
    """Open a search other than the organiser's pipeline.

    Raises:
        SearchError: The class cannot be imported, an option is unknown, or the search cannot be opened.
    """
    kind = search.kind
    place = import_path(kind)
    assert place is not None  # the profile was checked
    factory = import_object(place, kind, "kind of search", SearchError)
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError) as error:
        raise SearchError(f"kind of search {kind!r} is no class with named parameters: {one_line(error)}") from error
    public = inspect.Signature([each for each in parameters if each.name not in DEPENDENCIES])
    try:
        public.bind(**search.options)
    except TypeError as error:
        options = ", ".join(public.parameters) or "none"
        raise SearchError(f"kind of search {kind!r}: {error}; its options are: {options}") from None
    dependencies = {"cache": cache, "split": split}
    try:
        opened: Search = factory(
            **search.options, **{each.name: dependencies[each.name] for each in parameters if each.name in DEPENDENCIES}
        )
        pictures, pages = opened.images if images else None, opened.web if web else None
    except SearchError:
        raise
    except Exception as error:  # a class of somebody else raises anything; callers need one kind
        raise SearchError(f"kind of search {kind!r} cannot be opened: {reason(error)}") from error
    return ReadySearch(
        images=CheckedSearcher(pictures, ImageHit),
        web=CheckedSearcher(pages, WebHit),
        image_search=pictures is not None,
        web_search=pages is not None,
        picture_folder=cache / "image_cache",
        page_folder=cache / "page_cache",
    )


class CheckedSearcher(Generic[_Query, Hit]):
    """Searcher of somebody else whose results are checked: the stages rely on their number and types.

    Args:
        searcher: That searcher; None if it is never asked.
        hit: Type of its hits.
    """

    def __init__(self, searcher: Searcher[_Query, Hit] | None, hit: type[Hit]) -> None:
        self._searcher: Searcher[_Query, Hit] | None = searcher
        self._hit: type[Hit] = hit

    def search(self, queries: Sequence[_Query], k: int, deadline: Deadline = NO_DEADLINE) -> list[Results[Hit]]:
        """Return the results of each query, at most k hits each.

        Raises:
            SearchError: The searcher is missing, or returns something else.
            Exception: Any error of the searcher.
        """
        if self._searcher is None:
            raise SearchError("the profile's kind of search has no such searcher")
        results: Any = self._searcher.search(queries, k, deadline=deadline)
        name = type(self._searcher).__name__
        if not isinstance(results, Sequence) or len(results) != len(queries):
            count = f"{len(results)} results" if isinstance(results, Sequence) else type(results).__name__
            raise SearchError(
                f"{name}.search returned {count} for {len(queries)} queries; it has to return a list with one each"
            )
        return [self._check(name, one, k) for one in results]

    def _check(self, name: str, one: Any, k: int) -> Results[Hit]:
        if not isinstance(one, Results):
            raise SearchError(
                f"{name}.search returned {type(one).__name__} for a query; it has to return agents.search.hits.Results"
            )
        wrong = next((hit for hit in one.hits if not isinstance(hit, self._hit)), None)
        if wrong is not None:
            raise SearchError(
                f"{name}.search returned a {type(wrong).__name__} among its hits; they have to be {self._hit.__name__}"
            )
        return Results(tuple(one.hits[:k]), one.error, tuple(one.notes))
