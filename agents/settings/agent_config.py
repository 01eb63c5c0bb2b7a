"""Configuration of an agent: a preset, a profile and the prompts, each read once. It imports no library of models."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agents.base.cache_folder import DEFAULT_CACHE, default_cache
from agents.base.named import canonical, parse_name
from agents.profiles.profile import MODELS, PROMPTS, Profile, SettingsError, load_profile
from agents.settings.presets import Settings, load_settings, parse_key, unknown_variables

if TYPE_CHECKING:
    from agents.asking.prompts import PromptLibrary
    from agents.models.base import Label, TextLine
    from agents.models.reply_cache import ReplyStore
    from agents.profiles.model_set import ModelSet, RegistryFactory

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentConfig:
    """A preset under a profile, as the evaluator's agent runs it: the evaluator brings the search.

    ``agents.settings.run_config.RunConfig`` also opens searches, for commands.
    """

    preset: str  # name of the preset, or the path of its file
    profile: Profile  # the models by role, with the profile's options for this preset
    settings: Settings  # the preset's settings under the profile, changes of the command line included
    cache: Path = DEFAULT_CACHE  # folder of indices, pictures, pages and converted weights

    @classmethod
    def from_environment(cls) -> Self:
        """``CRAG_PRESET`` (default ``best``) under ``CRAG_PROFILE`` (default ``gpu`` with CUDA, else ``embedded``).

        A variable ``CRAG_...`` that names nothing is logged and does not stop the agent: the evaluator's machine may have variables of its
        own, such as ``CRAG_MOCK_API_URL``. Commands, the preflight among them, refuse it. Weights are read below ``CRAG_CACHE``.

        Raises:
            SettingsError: Preset or profile are unknown or malformed.
        """
        profile = os.environ.get("CRAG_PROFILE")
        if not profile:
            import torch  # only an agent that is built needs it

            profile = "gpu" if torch.cuda.is_available() else "embedded"
        config, unknown = cls._read(os.environ.get("CRAG_PRESET", "best"), load_profile(profile), cache=default_cache())
        for message in unknown:
            log.warning("%s", message)
        return config

    @classmethod
    def _read(
        cls,
        preset: str,
        profile: Profile,
        *,
        without: Sequence[str] = (),
        overrides: Sequence[str] = (),
        is_collection: bool = False,
        **fields: Any,  # further fields of the configuration
    ) -> tuple[Self, list[str]]:
        """Return the configuration, and the result of ``unknown_variables``."""
        whole = load_settings(preset, profile, overrides=overrides, collection=is_collection)
        settings = whole.without(without)
        left_out = {*whole.stage_classes} - {*settings.stage_classes}
        for text in overrides:
            if (stage := parse_key(text).partition(".")[0]) in left_out:
                raise SettingsError(f"{text} would change nothing: stage {stage!r} is left out; drop one of the two")
        config = cls(canonical(preset), profile, settings, **fields)
        if profile.beside:
            from agents.settings.stage_needs import list_roles  # it reads prompts

            config = replace(config, profile=profile.with_loaded(list_roles(settings, config.prompts)))
        return config, unknown_variables(whole, parse_name(preset), profile)

    @cached_property
    def prompts(self) -> PromptLibrary:
        """Prompts for the profile's chat model, with the profile's limits of their replies."""
        from agents.asking.prompts import PromptLibrary

        return PromptLibrary(PROMPTS, self.settings.limits.reply_tokens, sees=self.profile.sees)

    @property
    def gate_note(self) -> str | None:
        """Warning that no gate is fitted for the models of this run, though the preset has gates; else None."""
        if not self.settings.lacks_gate:
            return None
        models = MODELS.join(self.profile.gate_models)
        return (
            f"preset {parse_name(self.preset)!r} has no gate fitted for {models}: when it abstains is left to its rules and cuts; "
            "docs/calibration.md says how one is fitted"
        )

    @property
    def digest(self) -> str:
        """Short name of the content of the settings: a run is not resumed after its preset has been changed."""
        return hashlib.sha256(self.settings.model_dump_json(exclude={"description"}).encode()).hexdigest()[:12]

    @property
    def name_source(self) -> Callable[[str], str] | None:
        """Names sources in records for people; None: by their URLs."""
        return None

    @property
    def has_changed(self) -> Callable[[str], bool]:
        """Tells by the URL of a source whether its file changed after it was indexed."""
        return lambda _: False

    def get_k(self, stage: str) -> int | None:
        """Return how many chunks a stage keeps; None for a stage without such an option."""
        k = getattr(getattr(self.settings, stage, None), "k", None)
        return k if isinstance(k, int) else None

    def models(self, registry: RegistryFactory | None = None, *, replies: ReplyStore | None = None) -> ModelSet:
        """Set up the models of the profile; each is loaded when it is first asked for.

        Args:
            registry: Loads the models; None: ``ModelRegistry``.
            replies: Keeps the replies to deterministic requests.
        """
        from agents.asking.prompts import PHOTO_IN_WORDS
        from agents.methods.domains import load_domains
        from agents.models.registry import ModelRegistry
        from agents.profiles.model_set import ModelSet
        from agents.profiles.weights import with_found_weights
        from agents.texts.injection import neutral

        def describe(labels: Sequence[Label], lines: Sequence[TextLine]) -> str:
            read = "\n".join(line.text for line in lines)  # in one piece: an order may go over several lines
            if self.settings.guard.injection:
                read = neutral(read, citations=False)
            texts = [line for line in read.split("\n") if line.strip()]
            return self.prompts[PHOTO_IN_WORDS].render(labels=labels, lines=texts)

        descriptions: Mapping[str, str] = {domain.name: domain.description for domain in load_domains().values()}
        make: Callable[..., ModelRegistry] = registry or partial(ModelRegistry, replies=replies)
        return ModelSet(with_found_weights(self.profile), self.cache, describe, domains=descriptions, registry=make)
