"""An agent in a process of its own finds what the organiser's pipeline finds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from evaluation.run.foreign_agent import ForeignAgent, ForeignAgentError, ForeignAgentPlace
from tests.search.conftest import World

AGENT = """
import json
class Agent:
    def __init__(self, search_pipeline):
        self.search_pipeline = search_pipeline
    def get_batch_size(self):
        return 16
    def batch_generate_response(self, queries, images, message_histories):
        return [json.dumps(self.search_pipeline(query or image, k=4)) for query, image in zip(queries, images)]
"""


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Any]:
    foreign_agents: list[ForeignAgent] = []

    def start(search: Any, queries: list[str], images: list[Image.Image | None]) -> list[Any]:
        (tmp_path / "proxied_agent.py").write_text(AGENT)
        place = ForeignAgentPlace(tmp_path, "proxied_agent:Agent", Path(sys.executable), tmp_path / "log", 60.0)
        foreign_agents.append(ForeignAgent(place, search=search))
        answers = foreign_agents[-1].batch_generate_response(queries, images, [[] for _ in queries])
        return [json.loads(answer) for answer in answers]

    yield start
    for each in foreign_agents:
        each.close()


def test_results_by_proxy_are_those_of_the_pipeline(ask: Any, pipeline: Any, world: World) -> None:
    photos: list[Image.Image | None] = [Image.open(world.images / f"photo{number}.png") for number in range(6)]
    texts = ["How tall is the Red Tower?", "Żółty Most", "sheep"]
    results = ask(pipeline, [""] * 6 + texts, photos + [None] * 3)
    direct = [pipeline(each, k=4) for each in photos + texts]
    assert results == json.loads(json.dumps(direct, default=lambda value: np.asarray(value).tolist()))
    assert results[0][0]["entities"][0]["entity_name"] == "Red Tower" and results[6][0]["page_snippet"]


def test_a_text_without_web_search_is_refused_as_by_the_pipeline(ask: Any, offline_web: Any) -> None:
    with pytest.raises(ForeignAgentError, match="ValueError: Text input is not supported as web search is not enabled"):
        ask(offline_web, ["a text"], [None])
