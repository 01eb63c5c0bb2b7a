"""A server whose collection was edited: it marks what changed, and takes up the new index without a restart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from agents.crag_agent import CragAgent
from agents.search.build_index import main
from agents.settings.run_config import RunConfig
from apps.answering import Answerer, AnswererOptions, SearchedIndex
from apps.serving.app import Server, ServerLimits
from tests.apps.conftest import KEY, crag_agent, listening
from tests.search.conftest import draw

QUESTION = "What does a family ticket cost?"


@dataclass
class World:
    """A served collection: its folder and cache, and the address of the server."""

    folder: Path
    cache: Path
    url: str = ""

    def index(self) -> None:
        assert main([str(self.folder), "--cache", str(self.cache), "--no-progress"]) == 0

    def post(self, route: str, key: str = KEY, **fields: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.post(f"{self.url}/v1/{route}", json=fields, headers=headers, timeout=60)

    def find(self) -> dict[str, Any]:
        """The best passage for the question."""
        passage: dict[str, Any] = self.post("search", query=QUESTION, k=1).json()["passages"][0]
        return passage


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "mill", tmp_path / "cache")
    for name in ("photos", "pages"):
        (world.folder / name).mkdir(parents=True)
    draw(0).save(world.folder / "photos" / "mill.png")
    (world.folder / "photos" / "mill.txt").write_text("Old Mill\nheight: 12 m\n")
    (world.folder / "pages" / "tickets.md").write_text("# Tickets\nA family ticket costs 29 euros.\n")
    world.index()
    options = AnswererOptions(preset="direct_rag", knowledge=world.folder, cache=world.cache)
    config = RunConfig.read("direct_rag", cache=world.cache, knowledge=world.folder)
    plan = config.plan_search("validation")
    agent = crag_agent(pipeline=config.pipeline(**plan), name_source=config.name_source, has_changed=config.has_changed)
    assert isinstance(agent, CragAgent)
    index = SearchedIndex(options, config.describe_indices(**plan))
    answerer = Answerer(agent, take_up=partial(index.take_up, agent))
    server = Server(answerer, model="crag-mm-test", key=KEY, limits=ServerLimits(requests_per_minute=1000))
    with listening(server.app) as world.url:
        yield world


def test_a_newer_index_is_searched_without_a_restart(world: World) -> None:
    page = world.folder / "pages" / "tickets.md"
    first = world.post("index").json()
    assert (first["object"], first["is_new"], first["changed"]) == ("index", False, [])
    assert world.find()["changed"] is False

    page.write_text("# Tickets\nA family ticket costs 31 euros.\n")
    old = world.find()
    assert "29 euros" in old["text"] and (old["url"], old["changed"]) == ("pages/tickets.md", True)
    unread = world.post("index").json()
    assert (unread["is_new"], unread["changed"]) == (False, ["pages/tickets.md"])

    world.index()
    assert "29 euros" in world.find()["text"], "a running server is told"
    second = world.post("index").json()
    assert (second["is_new"], second["changed"]) == (True, []) and second["revision"] != first["revision"]
    new = world.find()
    assert "31 euros" in new["text"] and new["changed"] is False


def test_sources_of_an_answer_that_changed_are_marked(world: World) -> None:
    (world.folder / "photos" / "mill.txt").write_text("Old Mill\nheight: 13 m\n")
    body: dict[str, Any] = {"model": "crag-mm-test", "messages": [{"role": "user", "content": QUESTION}]}
    sources = world.post("chat/completions", **body).json()["crag"]["sources"]
    assert sources and {source["url"]: source["changed"] for source in sources} == {"pages/tickets.md": False} | (
        {"photos/mill.png": True} if any(source["url"] == "photos/mill.png" for source in sources) else {}
    )
    (world.folder / "pages" / "tickets.md").unlink()
    sources = world.post("chat/completions", **body).json()["crag"]["sources"]
    assert all(source["changed"] for source in sources)


def test_an_index_that_cannot_be_opened_leaves_the_one_before(world: World) -> None:
    (world.folder / "photos.csv").write_text("file,entity\n")
    (world.folder / "photos.xlsx").write_text("")
    assert world.post("index").json()["error"]["code"] == "index_failed"
    assert "29 euros" in world.find()["text"]


def test_the_key_is_needed_and_a_server_without_an_index_of_the_cache_says_so(world: World) -> None:
    assert world.post("index", key="wrong").status_code == 401
    with listening(Server(Answerer(crag_agent()), model="crag-mm-test", key=KEY).app) as world.url:
        assert world.post("index").json()["error"]["code"] == "index_fixed"
