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
from agents.profiles.profile import ROOT, Profile, SettingsError
from agents.settings import presets
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

    for reader in (presets, profiles):
        monkeypatch.setattr(reader, "read_table", count_table)
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
    monkeypatch.setattr(RunConfig, "models", lambda _: models)
    agent = UserAgent(model_name="any", is_multi_turn=True)
    assert len(chat.requests) == 1  # the warm-up
    assert agent.batch_generate_response(["What is it?"], [picture()], [[]]) == ["a lion"]
    monkeypatch.setenv("CRAG_PRESET", "unheard-of")
    with pytest.raises(SettingsError, match="there is no preset 'unheard-of'"):
        UserAgent()


def test_a_profile_may_have_other_options_for_a_preset() -> None:
    profile = Profile(name="p", models={"chat": {"kind": "x", "images": 1}}, presets={"many": {"chat": {"images": 6}}})
    assert profile.under("many").models == {"chat": {"kind": "x", "images": 6}}
    assert profile.under("other") is profile


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
