"""The checkpoints that a preset loads under a profile, with the options each is loaded with."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agents.base.revisions import MAIN
from agents.models.registry import drop_properties, list_options
from agents.profiles.profile import SettingsError
from agents.settings.run_config import RunConfig
from agents.settings.stage_needs import find_searches, list_roles

SEARCH_PICTURES = "search: pictures"
SEARCH_WEB = "search: web"
_PACKAGED = ("efficientnet-lite2", "minilm")  # weights that come inside Python packages


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint in memory: a model id or folder, its kind, its roles and its options.

    The kind ``organiser`` is a model of the search pipeline. The options include the defaults of the kind.
    """

    path: str
    kind: str
    roles: tuple[str, ...]
    options: Mapping[str, Any]

    @property
    def revision(self) -> str:
        """Commit or branch to load."""
        return str(self.options.get("revision", MAIN))

    @property
    def on_gpu(self) -> bool:
        """Whether it takes memory of the GPU, if there is one."""
        return self.kind == "vllm" or str(self.options.get("device", "cpu")).startswith(("cuda", "auto"))


def list_checkpoints(config: RunConfig) -> list[Checkpoint]:
    """List the checkpoints that the stages of a preset and the organiser's search pipeline can load.

    Models that come inside Python packages are not listed. Equal specifications are one checkpoint in memory, as in ``ModelRegistry``.

    Raises:
        SettingsError: The profile names no model for a role of the preset, or two roles would each start an engine of one model.
        ModelError: A kind is unknown.
    """
    profile = config.profile
    checkpoints: dict[str, Checkpoint] = {}
    for role in list_roles(config.settings, config.prompts):
        if role not in profile.models:
            role_names = ", ".join(sorted(profile.models))
            raise SettingsError(f"profile {profile.name!r} names no model for the role {role!r}; it has: {role_names}")
        for part in _find_checkpoint_specs(profile.models[role]):
            key = json.dumps(part, sort_keys=True, default=str)
            roles = checkpoints[key].roles if key in checkpoints else ()
            options = {**list_options(part["kind"]), **part}
            checkpoints[key] = Checkpoint(
                str(part["path"]), part["kind"], tuple(dict.fromkeys((*roles, role))), options
            )
    engines: dict[str, Checkpoint] = {}
    for each in checkpoints.values():
        # Roles share an engine where their tables are alike; else its weights would be in memory twice.
        other = engines.setdefault(each.path, each) if each.kind == "vllm" else each
        if other is not each:
            names = ", ".join(sorted(key for key in each.options if each.options[key] != other.options.get(key)))
            raise SettingsError(
                f"the roles {', '.join((*other.roles, *each.roles))} name {each.path} with different options ({names}), "
                "so that it would be loaded twice: give them the same table and they share one engine"
            )
    return [*checkpoints.values(), *_list_search_models(config)]


def _find_checkpoint_specs(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a specification and those inside it that name a checkpoint."""
    if "path" in spec and "kind" in spec:
        yield drop_properties(spec)
    for value in spec.values():
        if isinstance(value, Mapping) and "kind" in value:
            yield from _find_checkpoint_specs(value)


def _list_search_models(config: RunConfig) -> Iterator[Checkpoint]:
    """Yield the encoders of the organiser's pipeline.

    It loads them as they were saved, in float32, and puts them on the GPU if there is one.
    """
    images, web = find_searches(config.settings)
    search = config.profile.search
    device = "cuda" if search.kind == "organiser" else "cpu"
    options = {"device": device, "dtype": "float32", "batch_size": 16}
    for is_searched, path, revision, role in (
        (images, search.image_model, search.image_revision, SEARCH_PICTURES),
        (web, search.text_model, search.text_revision, SEARCH_WEB),
    ):
        if is_searched and path not in _PACKAGED:
            yield Checkpoint(path, "organiser", (role,), {**options, "revision": revision})
