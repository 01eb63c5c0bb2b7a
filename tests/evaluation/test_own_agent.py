"""Agents and judges from a folder outside of this project, through the command that evaluates them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import agents.user_config
import local_evaluation
from agents.crag_agent import CragAgent
from agents.runner.start_up import StartUp
from agents.settings.run_config import RunConfig
from evaluation.files.outputs import SCORES
from evaluation.judge.judging import choose_judge
from evaluation.judge.openai_judge import OpenAIJudge
from evaluation.records import JudgeError
from evaluation.studies.variant_runs import make_run_options
from evaluation.studies.variants import Variant
from tests.evaluation.worlds import picture, row, stay_offline, write_dataset

AGENTS = """
from agents.base_agent import BaseAgent
from agents.crag_agent import CragAgent
from evaluation.records import Verdict

class KitAgent(BaseAgent):
    # as agents of the starter kit are
    def __init__(self, search_pipeline):
        super().__init__(search_pipeline)
        assert search_pipeline == "the pipeline"
    def get_batch_size(self):
        return 2
    def batch_generate_response(self, queries, images, message_histories):
        return ["number 0." for _ in queries]

class Edited(CragAgent):
    def batch_generate_response(self, queries, images, message_histories=None, **kwargs):
        return [f"{len(self.settings.stages)} stages" for _ in queries]

class Narrow(CragAgent):
    def __init__(self, search_pipeline):
        super().__init__(search_pipeline)

class Half(BaseAgent):
    def get_batch_size(self):
        return 2

class KindJudge:
    name = "kind"
    parallel = False
    def judge(self, item):
        return Verdict(True, "why not")

class NoJudge:
    name = "silent"
