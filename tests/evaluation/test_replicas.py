"""A data set answered by replicas on a real local cluster, where Ray is installed (`make test-scale`)."""

from __future__ import annotations

import io
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

ray = pytest.importorskip("ray", reason="Ray is not installed: make test-scale")
from agents.search.build_index import main as build_index  # noqa: E402
from evaluation.files.outputs import ALL_TURNS, SCORES  # noqa: E402
from evaluation.files.responses import RESPONSES, read_responses  # noqa: E402
from evaluation.files.run_log import read_run_log  # noqa: E402
from evaluation.files.traces import TRACE, read_traces  # noqa: E402
from evaluation.run import replicas  # noqa: E402
from evaluation.run.command import main  # noqa: E402
from tests.evaluation.replica_agents import ASKED, FATAL, SEARCHED, build, build_nothing  # noqa: E402
from tests.evaluation.worlds import picture, row, write_dataset  # noqa: E402
from tests.search.conftest import write_sources  # noqa: E402

TURNS = {"a": 3, "b": 1, "c": 4, "d": 2, "e": 5, "f": 1, "g": 2, "h": 3, "i": 1, "j": 2, "k": 4, "l": 2}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve dialogs, each turn with a query of its own."""
    rows = [row(name, turns, "v0.1.2", picture(), None) for name, turns in TURNS.items()]
    for record in rows:
        for turn in record["turns"]:
            turn["query"] = turn["query"].replace("?", f" of {record['session_id']}?")
    return write_dataset(tmp_path_factory.mktemp("data"), rows, "v0.1.2")


ALONE = ("--preset", "vlm_only", "--suppress-web-search-api", "--suppress-image-search-api")
SEARCHING = ("--preset", "direct_rag")


def _run(
    data: Path, folder: Path, *arguments: str, agent: Sequence[str] = ALONE, build: Callable[..., Any] = build
) -> tuple[int, str]:
    """Run the command; return the exit status and the output."""
    console = Console(file=io.StringIO(), width=200)
    places = ["--dataset", str(data), "--cache", str(folder / "cache"), "--output-dir", str(folder)]
    rest = ["--dataset-type", "multi-turn", "--eval-model", "None", "--no-progress", "--no-report"]
    (folder / "cache").mkdir(parents=True, exist_ok=True)
    status = main([*places, *agent, *rest, *arguments], console, build)
    return status, console.file.getvalue()  # type: ignore[attr-defined]


Outputs = tuple[bytes, str, dict[str, Any]]


def _read_outputs(folder: Path) -> Outputs:
    """Return the files of a run: answers, judged turns and scores."""
    scores = json.loads((folder / SCORES).read_text())
    table = pd.read_csv(folder / ALL_TURNS)[["interaction_id", "agent_response", "is_correct", "is_miss"]]
    return (folder / RESPONSES).read_bytes(), table.to_json(), {name: scores[name] for name in ("all", "ego")}


@pytest.fixture(scope="module")
def alone(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """What one process leaves behind."""
    folder = tmp_path_factory.mktemp("alone")
    assert _run(data, folder)[0] == 0
    outputs = _read_outputs(folder)
    counts = [outputs[2]["all"][name] for name in ("correct", "miss", "hallucination")]
    assert all(counts) and sum(counts) == sum(TURNS.values()), counts
    return outputs


def _read_calls(folder: Path) -> list[tuple[int, str]]:
    """Return process and query of every question, in their order."""
    lines = (folder / "cache" / ASKED).read_text().splitlines()
    return [(int(process), query) for process, query in (line.split("\t") for line in lines)]


def test_two_replicas_of_which_one_is_killed_answer_as_one_process(
    data: Path, alone: Outputs, ray_address: str, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / FATAL).write_text("once:What is number 1 of a?")
    status, output = _run(data, tmp_path, "--replicas", "2", "--ray-address", ray_address)
    assert status == 0, output
    assert _read_outputs(tmp_path) == alone
    assert not (tmp_path / "cache" / FATAL).exists()

    calls = _read_calls(tmp_path)
    victim = next(process for process, query in calls if query == "What is number 1 of a?")
    assert victim != os.getpid() and len({process for process, _ in calls}) >= 2
    again = {query: times for query, times in Counter(query for _, query in calls).items() if times > 1}
    assert "What is number 1 of a?" in again and set(again.values()) == {2}
    assert len(again) <= 4  # the batch that was under way, and no answer that had been made
    assert [query for process, query in calls if process == victim][-len(again) :] == list(again)

    homes = defaultdict(set)
    for process, query in calls:
        homes[query.split(" of ")[1]].add(process)
    moved = {query.split(" of ")[1] for query in again}
    assert {session for session, processes in homes.items() if len(processes) > 1} <= moved

    turns, costs = read_responses(tmp_path / RESPONSES), read_run_log(tmp_path)
    traces = read_traces(tmp_path / TRACE)
    assert len(traces) == len(costs) == len(turns)
    for turn in turns:
        cost, trace = costs[turn.key], traces[turn.key]
        assert (trace.query, trace.batch, trace.turn) == (turn.query, cost.batch, cost.turn)


def test_when_none_is_left_the_answers_are_kept_and_another_number_resumes(
    data: Path, alone: Outputs, ray_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "MAX_DEATHS", 1)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / FATAL).write_text("always:What is number 2 of e?")
    status, output = _run(data, tmp_path, "--replicas", "1", "--ray-address", ray_address)
    assert status == 2 and "--resume" in output
    lines = (tmp_path / RESPONSES).read_bytes().splitlines()
    assert 0 < len(lines) < sum(TURNS.values())

    (tmp_path / "cache" / FATAL).unlink()
    (tmp_path / "cache" / ASKED).unlink()
    assert _run(data, tmp_path, "--replicas", "2", "--ray-address", ray_address, "--resume")[0] == 0
    assert _read_outputs(tmp_path) == alone
    assert len(_read_calls(tmp_path)) == sum(TURNS.values()) - len(lines)


@pytest.mark.parametrize("arguments", [(), ("--replicas", "2")])
def test_a_run_whose_models_cannot_be_loaded_leaves_the_earlier_run_as_it_was(
    data: Path, alone: Outputs, tmp_path: Path, arguments: Sequence[str]
) -> None:
    assert _run(data, tmp_path)[0] == 0
    (tmp_path / "cache" / FATAL).write_text("weights:")
    status, output = _run(data, tmp_path, *arguments)
    last = output.strip().splitlines()[-1]
    assert status == 2 and last.endswith("the models cannot be used: chat: no weights"), output
    assert _read_outputs(tmp_path) == alone and not list(tmp_path.glob("*.previous*"))


def test_a_replica_that_dies_while_it_loads_its_models_is_replaced(
    data: Path, alone: Outputs, ray_address: str, tmp_path: Path
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / FATAL).write_text("warm-up:")
    status, output = _run(data, tmp_path, "--replicas", "2", "--ray-address", ray_address)
    assert status == 0, output
    assert _read_outputs(tmp_path) == alone and not (tmp_path / "cache" / FATAL).exists()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Published indices of six pictures and some pages."""
    world = write_sources(tmp_path_factory.mktemp("world"))
    made_of = ["--images", str(world.images), "--kg", str(world.kg), "--pages", str(world.pages)]
    assert build_index([*made_of, "--split", "validation", "--cache", str(world.cache), "--no-progress"]) == 0
    return world.hub


