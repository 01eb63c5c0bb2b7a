"""Roles that name the same model share it, one engine too; what differs is told before anything loads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.models.base import ModelError
from agents.models.chat.vllm_chat import VllmChat
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import Profile, SearchModels, SettingsError, load_profile
from agents.settings.presets import settings_from
from agents.settings.run_config import RunConfig
from apps.preflight.checkpoints import list_checkpoints
from tests.models.tiny_checkpoints import save_llama

ROUTED = settings_from({"stages": ["route", "answer", "finalise"], "route": {"flags": "model"}})
"""Asks the large model and the small one."""


def profile(models: Mapping[str, dict[str, Any]]) -> Profile:
    return Profile(name="p", models=dict(models), search=SearchModels(kind="embedded"))


def test_two_roles_of_one_model_share_it(tmp_path: Path) -> None:
    spec = {"kind": "transformers", "path": str(save_llama(tmp_path))}
    models = ModelSet(profile({"chat": spec, "small_chat": dict(reversed(spec.items()))}), Path("unused"))
    assert models.chat() is models.chat("small_chat")


def test_two_roles_of_one_model_start_one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[dict[str, Any]] = []

    def engine(**options: Any) -> object:
        started.append(options)
        return object()

    monkeypatch.setattr(VllmChat, "load", engine)
    table = dict(load_profile("gpu").models["chat"])
    shared = profile({"chat": table, "small_chat": dict(table)})
    models = ModelSet(shared, Path("unused"))
    assert models.get("chat") is models.get("small_chat")
    assert len(started) == 1 and 0 < started[0]["gpu_memory_utilization"] < 1
    monkeypatch.undo()
    (row,) = list_checkpoints(RunConfig("routed", shared, ROUTED))
    assert row.roles == ("small_chat", "chat")


def test_one_model_with_two_sets_of_options_would_be_loaded_twice_and_is_refused() -> None:
    table = dict(load_profile("gpu").models["chat"])
    with pytest.raises(
        SettingsError, match=r"small_chat, chat name meta-llama.*different options \(context\).*one engine"
    ):
        list_checkpoints(
            RunConfig("routed", profile({"chat": table, "small_chat": {**table, "context": 2048}}), ROUTED)
        )


def test_a_role_without_a_model_lists_those_there_are() -> None:
    with pytest.raises(ModelError, match=r"'reranker'.*it has: chat"):
        ModelSet(profile({"chat": {"kind": "llama-cpp"}}), Path("unused")).get("reranker")