"""
MODULE = "own_agents_of_a_test"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of two dialogs, and a module of one's own that can be imported."""
    write_dataset(tmp_path, [row(each, 2, "v0.1.2", picture(), None) for each in "ab"], "v0.1.2")
    (tmp_path / f"{MODULE}.py").write_text(AGENTS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    stay_offline(monkeypatch)
    monkeypatch.setattr(RunConfig, "pipeline", lambda *_, **__: "the pipeline")
    return tmp_path


def _main(world: Path, *arguments: str) -> int:
    places = ["--dataset", str(world), "--cache", str(world / "cache"), "--output-dir", str(world / "out")]
    return local_evaluation.main(["--dataset-type", "multi-turn", *places, "--no_progress", *arguments])


def _answers(world: Path) -> set[str]:
    return {json.loads(line)["agent_response"] for line in (world / "out" / "response.jsonl").read_text().splitlines()}


def _read_manifest(world: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((world / "out" / "run.json").read_text())
    return manifest


def test_anybodys_agent_and_judge_are_run_by_our_command(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(world, "--agent", f"{MODULE}:KitAgent", "--eval-model", f"{MODULE}:KindJudge") == 0
    assert _answers(world) == {"number 0."}
    scores = json.loads((world / "out" / SCORES).read_text())
    assert (scores["all"]["correct_exact"], scores["all"]["correct"], scores["about"]["judge"]) == (2, 4, "kind")
    manifest = _read_manifest(world)
    assert manifest["agent"] == f"{MODULE}:KitAgent" and "built as the organiser builds it" in manifest["built"]
    assert not {"preset", "settings", "set"} & manifest.keys()
    assert (
        f"agent {MODULE}:KitAgent is built as the organiser builds it: no preset is applied" in capsys.readouterr().out
    )
    assert _main(world, "--agent", f"{MODULE}:Edited", "--resume") == 2
    assert "agent: " in capsys.readouterr().out, "another agent does not go on with the run of the first"


@pytest.mark.parametrize("by_file", [True, False])
def test_an_agent_derived_from_ours_runs_preset_and_profile(
    world: Path, monkeypatch: pytest.MonkeyPatch, by_file: bool
) -> None:
    """``agents/user_config.py`` that was edited, or a class named by ``--agent``."""
    __import__(MODULE)
    own: ModuleType = sys.modules[MODULE]
    if by_file:
        monkeypatch.setattr(agents.user_config, "UserAgent", own.Edited)
    (world / "tiny.toml").write_text('stages = ["answer", "finalise"]\n')
    named = [] if by_file else ["--agent", f"{MODULE}:Edited"]
    monkeypatch.setattr(CragAgent, "warm_up", lambda *_, **__: StartUp((), 0.0))
    monkeypatch.setattr(RunConfig, "unreachable", lambda *_, **__: None)  # no server and no hub
    assert _main(world, *named, "--preset", str(world / "tiny"), "--profile", "server", "--mode", "generate") == 0
    assert _answers(world) == {"2 stages"}
    manifest = _read_manifest(world)
    assert (manifest["agent"], manifest["preset"]) == (f"{MODULE}:Edited", str(world / "tiny.toml"))


def test_an_edited_file_with_an_agent_of_another_make_is_used(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    __import__(MODULE)
    monkeypatch.setattr(agents.user_config, "UserAgent", sys.modules[MODULE].KitAgent)
    assert _main(world, "--mode", "generate") == 0
    assert _answers(world) == {"number 0."}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent", "mine"], "there is no agent 'mine'; or write package.module:ClassName"),
        (["--agent", "nowhere.mine:Agent"], "there is no agent 'nowhere.mine:Agent' (no module 'nowhere.mine' can"),
        (["--agent", f"{MODULE}:KitAgnt"], f"there is no agent '{MODULE}:KitAgnt' ({MODULE} has no KitAgnt); did you mean 'KitAgent'?"),
        (["--agent", f"{MODULE}:KindJudge"], f"agent '{MODULE}:KindJudge' is no class derived from agents.base_agent.BaseAgent"),
        (["--agent", f"{MODULE}:Half"], "cannot be built: it does not define batch_generate_response"),
        (["--agent", f"{MODULE}:Narrow"], "cannot be built: its __init__ gets search_pipeline, settings, models, prompts, and has"),
        (["--agent", f"{MODULE}:KitAgent", "--set", "rerank.k=3"], f"--set cannot change agent '{MODULE}:KitAgent', which is built as"),
        (["--eval-model", "nowhere.mine:Judge"], "there is no judge 'nowhere.mine:Judge' (no module 'nowhere.mine' can"),
        (["--eval-model", f"{MODULE}:KidnJudge"], "did you mean 'KindJudge'?"),
        (["--eval-model", f"{MODULE}:KitAgent"], f"judge '{MODULE}:KitAgent' cannot be built without arguments"),
        (["--eval-model", f"{MODULE}:NoJudge"], f"judge '{MODULE}:NoJudge' is no evaluation.judge.judging.Judge; it lacks: parallel,"),
        (["--profile", "./gone.toml"], "there is no profile './gone.toml' (no file gone.toml)"),
    ],
)  # fmt: skip
def test_slips_are_told_in_one_line(
    world: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert _main(world, *arguments) == 2
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("error: ")]
    assert len(printed) == 1 and message in printed[0]


def test_names_of_models_with_a_tag_are_no_judges_of_ones_own(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    for name in ("llama3:instruct", "qwen2.5:7b", "ft:gpt-4o-mini:org::id"):
        assert isinstance(choose_judge(name, cache=world), OpenAIJudge)
    with pytest.raises(JudgeError, match="there is no judge"):
        choose_judge("llama3:Instruct", cache=world)


def test_studies_pass_the_agent_on(world: Path) -> None:
    from evaluation.studies import compare

    options = compare.CompareOptions.parse(["--agent", f"{MODULE}:Edited", "--out", str(world)])
    assert make_run_options(Variant("best", "best"), ["multi-turn"], options).agent == f"{MODULE}:Edited"
