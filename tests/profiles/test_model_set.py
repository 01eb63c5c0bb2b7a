"""Roles that name the same model share it, one engine too; what differs is told before anything loads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agents.models.base import ModelError
from agents.models.chat.vllm_chat import VllmChat
from agents.profiles.model_set import ModelSet
from agents.profiles.profile import PROFILES, Profile, SearchModels, SettingsError, load_profile, names
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


class OwnChat:
    """A kind of another package, which knows nothing of boxes."""

    name = "own"

    def __init__(self, size: int = 1) -> None:
        self.size = size


OWN = {"kind": f"{__name__}:OwnChat", "size": 2}


def test_the_form_of_boxes_is_a_property_of_any_chat_model_and_no_option_of_its_kind() -> None:
    own = profile({"chat": {**OWN, "boxes": "xyxy-1000"}, "small_chat": OWN})
    models = ModelSet(own, Path("unused"))
    assert (own.boxes, models.boxes) == ("xyxy-1000", "xyxy-1000")
    assert models.get("chat") is models.get("small_chat") and models.get("chat").size == 2
    assert models.measure_sent((3000, 2000)) == (3000, 2000), "it does not say to which size it scales pictures"
    models.get("chat").max_image_side = 1500
    assert models.measure_sent((3000, 2000)) == (1500, 1000)
    models.get("chat").box_fault = "wrong ones"
    assert models.boxes == "none"


def test_a_replaced_model_has_no_boxes_until_its_form_is_given() -> None:
    served = profile({"chat": {"kind": "openai", "model": "qwen3-vl", "boxes": "xyxy-1000"}})
    assert served.with_server_options({"attempts": 1}).boxes == "xyxy-1000"
    other = served.with_chat_model("llava")
    assert other.boxes == "none" and other.with_server_options({"boxes": "pixels"}).boxes == "pixels"
    weights = profile({"chat": {"kind": "vllm", "path": "a/b", "boxes": "pixels", "revision": "c"}})
    assert weights.with_chat_model("d/e").models["chat"] == {"kind": "vllm", "path": "d/e"}


def test_no_model_that_does_not_see_has_boxes_and_an_unknown_form_is_named() -> None:
    blind = profile({"chat": {"kind": "composed", "boxes": "pixels", "text": OWN}})
    assert blind.boxes == "none" == profile({"chat": OWN}).boxes == profile({}).boxes
    with pytest.raises(
        ValueError, match=r"boxes of .models.chat. is 'corners', not one of: none, xyxy-1000, yxyx-1000"
    ):
        profile({"chat": {**OWN, "boxes": "corners"}})


def test_the_profiles_that_give_boxes_are_those_of_families_whose_form_is_known() -> None:
    forms = {name: form for name in names(PROFILES) if (form := load_profile(name).boxes) != "none"}
    assert forms == {"gpu_current": "xyxy-1000", "gpu_current_fp8": "xyxy-1000", "gpu_qwen": "pixels"}
    own = load_profile("gpu_current")
    assert own.with_chat_model("org/other").boxes == "none"


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
