"""Search through a pipeline of which only the calling contract is known: one call a query."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from PIL import Image

from agents.search.hits import ImageResults, SearchError, WebResults
from agents.search.results import image_results, web_results

_log = logging.getLogger(__name__)


class PlainImages:
    """Image search by plain calls.

    Args:
        pipeline: ``pipeline(image, k=k)`` gives a list of result dicts.
    """

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline

    def search(self, images: Sequence[Image.Image], k: int, fetch: int) -> list[ImageResults]:
        """Results of each image; a call that fails gives an error."""
        del fetch
        found: list[ImageResults] = []
        for image in images:
            try:
                results = image_results(self._pipeline(image, k=k))
                found.append(replace(results, hits=results.hits[:k]))
            except Exception as error:  # noqa: BLE001 - a foreign pipeline raises anything; the other queries must be answered
                _log.warning("an image search failed: %r", error)
                found.append(ImageResults(error=reason(error)))
        return found


class PlainWeb:
    """Web search by plain calls.

    Args:
        pipeline: ``pipeline(text, k=k)`` gives a list of result dicts.
    """

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline

    def search(self, queries: Sequence[str], k: int, fetch: int) -> list[WebResults]:
        """Results of each query; a call that fails gives an error."""
        found: list[WebResults] = []
        for query in queries:
            try:
                results = web_results(self._pipeline(as_text(query), k=fetch))
                found.append(replace(results, hits=results.hits[:k]))
            except Exception as error:  # noqa: BLE001 - as above
                _log.warning("a web search failed: %r", error)
                found.append(WebResults(error=reason(error)))
        return found


def as_text(query: str) -> str:
    """The query, quoted where the organiser's pipeline would fetch it as a URL or open it as a file.

    Raises:
        SearchError: It is a file's name even in quotes.
    """
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