def _indexed(folder: Path, hub: Path) -> Path:
    """A folder whose cache has the indices."""
    (folder / "cache").mkdir()
    (folder / "cache" / "hub").symlink_to(hub)
    return folder


@pytest.fixture(scope="module")
def searched_alone(data: Path, hub: Path, tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """What one process leaves behind that searches."""
    folder = _indexed(tmp_path_factory.mktemp("searched"), hub)
    assert _run(data, folder, agent=SEARCHING)[0] == 0
    assert all(_check_searches(folder).values())
    return _read_outputs(folder)


def _check_searches(folder: Path) -> dict[Any, bool]:
    """Return whether pictures and pages were found, by turn."""
    return {
        key: bool(record.pictures) and not any("search_error" in stage.notes for stage in record.stages)
        for key, record in read_traces(folder / TRACE).items()
    }


def test_replicas_of_a_machine_share_a_search_whose_death_costs_no_answer(
    data: Path, hub: Path, searched_alone: Outputs, tmp_path: Path
) -> None:
    """On a cluster that the command starts for itself."""
    cache = _indexed(tmp_path, hub) / "cache"
    (cache / FATAL).write_text("search:What is number 1 of a?")
    status, output = _run(data, tmp_path, "--replicas", "2", agent=SEARCHING)
    assert status == 0, output
    assert _read_outputs(tmp_path) == searched_alone and all(_check_searches(tmp_path).values())
    assert len(set((cache / SEARCHED).read_text().split())) == 1

    calls = _read_calls(tmp_path)
    assert (
        len({process for process, _ in calls}) == 2
    )  # no replica died, and the calls that were under way were made again
    again = {query: times for query, times in Counter(query for _, query in calls).items() if times > 1}
    assert again["What is number 1 of a?"] == 2 and set(again.values()) == {2} and len(again) <= 8


def test_each_machine_has_its_search_and_one_that_died_for_good_is_replaced(
    data: Path, hub: Path, searched_alone: Outputs, ray_address: str, tmp_path: Path
) -> None:
    cache = _indexed(tmp_path, hub) / "cache"
    (cache / FATAL).write_text("for good:What is number 1 of a?")
    status, output = _run(data, tmp_path, "--replicas", "2", "--ray-address", ray_address, agent=SEARCHING)
    assert status == 0, output
    assert _read_outputs(tmp_path) == searched_alone and all(_check_searches(tmp_path).values())
    # one a machine, and a third where the replica that takes the dead one's place is put on its machine
    assert len(set((cache / SEARCHED).read_text().split())) in (2, 3)


def test_a_missing_index_is_told_in_one_line(data: Path, tmp_path: Path) -> None:
    status, output = _run(data, tmp_path, "--replicas", "1", agent=SEARCHING)
    last = output.strip().splitlines()[-1]
    assert status == 2 and last.startswith("error: a replica cannot be started: there is no image index"), output


def test_a_replica_that_cannot_be_built_is_told_in_one_line(data: Path, tmp_path: Path) -> None:
    """On a cluster that the command starts for itself."""
    status, output = _run(data, tmp_path, "--replicas", "1", build=build_nothing)
    assert status == 2
    assert output.strip().splitlines()[-1] == "error: a replica cannot be started: there are no weights"
    assert not ray.is_initialized()


def test_an_address_where_nothing_listens(data: Path, tmp_path: Path) -> None:
    status, output = _run(data, tmp_path, "--replicas", "1", "--ray-address", "127.0.0.1:1")
    assert status == 2 and "no Ray cluster at 127.0.0.1:1" in output
