"""Repositories as forks of the starter kit and of the research release are: same folders, names and signatures, code of our own."""

from __future__ import annotations

import sysconfig
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import PIL
import pytest

from evaluation.run.foreign_agent import ForeignAgent, ForeignAgentPlace

BASE = """
from cragmm_search.search import UnifiedSearchPipeline

class BaseAgent:
    mark = "the fork's own base"
    def __init__(self, search_pipeline: UnifiedSearchPipeline):
        self.search_pipeline = search_pipeline
"""

AGENT = """
import json, os, sys, time
from typing import Any, Dict, List
from PIL import Image
from agents.base_agent import BaseAgent
from agents import helpers
from crag_web_result_fetcher import WebSearchResult

class MyAgent(BaseAgent):
    def __init__(self, search_pipeline):
        super().__init__(search_pipeline)
        print("built")

    def get_batch_size(self) -> int:
        return 4

    def batch_generate_response(
        self, queries: List[str], images: List[Image.Image], message_histories: List[List[Dict[str, Any]]]
    ) -> List[str]:
        return [helpers.reply(*each) for each in zip(queries, images, message_histories)]

class Searching(MyAgent):
    def batch_generate_response(self, queries, images, message_histories):
        found = [[self.search_pipeline(image, k=3), self.search_pipeline(query, k=3)] for query, image in zip(queries, images)]
        return [json.dumps(each) for each in found]

class Threads(MyAgent):
    def batch_generate_response(self, queries, images, message_histories):
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda query: self.search_pipeline(query, k=2), queries * 8))
        return [json.dumps(each) for each in found[: len(queries)]]

class Pages(MyAgent):
    def batch_generate_response(self, queries, images, message_histories):
        return [WebSearchResult({"page_url": query, "page_name": "name"}).get("page_content", "no page") for query in queries]

class Scripted(MyAgent):
    # Does what a question says, in Python.
    def batch_generate_response(self, queries, images, message_histories):
        return eval(queries[0], {**globals(), "queries": queries, "images": images, "agent": self})

class Broken(MyAgent):
    def __init__(self, search_pipeline):
        raise OSError("no weights")

class Greedy(MyAgent):
    def get_batch_size(self):
        return 99
"""

HELPERS = """
import agents
from agents.base_agent import BaseAgent

def reply(query, image, history):
    size = None if image is None else image.size
    return f"{query} {size} {'|'.join(message['content'] for message in history)} {BaseAgent.mark}"
"""

RELEASE = """
from utils.crag_web_result_fetcher import WebSearchResult
from .base_agent import BaseAgent

class EchoAgent(BaseAgent):
    def __init__(self, model_name: str, is_multi_turn: bool = False, **kwargs):
        super().__init__(**kwargs)
        self.about = f"{model_name} {is_multi_turn}"

    def get_batch_size(self):
        return 3

    def batch_generate_response(self, queries, images, message_histories, rag_context_list, **kwargs):
        return [f"{self.about} {len(context)} {domain}" for context, domain in zip(rag_context_list, kwargs["domains"])]
"""

MAP = """
from .echo_agent import EchoAgent

MODEL_KEYWORD_TO_AGENT = {"gpt": None, "echo": EchoAgent}
"""


def write_kit(folder: Path) -> Path:
    """Write a fork of the starter kit, whose ``agents`` is no regular package, as in the kit."""
    files = {
        "base_agent": BASE,
        "my_agent": AGENT,
        "helpers": HELPERS,
        "user_config": "from agents.my_agent import MyAgent as UserAgent\n",
    }
    return _write(folder / "kit" / "agents", files).parent


def write_release(folder: Path) -> Path:
    """Write a checkout of the research release with an agent and the map of agents, without its base."""
    files = {"__init__": "", "echo_agent": RELEASE, "user_config": MAP}
    return _write(folder / "release" / "example_agents", files).parent


def _write(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def own_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a virtual environment that has Pillow and NumPy, and nothing else of this one."""
    folder = tmp_path_factory.mktemp("own") / ".venv"
    venv.create(folder, symlinks=True)
    there = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for package in (PIL, numpy):
        packages = Path(str(package.__file__)).parents[1]
        for part in (package.__name__, *(each.name for each in packages.glob("*.libs"))):
            if not (there / part).exists():
                (there / part).symlink_to(packages / part)
    return folder / "bin" / "python"


Make = Callable[..., ForeignAgent]
"""Starts an agent: ``make(attribute, search, seconds=, memory=, python=, **options of ForeignAgent)``."""


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    return write_kit(tmp_path)


@pytest.fixture
def make(kit: Path, own_python: Path) -> Iterator[Make]:
    agents: list[ForeignAgent] = []

    def start(
        attribute: str = "MyAgent",
        search: Any = None,
        *,
        seconds: float = 60.0,
        memory: int | None = None,
        python: Path = own_python,
        **options: Any,
    ) -> ForeignAgent:
        reference = attribute if ":" in attribute else f"agents.my_agent:{attribute}"
        place = ForeignAgentPlace(kit, reference, python, kit.parent / "agent.log", seconds, memory)
        agents.append(ForeignAgent(place, search=search, **options))
        return agents[-1]

    yield start
    for each in agents:
        each.close()


def ask(agent: ForeignAgent, *queries: str, images: Sequence[Any] | None = None) -> Any:
    """Ask single questions."""
    return agent.batch_generate_response(list(queries), images or [None] * len(queries), [[] for _ in queries])
