"""Combine concurrent searches: each batch has the calls that arrived during the one before."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from agents.search.hits import Hit, Results, SearchError
from agents.time_limits.deadline import Clock

Query = TypeVar("Query")


@dataclass(eq=False)
class _Request(Generic[Query, Hit]):
    """One caller's queries, and their results or error."""

    queries: Sequence[Query]
    k: int
    until: float  # time of the clock after which the caller has given up
    results: list[Results[Hit]] | None = None
    error: BaseException | None = None

    def result(self) -> list[Results[Hit]]:
        if self.results is not None:
            return self.results
        if isinstance(self.error, Exception):
            raise self.error
        raise SearchError(f"the search failed ({self.error!r})")  # panics of Rust


class Together(Generic[Query, Hit]):
    """A search for many threads that runs in one of its own: PyTorch and the allocator keep memory for each thread that calls them.

    A call takes all waiting queries, in order, that ask for the same number of hits, at most ``limit``. No query waits for others. If it
    fails, each caller's queries are searched by themselves.
    """

    def __init__(
        self,
        search: Callable[[Sequence[Query], int], list[Results[Hit]]],
        limit: int,
        clock: Clock = time.monotonic,
    ) -> None:
        self._search: Callable[[Sequence[Query], int], list[Results[Hit]]] = search
        self._limit, self._clock = limit, clock
        self._waiting: deque[_Request[Query, Hit]] = deque()
        self._arriving = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "search")

    def search(self, queries: Sequence[Query], k: int, seconds: float = math.inf) -> list[Results[Hit]]:
        """Search each query.

        Raises:
            SearchError: The search has not begun within ``seconds``.
            Exception: Any error of the search.
        """
        request: _Request[Query, Hit] = _Request(queries, k, self._clock() + seconds)
        with (
            self._arriving
        ):  # as many turns as there are callers before this one, each of which takes one caller at least
            self._waiting.append(request)
            turn = self._thread.submit(lambda: self._run(self._batch()))
        turn.result()
        return request.result()

    @property
    def waiting(self) -> int:
        """Number of calls that wait."""
        return len(self._waiting)

    def _batch(self) -> list[_Request[Query, Hit]]:
        batch: list[_Request[Query, Hit]] = []
        room = self._limit
        while self._waiting:
            first = self._waiting[0]
            if batch and (first.k != batch[0].k or len(first.queries) > room):
                break
            self._waiting.popleft()
            if self._clock() > first.until:
                first.error = SearchError("its turn did not come in time")
                continue
            batch.append(first)
            room -= len(first.queries)
        return batch

    def _run(self, batch: Sequence[_Request[Query, Hit]]) -> None:
        queries = [query for request in batch for query in request.queries]
        if not queries:
            for request in batch:
                request.results = []
            return
        try:
            results = iter(self._search(queries, batch[0].k))
        except BaseException as error:  # noqa: BLE001 - raised in the thread of each caller
            if len(batch) == 1:
                batch[0].error = error
                return
            for request in batch:
                self._run([request])
            return
        for request in batch:
            request.results = [next(results) for _ in request.queries]
