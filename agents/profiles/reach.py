"""What a run needs from elsewhere, asked before anything is loaded: servers of chat models, and a hub for what its cache lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.base.files import one_line
from agents.base.hub_reach import no_hub
from agents.base.revisions import MAIN, split_revision, with_revision
from agents.models.base import ModelError
from agents.profiles.profile import SERVED, Profile
from agents.profiles.weights import cached, is_hub_id


def unreachable(
    profile: Profile, roles: Collection[str], indices: Sequence[str], encoders: Sequence[str], *, servers: bool
) -> str | None:
    """Explain why models of these roles, or the organiser's search, cannot be reached.

    Args:
        profile: Profile whose models are checked.
        roles: Roles whose models are checked.
        indices: Ids of the data sets that are searched.
        encoders: Models that search them, as ``ORG/NAME@REVISION``.
        servers: Whether servers are asked, for one token each.

    Returns:
        One line that also says what to do, or None if everything can be reached.
    """
    specs = [spec for role in roles for spec in _specs(profile.models.get(role, {}))]
    models = [*map(split_revision, encoders)]
    models += [split_revision(spec["path"], spec.get("revision", MAIN)) for spec in specs if "path" in spec]
    lacking = [
        with_revision(name, revision)
        for name, revision in dict.fromkeys(models)
        if is_hub_id(name) and not cached(name, revision=revision)
    ]
    lacking += [name for name in indices if not cached(name, "datasets")]
    if lacking and (why := no_hub()) is not None:
        return (
            f"the cache of the hub lacks {', '.join(lacking)}, and {why}: fetch them where it can be reached (hf download), or take a "
            "profile that needs no hub, such as embedded or server_embedded"
        )
    return _no_server(specs) if servers else None


def _specs(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a specification and those inside it."""
    if isinstance(value, Mapping):
        if "kind" in value:
            yield value
        for inner in value.values():
            yield from _specs(inner)


def _no_server(specs: Sequence[Mapping[str, Any]]) -> str | None:
    from agents.models.registry import ModelRegistry

    registry, asked = ModelRegistry(Path()), set[int]()
    for spec in specs:
        if spec.get("kind") != SERVED:
            continue
        try:
            model = registry.load(spec)  # which loads nothing: the model is elsewhere
            if id(model) not in asked:
                model.reach()
        except ModelError as error:
            return one_line(error)
        asked.add(id(model))
    return None
