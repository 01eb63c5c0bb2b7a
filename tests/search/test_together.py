"""Searches of several threads made as one: who gets what, in which batches, and what a failure costs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.search.hits import Results, SearchError, WebHit
from agents.search.together import Together

LIMIT = 5


def make_results(query: str, k: int) -> Results[WebHit]:
    return Results(notes=(query, str(k)))


class HeldSearch:
    """A search whose first call waits for the test; ``calls`` has the queries and the k of each call."""

    def __init__(self, fails: Callable[[Sequence[str]], BaseException | None] = lambda _: None) -> None:
        self.calls: list[tuple[list[str], int]] = []
        self.entered, self.go = threading.Event(), threading.Event()
        self._fails = fails

    def __call__(self, queries: Sequence[str], k: int) -> list[Results[WebHit]]:
        self.calls.append((list(queries), k))
        self.entered.set()
        assert self.go.wait(60)
        if (error := self._fails(queries)) is not None:
            raise error
        return [make_results(query, k) for query in queries]


def search_while_busy(
    search: HeldSearch, calls: Sequence[tuple[list[str], int]], **options: Any
) -> list[Future[list[Results[WebHit]]]]:
    """Each caller's results: the first call runs while all others come, in their order."""
    together = Together(search, LIMIT, **options)
    with ThreadPoolExecutor(len(calls) + 1) as pool:
        first = pool.submit(together.search, ["first"], 1)
        assert search.entered.wait(60)
        rest = []
        for number, (queries, k) in enumerate(calls, 1):
            rest.append(pool.submit(together.search, queries, k))
            while together.waiting < number:
                os.sched_yield()
        search.go.set()
    assert first.result() == [make_results("first", 1)]
    return rest


def test_what_comes_while_a_call_runs_is_the_next_call() -> None:
    search = HeldSearch()
    waiting_calls = [(["a", "b"], 3), (["c"], 3), (["d", "e"], 3), (["f"], 3), (["g"], 9), ([], 9)]
    rest = search_while_busy(search, waiting_calls)
    assert [one.result() for one in rest] == [
        [make_results(query, k) for query in queries] for queries, k in waiting_calls
    ]
    calls = [(["first"], 1), (["a", "b", "c", "d", "e"], 3), (["f"], 3), (["g"], 9)]
    assert search.calls == calls  # five queries at most, of one k


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.lists(st.text(max_size=3), max_size=LIMIT + 2), st.integers(1, 2)), min_size=1, max_size=8)
)
def test_each_caller_has_its_own_results_whatever_is_asked(calls: list[tuple[list[str], int]]) -> None:
    search = HeldSearch()
    rest = search_while_busy(search, calls)
    assert [one.result() for one in rest] == [[make_results(query, k) for query in queries] for queries, k in calls]
    whole = [queries for queries, _ in calls]
    assert all(len(queries) <= LIMIT or queries in whole for queries, _ in search.calls)
    assert sum(len(queries) for queries, _ in search.calls) == 1 + sum(map(len, whole))


class RustPanic(BaseException):
    """As ``pyo3_runtime.PanicException``, which is no ``Exception``."""


@pytest.mark.parametrize(("error", "raised"), [(ValueError("bad"), ValueError), (RustPanic("bad"), SearchError)])
def test_a_call_that_fails_costs_its_caller_alone(error: BaseException, raised: type[Exception]) -> None:
    search = HeldSearch(lambda queries: error if "bad" in queries else None)
    good, bad, other = search_while_busy(search, [(["a"], 3), (["bad"], 3), (["b"], 3)])
    assert (good.result(), other.result()) == ([make_results("a", 3)], [make_results("b", 3)])
    with pytest.raises(raised, match="bad"):
        bad.result()


def test_what_nobody_waits_for_any_more_is_not_searched() -> None:
    now = [0.0]
    search = HeldSearch()
    together = Together(search, LIMIT, clock=lambda: now[0])
    with ThreadPoolExecutor(3) as pool:
        pool.submit(together.search, ["first"], 1)
        assert search.entered.wait(60)
        late, patient = (pool.submit(together.search, [query], 1, seconds) for query, seconds in (("x", 5), ("y", 20)))
        while together.waiting < 2:
            os.sched_yield()
        now[0] = 10.0
        search.go.set()
    assert patient.result() == [make_results("y", 1)]
    with pytest.raises(SearchError, match="in time"):
        late.result()
    assert [queries for queries, _ in search.calls] == [["first"], ["y"]]
