"""``--agent-root``: a fork of somebody else through the command that evaluates ours."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from agents.settings.run_config import RunConfig
from evaluation.records import I_DONT_KNOW
from evaluation.run import command
from evaluation.run.options import RunOptions
from evaluation.studies import leaderboard
from tests.evaluation.kits import write_release
from tests.evaluation.worlds import picture, row, write_dataset


class World:
    """A data set of three dialogs and a fork that is evaluated on it."""

    def __init__(self, folder: Path, root: Path, python: Path) -> None:
        self.folder, self.root, self.python = folder, root, python
        rows = [row(each, turns, "v0.1.2", picture(), None) for each, turns in (("a", 3), ("b", 2), ("c", 1))]
        write_dataset(folder, rows, "v0.1.2")

    def run(self, *more: str, agent: str = "agents.my_agent:MyAgent", out: str = "out") -> tuple[int, str]:
        console = Console(record=True, width=1000)
        places = ["--dataset", str(self.folder), "--cache", str(self.folder / "cache")]
        agent_options = ["--agent-root", str(self.root), "--agent-python", str(self.python), "--agent", agent]
        fixed = ["--dataset-type", "multi-turn", "--eval-model", "rule", "--no_progress", "--no-report"]
        status = command.main([*fixed, *places, *agent_options, "--output-dir", str(self.folder / out), *more], console)
        return status, console.export_text()

    def lines(self, name: str = "response.jsonl", out: str = "out") -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / out / name).read_text().splitlines()]

    def read_manifest(self, out: str = "out") -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads((self.folder / out / "run.json").read_text())
        return manifest


@pytest.fixture
def world(tmp_path: Path, kit: Path, own_python: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    def search(query: object, k: int) -> list[dict[str, Any]]:
        return [{"page_url": f"https://x.example/{query}", "page_name": "x", "page_snippet": "y"}] * k

    monkeypatch.setattr(RunConfig, "pipeline", lambda *_, **__: search)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return World(tmp_path, kit, own_python)


def test_a_fork_is_evaluated_by_one_command(world: World) -> None:
    status, output = world.run()
    assert status == 0 and "agent agents.my_agent:MyAgent is built as the organiser builds it" in output
    answers = {line["interaction_id"]: line["agent_response"] for line in world.lines()}
    assert answers["a-0"] == "What is number 0? (64, 48)  the fork's own base"
    assert answers["a-1"].startswith("What is number 1? (64, 48) What is number 0?|What is number 0? (64, 48)")
    manifest = world.read_manifest()
    assert (manifest["agent"], manifest["agent_root"]) == ("agents.my_agent:MyAgent", str(world.root))
    assert manifest["agent_python"] == str(world.python) and "agent_commit" not in manifest
    assert (world.folder / "out" / "agent.log").read_text().splitlines()[1] == "built"
    world.run(agent="agents.user_config:UserAgent", out="same")
    runs = [str(world.folder / name) for name in ("out", "same")]
    assert leaderboard.main([*runs, "--out", str(world.folder / "board")]) == 0
    board = json.loads((world.folder / "board" / "leaderboard.json").read_text())
    assert [entry["label"] for entry in board["tasks"]["multi-turn"]["entries"]] == ["out", "same"]


def test_the_commit_of_a_fork_is_noted_and_another_one_is_not_resumed(world: World) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=world.root, check=True, capture_output=True)

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    assert world.run("--mode", "generate")[0] == 0
    first = world.read_manifest()["agent_commit"]
    assert first and not first.endswith("-dirty")
    (world.root / "agents" / "helpers.py").write_text("changed = True\n")
    status, output = world.run("--mode", "generate", "--resume")
    assert status == 2 and f"agent_commit: {first} then, {first}-dirty now" in output


def test_a_crash_and_a_hang_are_errors_of_the_agent_and_are_asked_again(world: World) -> None:
    """What an agent does is written into its own folder: it fails as long as there is a file."""
    (world.root / "agents" / "failing.py").write_text(
        "import os, pathlib, threading\n"
        "from agents.my_agent import MyAgent\n"
        "class Failing(MyAgent):\n"
        "    def get_batch_size(self): return 1\n"
        "    def batch_generate_response(self, queries, images, message_histories):\n"
        "        held = pathlib.Path('fails')\n"
        "        way = held.read_text().split() if held.exists() else []\n"
        "        asked = len(message_histories[0]) // 2\n"
        "        if 'hang' in way and asked == 2: threading.Event().wait()\n"
        "        if 'crash' in way and asked == 1: os._exit(1)\n"
        "        if 'none' in way and asked == 0: return [None]\n"
        "        return super().batch_generate_response(queries, images, message_histories)\n"
    )
    agent = "agents.failing:Failing"
    assert world.run(agent=agent, out="whole")[0] == 0
    (world.root / "fails").write_text("hang crash none")
    status, output = world.run("--agent-seconds", "1", "--max-failures", "0", agent=agent)
    assert status == 1 and "6 of 6 turns are errors" in output and "the agent failed: 6" in output
    assert {line["error_cause"] for line in world.lines()} == {"agent"}
    assert {line["agent_response"] for line in world.lines()} == {I_DONT_KNOW}
    errors = {line["interaction_id"]: line["error"] for line in world.lines("run_log.jsonl")}
    assert errors["a-0"] == "the agent returned NoneType instead of text"
    assert errors["b-1"].startswith("ForeignAgentError: its process ended with status 1")
    assert "it took more than 1 s and was killed" in errors["a-2"]
    (world.root / "fails").unlink()
    assert world.run("--resume", agent=agent)[0] == 0
    assert (world.folder / "out" / "response.jsonl").read_bytes() == (
        world.folder / "whole" / "response.jsonl"
    ).read_bytes()


def test_the_traceback_that_is_shown_is_the_agents_own(world: World, caplog: pytest.LogCaptureFixture) -> None:
    (world.root / "agents" / "raising.py").write_text(
        "from agents.my_agent import MyAgent\n"
        "class Raising(MyAgent):\n"
        "    def batch_generate_response(self, queries, images, message_histories): return self.tokenizer\n"
    )
    status, output = world.run("--max-failures", "1", agent="agents.raising:Raising")
    assert status != 0 and "'Raising' object has no attribute 'tokenizer'; agent.log has its traceback" in output
    assert 'raising.py", line 3, in batch_generate_response' in caplog.text
    assert "foreign_agent.py" not in caplog.text and 'calls.py"' not in caplog.text


def test_the_research_release_is_called_in_its_way(world: World) -> None:
    world.root = write_release(world.folder)
    agent = "example_agents.user_config:MODEL_KEYWORD_TO_AGENT"
    more = ["--calls", "research-release", "--mode", "generate"]
    assert world.run(*more, "--model-name", "org/Echo", agent=agent)[0] == 0
    assert world.lines()[0]["agent_response"].startswith("org/Echo True ")
    assert world.lines()[0]["agent_response"].endswith(" animal")
    assert world.read_manifest()["model_name"] == "org/Echo"
    status, output = world.run(*more, "--model-name", "org/Echo-2", "--resume", agent=agent)
    assert status == 2 and "model_name: org/Echo then, org/Echo-2 now" in output


def test_variables_of_a_fork_are_no_settings_of_ours(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRAG_TASK_MODE", "task 2")
    (world.root / "agents" / "configured.py").write_text(
        "import os\n"
        "from agents.my_agent import MyAgent\n"
        "class Configured(MyAgent):\n"
        "    def batch_generate_response(self, queries, images, message_histories):\n"
        "        return [os.environ['CRAG_TASK_MODE']] * len(queries)\n"
    )
    assert world.run("--mode", "generate", agent="agents.configured:Configured")[0] == 0
    assert {line["agent_response"] for line in world.lines()} == {"task 2"}


def test_full_pages_are_those_of_our_caches(world: World) -> None:
    url = "https://x.example/What is number 0?"
    from agents.search.pages.web_cache import PageCache

    PageCache(world.folder / "cache" / "page_cache").put(url, b"the whole page")
    (world.root / "agents" / "reading.py").write_text(
        "from agents.my_agent import MyAgent, WebSearchResult\n"
        "class Reading(MyAgent):\n"
        "    def batch_generate_response(self, queries, images, message_histories):\n"
        "        found = [self.search_pipeline(query, k=1)[0] for query in queries]\n"
        "        return [repr(WebSearchResult(each)['page_content']) for each in found]\n"
    )
    assert world.run("--mode", "generate", agent="agents.reading:Reading")[0] == 0
    assert {line["agent_response"] for line in world.lines()} == {"'the whole page'", "''"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent-root", "gone"], "is no folder; name the repository that agents.my_agent:MyAgent belongs to"),
        (["--agent", "mine"], "there is no agent 'mine'; or write package.module:ClassName"),
        (["--agent", "agents.my_agent:Gone"], "cannot be built: AttributeError: "),
        (["--agent", "agents.my_agent:Greedy"], "the agent's get_batch_size(): the batch size must be 1 to 16, not 99"),
        (["--agent-python", "gone/python"], "cannot be run; name an interpreter"),
        (["--set", "rerank.k=3"], "--set cannot change agent 'agents.my_agent:MyAgent'"),
        (["--model-name", "x"], "--model-name cannot change agent"),
    ],
)
def test_slips_are_told_in_one_line(world: World, arguments: list[str], message: str) -> None:
    status, printed = world.run(*arguments, agent="agents.my_agent:MyAgent")
    assert status == 2
    (line,) = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert message in line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent-python", "python"], "--agent-python, --agent-seconds and --agent-memory go with --agent-root"),
        (["--agent-root", ".", "--replicas", "2"], "--agent-root takes one agent, no --replicas"),
        (
            ["--agent-root", ".", "--calls", "research-release", "--dataset-type", "both"],
            "takes one data set: the release builds an agent for each",
        ),
        (["--agent-root", ".", "--agent-seconds", "0"], "greater than 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        RunOptions.parse(arguments)
    assert message in capsys.readouterr().err
