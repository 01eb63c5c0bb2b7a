"""What a Milvus database finds is what Chroma finds: both indices built by the real encoders from the same photos and pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pymilvus", reason="make test-vectordb")
pytest.importorskip("milvus_lite", reason="make test-vectordb")

from agents.profiles.profile import SearchModels
from agents.search.gateway import SearchGateway
from agents.search.kinds import open_search
from tests.search.conftest import IMAGE_ID, WEB_ID, World

QUERIES = ["How tall is the Red Tower?", "How deep is the lake?", "Gdzie jest most?", "sheep", "name"]


def test_hits_are_those_of_chroma(world: World, pipeline: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "test.db")
    assert world.build("--to", url) == 0
    search = SearchModels(kind="milvus", **{"url": url, "image_index": IMAGE_ID, "web_index": WEB_ID})
    mine = SearchGateway(open_search(search, split="validation", cache=world.cache))
    theirs = SearchGateway(pipeline)
    for k in (1, 3, 10):
        for one, other in zip(mine.search_web(QUERIES, k), theirs.search_web(QUERIES, k), strict=True):
            assert [replace(hit, score=0.0) for hit in one.hits] == [replace(hit, score=0.0) for hit in other.hits]
            assert [hit.score for hit in one.hits] == pytest.approx([hit.score for hit in other.hits], abs=1e-5)
        for results, expected in zip(
            mine.search_images(world.photos(), k), theirs.search_images(world.photos(), k), strict=True
        ):
            assert [replace(hit, score=0.0) for hit in results.hits] == [
                replace(hit, score=0.0) for hit in expected.hits
            ]
            assert [hit.score for hit in results.hits] == pytest.approx([hit.score for hit in expected.hits], abs=1e-5)
