"""Queries a second count a batch as its queries, and a search that finds nothing is no fast one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from agents.models.base import FloatArray
from agents.search.hits import Results, WebHit
from lab.benchmarks.search_speed import measure_batches, measure_encoder, measure_organiser

HIT = WebHit("https://example.org_chunk_1", 0.9, "Towers", "a tower", "https://example.org")


def test_each_query_is_asked_once_in_batches() -> None:
    asked: list[list[str]] = []

    def search(queries: Sequence[str], k: int) -> list[Results[WebHit]]:
        asked.append(list(queries))
        return [Results((HIT,) * k)] * len(queries)

    assert measure_batches(search, ["a", "b", "c"], 2) > 0
    assert asked == [["a", "b"], ["c"]]


def test_a_search_that_fails_is_not_timed() -> None:
    with pytest.raises(ValueError, match="1 of 1 queries found nothing: the index is gone"):
        measure_batches(lambda queries, k: [Results(error="the index is gone")], ["a"], 1)


def test_the_organisers_call_is_made_for_each_query() -> None:
    calls: list[tuple[str, int]] = []
    assert measure_organiser(lambda query, k: calls.append((query, k)), ["a", "b"]) > 0
    assert calls == [("a", 10), ("b", 10)]


def test_the_encoder_embeds_each_query_once_in_the_same_batches() -> None:
    embedded: list[list[str]] = []

    def embed(batch: Sequence[str]) -> FloatArray:
        embedded.append(list(batch))
        return np.zeros((len(batch), 2), dtype=np.float32)

    assert measure_encoder(embed, ["a", "b", "c"], 2) > 0
    assert embedded == [["a", "b"], ["c"]]
