"""A run reads its preset, its profile and its prompts once, and what the evaluator imports is the agent itself."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

import local_evaluation
from agents.asking.prompts import PromptLibrary
from agents.base_agent import BaseAgent
from agents.crag_agent import CragAgent
from agents.profiles import profile as profiles
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import PRESETS, ROOT, Profile, SettingsError
from agents.settings.agent_config import AgentConfig
from agents.settings.run_config import RunConfig
from tests.agent.scripted import ScriptedChat
from tests.evaluation.worlds import picture, row, write_dataset
from tests.support.chat_server import serve_chat


def test_a_run_reads_preset_profile_and_prompts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, httpserver: HTTPServer
) -> None:
    serve_chat(httpserver, lambda _: "a lion")
    read: Counter[str | tuple[str, str]] = Counter()
    original, library = profiles.read_table, PromptLibrary.__init__

    def count_table(path: Path, noun: str) -> dict[str, Any]:
        read[noun, path.stem] += 1
        return original(path, noun)

    def count_library(self: PromptLibrary, *arguments: Any, **options: Any) -> None:
        read["prompts"] += 1
        library(self, *arguments, **options)

    monkeypatch.setattr(profiles, "read_table", count_table)
    monkeypatch.setattr(PromptLibrary, "__init__", count_library)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    write_dataset(tmp_path, [row("a", 2, "v0.1.2", picture(), None)], "v0.1.2")
    options = [
        "--preset",
        "vlm_only",
        "--profile",
        "server",
        "--dataset-type",
        "multi-turn",
        "--dataset",
        str(tmp_path),
        "--base-url",
        httpserver.url_for("/v1"),
    ]
    options += ["--suppress-web-search-api", "--suppress-image-search-api", "--no_progress", "--no-report"]
    places = ["--cache", str(tmp_path / "cache"), "--output-dir", str(tmp_path / "out")]
    assert local_evaluation.main([*options, *places]) == 0
    base = {("profile", "embedded"): 1}  # which `server` extends
    assert read == {("preset", "vlm_only"): 1, ("profile", "server"): 1, "prompts": 1, **base}


def test_there_is_one_agent_and_the_evaluator_imports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from agents.user_config import UserAgent

    assert UserAgent is CragAgent
    ours = [kind for kind in BaseAgent.__subclasses__() if kind.__module__.startswith("agents.")]
    assert ours == [CragAgent]
    monkeypatch.setenv("CRAG_PRESET", "vlm_only")
    monkeypatch.setenv("CRAG_PROFILE", "server")
    chat = ScriptedChat(lambda _: "a lion")
    models = ModelSet(Profile(name="p", models={"chat": {"kind": "ready"}}), Path("unused"), ready={"chat": chat})
    monkeypatch.setattr(AgentConfig, "models", lambda _: models)
    agent = UserAgent(model_name="any", is_multi_turn=True)
    assert len(chat.requests) == 1  # the warm-up
    assert agent.batch_generate_response(["What is it?"], [picture()], [[]]) == ["a lion"]
    monkeypatch.setenv("CRAG_PRESET", "unheard-of")
    with pytest.raises(SettingsError, match="there is no preset 'unheard-of'"):
        UserAgent()


def test_a_model_may_have_other_options_beside_others_that_a_preset_loads() -> None:
    models = {role: {"kind": "x"} for role in ("chat", "detector", "matcher")}
    beside = {
        "detector + matcher": {"chat": {"batch": 2, "images": 1}},
        "matcher": {"chat": {"batch": 4, "share": 0.7}, "matcher": {"half": True}},
    }
    profile = Profile(name="p", models=models, beside=beside)
    assert profile.with_loaded(["chat", "detector"]) is profile
    matched = profile.with_loaded(["chat", "matcher"]).models
    assert (matched["chat"], matched["matcher"]) == (
        {"kind": "x", "batch": 4, "share": 0.7},
        {"kind": "x", "half": True},
    )
    both = profile.with_loaded(["matcher", "chat", "detector"]).models
    assert both["chat"] == {"kind": "x", "batch": 2, "images": 1, "share": 0.7}, "the table for more models comes last"


@pytest.mark.parametrize(
    "beside", [{"matcher": {"chat": {}}}, {"chat": {"matcher": {}}}, {"chat + matcher": {"chat": {}}}]
)
def test_options_beside_a_model_that_the_profile_lacks_are_refused(
    beside: dict[str, dict[str, dict[str, object]]],
) -> None:
    with pytest.raises(ValueError, match="the profile has no model for the role 'matcher'; roles: chat"):
        Profile(name="p", models={"chat": {"kind": "x"}}, beside=beside)


@pytest.mark.parametrize("profile", ["gpu", "gpu_fp8", "gpu_tuned"])
def test_a_copy_and_an_extension_of_a_preset_keep_the_memory_plan_of_the_gpu(tmp_path: Path, profile: str) -> None:
    """The plan follows from the models that a preset loads: under another name the engine would take too much of the card."""
    copy, extension = tmp_path / "copied.toml", tmp_path / "mybest.toml"
    copy.write_bytes((PRESETS / "best.toml").read_bytes())
    extension.write_text('extends = "best"\n[grounded_answer]\nk = 12\n', encoding="utf-8")
    chat, copied, extended, alone = (
        RunConfig.read(preset, profile).profile.models["chat"]
        for preset in ("best", str(copy), str(extension), "direct_rag")
    )
    assert chat == copied == extended
    assert chat["gpu_memory_utilization"] < alone["gpu_memory_utilization"] and chat["max_batch"] < alone["max_batch"]
    without = RunConfig.read("best", profile, without=["two_stage_rerank"])
    assert without.profile.models["chat"] == alone, "the reranker that the plan makes room for is not loaded"


@pytest.mark.parametrize("module", ["agents.user_config", "agents.stage", "agents.asking.ask"])
def test_the_import_loads_no_heavy_library(module: str) -> None:
    code = f"import {module}, sys; print({{'torch', 'transformers', 'scipy', 'trafilatura'}} & {{*sys.modules}})"
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "set()"


def test_full_pages_are_counted_in_both_caches_and_a_missing_folder_holds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAG_WEBSEARCH_CACHE_DIR", str(tmp_path / "organiser"))
    config = RunConfig.of_profile("embedded", cache=tmp_path)
    assert config.cached_pages == 0
    for folder, pages in ((config.page_folder, 2), (tmp_path / "organiser", 1)):
        folder.mkdir()
        for number in range(pages):
            (folder / str(number)).write_text("page", encoding="utf-8")
    assert config.cached_pages == 3
