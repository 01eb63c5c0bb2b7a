"""A profile made ready for a preset: with the preset's LoRA adapter, what the memory plan chooses, and weights that can be found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.memory_plan import with_planned_memory
from agents.prompts import PromptLibrary
from agents.runtime.revisions import Pin, is_hub_id, loadable, pins
from agents.settings import Profile, Settings, SettingsError


def equip(settings: Settings, profile: Profile, prompts: PromptLibrary) -> Profile:
    """The profile as it is loaded under these settings.

    Raises:
        SettingsError: The preset names a LoRA adapter and the profile's chat model takes none, or a model is missing.
        agents.memory_plan.MemoryPlanError: The models do not fit the GPU.
        agents.runtime.architecture.ArchitectureError: The configuration of a model is not to be had.
    """
    return with_found_weights(with_planned_memory(settings, with_lora(settings, profile), prompts))


def with_found_weights(profile: Profile) -> Profile:
    """The profile with folders for the models that the local Hugging Face cache has under a commit alone."""
    known = pins()

    def found(spec: Mapping[str, Any]) -> dict[str, Any]:
        inner = {key: found(value) if isinstance(value, Mapping) else value for key, value in spec.items()}
        path = inner.get("path")
        if isinstance(path, str) and is_hub_id(path):
            inner["path"] = loadable(path, known.get(path, Pin()).revision)
        return inner

    return profile.model_copy(update={"models": {role: found(spec) for role, spec in profile.models.items()}})


def with_lora(settings: Settings, profile: Profile) -> Profile:
    """The profile with the preset's adapter on its chat model.

    Raises:
        SettingsError: The chat model is of a kind that takes no adapter.
    """
    if settings.lora is None:
        return profile
    chat = profile.models.get("chat", {})
    if chat.get("kind") != "vllm":
        raise SettingsError(
            f"the preset names the LoRA adapter {settings.lora.name!r}, which takes a chat model of kind 'vllm'; "
            f"that of profile {profile.name!r} is of kind {chat.get('kind')!r}: merge the adapter into the weights, or "
            "put the preset's [lora] under [profiles.NAME.lora] of a profile with vLLM"
        )
    return profile.model_copy(
        update={"models": {**profile.models, "chat": {**chat, "lora": settings.lora.model_dump()}}}
    )
