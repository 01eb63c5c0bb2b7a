"""What is kept is what would be computed, once, and never more than the limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from agents.base.result_cache import ResultCache

BATCHES = st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=8)


@given(BATCHES, st.integers(1, 12))
def test_results_are_those_that_would_be_computed(batches: list[list[int]], limit: int) -> None:
    cache: ResultCache[int, int] = ResultCache(limit)
    for keys in batches:
        assert cache.get_all(keys, lambda new: {key: key * key for key in new}) == {key: key * key for key in keys}


@given(BATCHES)
def test_below_the_limit_nothing_is_computed_twice(batches: list[list[int]]) -> None:
    cache: ResultCache[int, int] = ResultCache(10)
    computed: Counter[int] = Counter()

    def compute(new: Sequence[int]) -> dict[int, int]:
        computed.update(new)
        return dict.fromkeys(new, 0)

    for keys in batches:
        cache.get_all(keys, compute)
    assert all(times == 1 for times in computed.values())
    assert set(computed) == set().union(*batches)


def test_the_oldest_result_goes_first_and_use_makes_young() -> None:
    cache: ResultCache[str, str] = ResultCache(2)
    misses: list[str] = []

    def compute(new: Sequence[str]) -> dict[str, str]:
        misses.extend(new)
        return {key: key for key in new}

    for key in ("a", "b", "a", "c", "a", "b"):
        cache.get_all([key], compute)
    assert misses == ["a", "b", "c", "b"]


def test_what_is_left_out_is_asked_for_again() -> None:
    cache: ResultCache[str, str] = ResultCache(2)
    assert cache.get_all(["a"], lambda _: {}) == {}
    assert cache.get_all(["a"], lambda new: dict.fromkeys(new, "found")) == {"a": "found"}
