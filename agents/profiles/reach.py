"""Checks before a run loads anything: servers of chat models, and a hub for files missing in its cache."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agents.base.files import one_line
from agents.base.hub_reach import no_hub
from agents.base.revisions import MAIN, split_revision, with_revision
from agents.models.base import ModelError
from agents.profiles.profile import SERVED, Profile
from agents.profiles.weights import is_cached, is_hub_id

if TYPE_CHECKING:
    from agents.models.chat.openai_probe import Probe

CHAT = "chat"
"""Role of the model that is shown the photo."""

_log = logging.getLogger(__name__)


def unreachable(
    profile: Profile, roles: Collection[str], indices: Sequence[str], encoders: Sequence[str], *, servers: bool
) -> str | None:
    """Explain why models of these roles, or the organiser's search, cannot be reached.

    Args:
        profile: Profile whose models are checked.
        roles: Roles whose models are checked.
        indices: Ids of the searched data sets.
        encoders: Models that search them, as ``ORG/NAME@REVISION``.
        servers: Whether to test the servers' abilities, in one small request each.

    Returns:
        One line that also says what to do, or None if everything can be reached.
    """
    specs = [spec for role in roles for spec in _specs(profile.models.get(role, {}))]
    models = [*map(split_revision, encoders)]
    models += [split_revision(spec["path"], spec.get("revision", MAIN)) for spec in specs if "path" in spec]
    lacking = [
        with_revision(name, revision)
        for name, revision in dict.fromkeys(models)
        if is_hub_id(name) and not is_cached(name, revision=revision)
    ]
    lacking += [name for name in indices if not is_cached(name, "datasets")]
    if lacking and (why := no_hub()) is not None:
        return (
            f"the cache of the hub lacks {', '.join(lacking)}, and {why}: fetch them where it can be reached (hf download), or take a "
            "profile that needs no hub, such as embedded or server_embedded"
        )
    # Importing the servers' client takes half a second, which most profiles need not wait for.
    served = any(spec.get("kind") == SERVED for spec in specs)
    return _find_fault(profile, roles) if servers and served else None


def probe_profile(profile: Profile) -> Probe:
    """Test the abilities of the server of a profile's chat model.

    Raises:
        ModelError: The chat model is behind no server, or the server does not answer; the message says what to do.
    """
    from agents.models.chat.openai_probe import probe
    from agents.models.registry import ModelRegistry

    chat = profile.models.get("chat", {})
    for spec in _specs(chat):
        if spec.get("kind") == SERVED:
            is_chat = spec is chat
            boxes = profile.boxes if is_chat else "none"
            return probe(ModelRegistry(Path()).load(spec), sees=profile.sees and is_chat, boxes=boxes)
    raise ModelError(
        f"the chat model of profile {profile.name!r} is behind no server: take --profile server or server_embedded"
    )


def _specs(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a specification and those inside it."""
    if isinstance(value, Mapping):
        if "kind" in value:
            yield value
        for inner in value.values():
            yield from _specs(inner)


def _find_fault(profile: Profile, roles: Collection[str]) -> str | None:
    """Probe each model behind a server once; only the chat model itself is shown pictures."""
    from agents.models.chat.openai_probe import probe
    from agents.models.registry import ModelRegistry

    registry, seen = ModelRegistry(Path()), set[int]()
    for role in sorted(roles, key=lambda role: role != CHAT):
        for spec in _specs(profile.models.get(role, {})):
            if spec.get("kind") != SERVED:
                continue
            sees = profile.sees and role == CHAT and spec is profile.models[CHAT]
            try:
                model = registry.load(spec)  # which loads nothing: the model is elsewhere
                if id(model) in seen:
                    continue
                report = probe(model, sees=sees, thorough=False, boxes=profile.boxes if sees else "none")
            except ModelError as error:
                return one_line(error) + _name_role(role)
            if report.fault is not None:
                return f"{one_line(report.fault)} (--no-probe asks nothing){_name_role(role)}"
            _log.log(logging.WARNING if report.lacks else logging.INFO, "%s", report.summary)
            seen.add(id(model))
    return None


def _name_role(role: str) -> str:
    """Say whose model failed, if it is not the chat model: its name may be that of a base profile, which nobody typed."""
    return "" if role == CHAT else f"; this preset asks it as {role}: [models.{role}] of the profile names another"
