"""The soak test in short: real search over a small index, scripted models; nothing may be left behind."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.crag_agent import CragAgent
from agents.launch import Launch
from agents.model_set import ModelSet
from agents.settings import Profile
from benchmarks import soak as command
from tests.search.conftest import draw
from tests.support.scripted_parts import ready
from tests.support.soaking import Question, Sample, after_warm_up, growth, own_temporary_folder, soak


@pytest.fixture
def own_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", "")  # given back at the end
    monkeypatch.setattr("tempfile.tempdir", None)
    own_temporary_folder(folder)
    yield folder


def test_threads_files_and_temporary_files_do_not_pile_up(pipeline: Any, own_temporary: Path, tmp_path: Path) -> None:
    agent = CragAgent(
        pipeline,
        settings=Launch.read("best", "embedded", overrides=["limits.seconds_per_turn=600"]).settings,
        models=ModelSet(Profile(name="scripted", models={}), tmp_path, ready=ready()),
        trace_path=tmp_path / "trace.jsonl",
    )
    questions = [Question(lambda kind=kind: draw(kind), ["How high is it?", "Who built it?"]) for kind in range(6)]  # type: ignore[misc]
    steady = after_warm_up(list(soak(agent, questions, 60, every=15, largest=4)), 0.4)
    first, last = steady[0], steady[-1]
    assert last.turns == 60
    # Pools of libraries may still get a thread or a file; what leaks at each of the 15 calls between would be far more.
    assert last.threads <= first.threads + 4
    assert last.files <= first.files + 4
    assert last.temporary <= first.temporary
    assert len((tmp_path / "trace.jsonl").read_text().splitlines()) == 60


class Leaking:
    """An agent that leaves something behind at each call."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: list[Any] = []

    def batch_generate_response(self, queries: list[Any], images: list[Any], histories: list[Any]) -> list[str]:
        path = self.folder / f"{len(self.kept)}.tmp"
        self.kept.append(path.open("w"))
        return ["x"] * len(queries)


def test_what_leaks_is_noticed(own_temporary: Path) -> None:
    agent: Any = Leaking(own_temporary)
    questions = [Question(lambda: Image.new("RGB", (64, 64)), ["What?"])]
    samples = list(soak(agent, questions, 60, every=15))
    for file in agent.kept:
        file.close()
    assert {"files", "temporary"} <= set(command.piles_up(samples))


def test_dialogs_are_gone_on_with_and_some_turns_are_broken() -> None:
    histories: list[Any] = []

    class Noting:
        def batch_generate_response(self, queries: list[Any], images: list[Any], given: list[Any]) -> list[str]:
            histories.extend(given)
            return [f"answer to {query}" for query in queries]

    agent: Any = Noting()
    list(soak(agent, [Question(lambda: Image.new("RGB", (64, 64)), ["First?", "Second?"])], 200, every=200))
    dialogs = [
        history for history in histories if isinstance(history, list) and history and isinstance(history[0], dict)
    ]
    assert len(histories) == 200
    assert len(dialogs) > 40
    assert max(len(history) for history in dialogs) >= 6
    assert {"role": "assistant", "content": "answer to First?"} in [history[1] for history in dialogs]
    assert any(history is None or history == "no list" for history in histories)


@pytest.mark.parametrize(("last", "found"), [(1000.0, []), (1049.0, []), (1060.0, ["memory"])])
def test_memory_may_grow_by_five_percent(last: float, found: list[str]) -> None:
    first = Sample(10, 1000.0, 5, 5, 5, 1.0)
    samples = [dataclasses.replace(first, turns=10 * n, rss=1000.0 + n * (last - 1000.0) / 7) for n in range(8)]
    quarters = [*[first] * 4, *[dataclasses.replace(first, rss=last)] * 4]
    assert command.piles_up(quarters) == found
    assert growth(samples) <= last / 1000.0 - 1.0


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    samples = [Sample(n, 100.0, 5, 5, 0, float(n)) for n in range(10, 100, 10)]
    command.draw(samples, tmp_path / "figures" / "soak.png")
    assert Image.open(tmp_path / "figures" / "soak.png").width > 300
    command.show(samples, after_warm_up(samples, 0.25))
