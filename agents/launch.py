"""Putting an agent together: a preset, a profile, a search pipeline.

Nothing heavy is imported before ``prepare`` has told Hugging Face's libraries where their cache is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.secrets import keep_out_of_logs
from agents.settings import PRESETS, PROFILES, PROMPTS, ROOT, Profile, Settings, load_profile, load_settings, names

if TYPE_CHECKING:
    from agents.base_agent import BaseAgent
    from agents.model_set import ModelSet, RegistryFactory
    from agents.models.base import Label, TextLine
    from agents.models.chat.reply_cache import ReplyStore
    from agents.runtime.start_up import StartUp
    from agents.trace import Listener

DEFAULT_CACHE = ROOT / ".cache"


def preset_names() -> list[str]:
    """The presets that can be run."""
    return names(PRESETS)


def profile_names() -> list[str]:
    """The profiles that can be run."""
    return names(PROFILES)


def prepare(cache: Path, profile: str) -> None:
    """Point Hugging Face's libraries to the local indices of the embedded profile; call it before they are imported.

    Raises:
        RuntimeError: They have been imported already, with another cache.
    """
    if load_profile(profile).search.kind == "embedded":
        from agents.search.hub import use_local_hub

        use_local_hub(cache / "hub")


def build_pipeline(
    profile: str, *, split: str, web: bool = True, images: bool = True, cache: Path = DEFAULT_CACHE
) -> Any:
    """The organiser's search pipeline over the indices of a split; None where neither search is wanted.

    Raises:
        agents.search.hits.SearchError: An index is missing; the message says which command builds it.
    """
    if not (web or images):
        return None
    from agents.search.pipelines import open_pipeline

    search = load_profile(profile).search
    tag = split.replace("_", "-")
    pipeline = open_pipeline(
        kind=search.kind,
        image_model=search.image_model,
        text_model=search.text_model,
        image_index=search.image_index.format(split=tag),
        web_index=search.web_index.format(split=tag) if web else None,
        cache=cache,
    )
    pipeline.image_search = images  # beside the organiser's own ``web_search``; the gateway heeds both
    pipeline.picture_folder, pipeline.page_folder = cache / "image_cache", cache / "page_cache"
    return pipeline


def settings_of(preset: str, profile: str, *, without: Sequence[str] = (), overrides: Sequence[str] = ()) -> Settings:
    """The settings that an agent runs with.

    Args:
        without: Stages, or groups of stages, that are left out.
        overrides: Settings that are replaced, as ``queries.split=none`` (see ``load_settings``).

    Raises:
        agents.settings.SettingsError: The preset, the profile, a stage to leave out or a setting is unknown.
    """
    return load_settings(preset, load_profile(profile), overrides=overrides).without(without)


def digest(settings: Settings) -> str:
    """A short name of the content of settings: a run is not gone on with after its preset has been changed."""
    return hashlib.sha256(settings.model_dump_json(exclude={"description"}).encode()).hexdigest()[:12]


def build_models(
    profile: str | Profile, cache: Path = DEFAULT_CACHE, registry: RegistryFactory | None = None
) -> ModelSet:
    """The models of a profile, each loaded when it is first asked for.

    Args:
        profile: Its name, or the profile itself.
        registry: What makes the registry that loads them; ``ModelRegistry`` if None. Benchmarks pass one that counts.

    Raises:
        agents.settings.SettingsError: There is no such profile, or it is malformed.
    """
    from agents.methods.domains import load_domains
    from agents.model_set import ModelSet
    from agents.models.registry import ModelRegistry
    from agents.prompts import PromptLibrary

    sight = PromptLibrary(PROMPTS)["image_in_words"]

    def describe(labels: Sequence[Label], lines: Sequence[TextLine]) -> str:
        return sight.render(labels=labels, lines=lines)

    descriptions = {domain.name: domain.description for domain in load_domains().values()}
    chosen = load_profile(profile) if isinstance(profile, str) else profile
    return ModelSet(chosen, cache, describe, domains=descriptions, registry=registry or ModelRegistry)


def build_agent(
    preset: str = "best",
    profile: str = "embedded",
    pipeline: Any = None,
    *,
    without: Sequence[str] = (),
    overrides: Sequence[str] = (),
    trace_path: Path | None = None,
    cache: Path = DEFAULT_CACHE,
    replies: ReplyStore | None = None,
) -> BaseAgent:
    """An agent that runs a preset under a profile.

    Args:
        without: See ``settings_of``.
        overrides: See ``settings_of``.
        replies: Where replies of deterministic requests are kept; None: each is asked (see ``agents/models/chat/reply_cache.py``).

    Raises:
        agents.settings.SettingsError: The preset, the profile, a stage to leave out or a setting is unknown.
        agents.memory_plan.MemoryPlanError: The models do not fit the GPU.
        agents.runtime.architecture.ArchitectureError: What a model takes of the GPU cannot be told.
    """
    from agents.crag_agent import CragAgent
    from agents.models.registry import ModelRegistry
    from agents.prompts import PromptLibrary
    from agents.runtime.equipment import equip

    keep_out_of_logs()
    settings = settings_of(preset, profile, without=without, overrides=overrides)
    ready = equip(settings, load_profile(profile), PromptLibrary(PROMPTS))
    models = build_models(ready, cache, partial(ModelRegistry, replies=replies))
    return CragAgent(pipeline, settings=settings, models=models, trace_path=trace_path)


def open_replies(folder: Path) -> ReplyStore:
    """A store of replies for ``build_agent``; several runs may share its folder.

    Raises:
        agents.models.base.ModelError: The folder cannot be made, or what it holds is damaged.
    """
    from agents.models.chat.reply_cache import ReplyStore

    return ReplyStore(folder)


def model_names(agent: BaseAgent) -> dict[str, str]:
    """Role to name of the models that an agent of ``build_agent`` has loaded so far; empty for agents of another make."""
    from agents.crag_agent import CragAgent

    return agent.models.names() if isinstance(agent, CragAgent) else {}


def trace_to(agent: BaseAgent, path: Path | None, listen: Listener | None = None) -> None:
    """Let an agent of ``build_agent`` write its traces elsewhere from now on, its calls counted from 0 again.

    Args:
        path: The file; None for none.
        listen: Called with the trace records of each batch, one a turn, before the batch's answers are returned.
    """
    from agents.crag_agent import CragAgent

    if isinstance(agent, CragAgent):
        agent.trace_to(path, listen)


def warm_up(agent: BaseAgent, *, blank_turn: bool = True) -> StartUp | None:
    """Let an agent of ``build_agent`` load the models of its preset, so that its first call pays for answering alone.

    Args:
        blank_turn: Whether a blank turn goes through the stages too, which on a CPU costs more than it saves.

    Returns:
        How long each step took; None for agents of another make.
    """
    from agents.crag_agent import CragAgent
    from agents.runtime.start_up import start_up

    return start_up(agent, blank_turn=blank_turn) if isinstance(agent, CragAgent) else None
