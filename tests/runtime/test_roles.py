"""What a preset can load is told from its settings; the stages' own code is the witness."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from agents.launch import preset_names
from agents.pipeline import STAGES
from agents.prompts import PromptLibrary
from agents.runtime.checkpoints import SEARCH_PICTURES, SEARCH_WEB, checkpoints_of
from agents.runtime.roles import MODELS_OF, PROMPTS_OF, roles_of
from agents.settings import PROMPTS, Profile, SearchModels, Settings, SettingsError, load_profile, load_settings

LIBRARY = PromptLibrary(PROMPTS)


@pytest.mark.parametrize("name", sorted(STAGES))
def test_every_model_that_a_stage_asks_for_is_known(name: str) -> None:
    source = Path(inspect.getfile(STAGES[name])).read_text(encoding="utf-8")
    asked = {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "models"
    }
    assert ("chat" in asked) == (name in PROMPTS_OF), f"{name}: agents/runtime/roles.py has to name its prompts"
    assert bool(asked - {"chat"}) == (name in MODELS_OF), f"{name}: agents/runtime/roles.py has to name its models"
    table = inspect.getsource(inspect.getmodule(roles_of))  # type: ignore[arg-type]
    for role in asked - {"chat"}:
        assert f'"{role}"' in table
    for prompt in re.findall(r"prompts\[\"(\w+)\"\]", source):
        assert f'"{prompt}"' in table, f"{name}: agents/runtime/roles.py has to name {prompt}"


def test_roles_follow_the_settings() -> None:
    rules = Settings(stages=("understand", "queries", "answer", "finalise"))
    assert roles_of(rules, LIBRARY) == ("chat",)
    assert roles_of(Settings(stages=("understand", "finalise")), LIBRARY) == ()
    flags = Settings.model_validate({"stages": ["route", "finalise"], "route": {"flags": "model"}})
    assert roles_of(flags, LIBRARY) == ("small_chat",)
    fine = Settings.model_validate({"stages": ["two_stage_rerank"], "two_stage_rerank": {"coarse": False}})
    assert roles_of(fine, LIBRARY) == ("fine_reranker",)


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("profile", ["embedded", "gpu"])
def test_each_profile_names_a_model_for_every_role_of_each_preset(preset: str, profile: str) -> None:
    checkpoints_of(load_settings(preset, profile), load_profile(profile), LIBRARY)


def test_checkpoints_inside_others_are_found_once_with_the_defaults_of_their_kind() -> None:
    encoder = {"kind": "text-encoder", "path": "org/encoder", "device": "cuda"}
    profile = Profile(
        name="p",
        models={
            "reranker": {"kind": "cosine", "encoder": encoder},
            "text_encoder": encoder,
            "ocr": {"kind": "rapidocr"},
        },
        search=SearchModels(kind="organiser"),
    )
    settings = Settings.model_validate(
        {"stages": ["image_search", "select_entity", "image_text", "rerank"], "select_entity": {"by": "rules"}}
    )
    one, clip = checkpoints_of(settings, profile, LIBRARY)
    assert one.path == "org/encoder" and set(one.roles) == {"text_encoder", "reranker"}
    assert one.options["dtype"] == "float32" and one.options["batch_size"] == 64 and one.on_gpu
    assert clip.roles == (SEARCH_PICTURES,) and clip.path == "openai/clip-vit-large-patch14-336" and clip.on_gpu


def test_without_web_search_the_text_encoder_of_the_pipeline_is_not_loaded() -> None:
    profile = load_profile("gpu")
    both = checkpoints_of(Settings(stages=("image_search", "web_search")), profile, LIBRARY)
    assert [entry.roles for entry in both] == [(SEARCH_PICTURES,), (SEARCH_WEB,)]
    assert [entry.roles for entry in checkpoints_of(Settings(stages=("image_search",)), profile, LIBRARY)] == [
        (SEARCH_PICTURES,)
    ]


def test_a_role_without_a_model_is_named() -> None:
    with pytest.raises(SettingsError, match="'detector'"):
        checkpoints_of(Settings(stages=("ground",)), Profile(name="p", models={}), LIBRARY)
