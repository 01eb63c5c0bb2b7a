"""The checkpoints that a preset loads under a profile, with the options each is loaded with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.launch import Launch
from agents.models.base import ModelError
from agents.models.registry import options_of
from agents.runtime.roles import roles_of, searches_of
from agents.settings import SettingsError

SEARCH_PICTURES = "search: pictures"
SEARCH_WEB = "search: web"
_CHECKPOINT_IDS = ("efficientnet-lite2", "minilm")  # names of packaged weights, which are no checkpoints


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint in memory.

    Attributes:
        path: A model id, or a folder.
        kind: Kind of the registry; ``organiser`` for the models of the search pipeline.
        roles: Who uses it.
        options: Its options, the defaults of its kind included.
    """

    path: str
    kind: str
    roles: tuple[str, ...]
    options: Mapping[str, Any]

    @property
    def on_gpu(self) -> bool:
        """Whether it takes memory of the GPU."""
        return self.kind == "vllm" or str(self.options.get("device", "cpu")).startswith("cuda")


def checkpoints_of(launch: Launch) -> list[Checkpoint]:
    """The checkpoints that the stages of a preset can ask for, and those of the organiser's search pipeline.

    Models that come inside Python packages have no checkpoint and are not listed. Specifications that are alike are one
    checkpoint in memory, as in ``ModelRegistry``.

    Raises:
        SettingsError: The profile names no model for a role of the preset, a kind is unknown, or two roles would start an engine
            each of one model.
    """
    profile = launch.profile.with_lora(launch.settings.lora)
    found: dict[str, Checkpoint] = {}
    for role in roles_of(launch.settings, launch.prompts):
        spec = profile.models.get(role)
        if spec is None:
            raise SettingsError(
                f"profile {profile.name!r} names no model for the role {role!r}, which the preset asks for; "
                f"it has: {', '.join(sorted(profile.models))}"
            )
        for part in _with_paths(spec):
            key = json.dumps(part, sort_keys=True, default=str)
            known = found.get(key)
            roles = (*known.roles, role) if known and role not in known.roles else (known.roles if known else (role,))
            options = {**_defaults(part["kind"]), **part}
            found[key] = Checkpoint(str(part["path"]), part["kind"], roles, options)
    _require_one_engine_each(list(found.values()))
    return [*found.values(), *_search_models(launch)]


def _require_one_engine_each(checkpoints: Sequence[Checkpoint]) -> None:
    """Roles share an engine where their tables are alike; where they differ, its weights would be in memory twice."""
    engines: dict[str, Checkpoint] = {}
    for each in checkpoints:
        if each.kind != "vllm":
            continue
        other = engines.setdefault(each.path, each)
        if other is not each:
            names = sorted(key for key in each.options if each.options[key] != other.options.get(key))
            raise SettingsError(
                f"the roles {', '.join((*other.roles, *each.roles))} name {each.path} with different options "
                f"({', '.join(names)}), so that it would be loaded twice: give them the same table and they share one engine"
            )


def _with_paths(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A specification and those inside it that name a checkpoint."""
    if "path" in spec and "kind" in spec:
        yield spec
    for value in spec.values():
        if isinstance(value, Mapping) and "kind" in value:
            yield from _with_paths(value)


def _defaults(kind: str) -> dict[str, Any]:
    try:
        return options_of(kind)
    except ModelError as error:
        raise SettingsError(str(error)) from error


def _search_models(launch: Launch) -> Iterator[Checkpoint]:
    """The organiser's pipeline loads its encoders as they were saved, in float32, and puts them on the GPU where there is one."""
    images, web = searches_of(launch.settings)
    search = launch.profile.search
    device = "cuda" if search.kind == "organiser" else "cpu"
    for wanted, path, role in ((images, search.image_model, SEARCH_PICTURES), (web, search.text_model, SEARCH_WEB)):
        if wanted and path not in _CHECKPOINT_IDS:
            yield Checkpoint(path, "organiser", (role,), {"device": device, "dtype": "float32", "batch_size": 16})
