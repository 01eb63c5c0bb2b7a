"""Where the local Hugging Face cache keeps the weights of a profile's models."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from agents.base.data_folder import ROOT, data_path
from agents.base.files import parse_json
from agents.base.hub_reach import no_hub
from agents.base.revisions import MAIN, is_commit
from agents.profiles.profile import Profile

SUBMISSION = ROOT / "aicrowd.json"
"""The models of a submission with the commit of each; the evaluator's cache is filled from it."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_hub_id(path: str) -> bool:
    """Return whether a path names a model of the hub instead of an existing folder."""
    return bool(_HUB_ID.fullmatch(path)) and not Path(path).is_dir() and not data_path(path).is_dir()


def submitted_revisions(path: Path = SUBMISSION) -> dict[str, str]:
    """Return model to revision of ``aicrowd.json``; empty if the file is missing or unreadable."""
    try:
        return {str(model["repo_id"]): str(model["revision"]) for model in parse_json(path.read_bytes())["hf_models"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def is_cached(name: str, kind: Literal["models", "datasets"] = "models", revision: str = MAIN) -> bool:
    """Return whether the local cache has a model or data set at a commit, or at any revision if none is named."""
    snapshots = _folder(name, kind) / "snapshots"
    if is_commit(revision):
        return (snapshots / revision).is_dir()
    return snapshots.is_dir() and any(snapshots.iterdir())


def cached_revision(model: str) -> str:
    """Return the commit of a model in the local cache.

    Returns:
        The commit of ``main``, else the only cached one, else "".
    """
    reference, snapshots = _folder(model) / "refs" / "main", _folder(model) / "snapshots"
    if reference.is_file():
        return reference.read_text(encoding="ascii").strip()
    commits = [path.name for path in snapshots.iterdir()] if snapshots.is_dir() else []
    return commits[0] if len(commits) == 1 else ""


def resolve_weights(model: str, revision: str = "", *, pinned: bool = False) -> str:
    """Return the name to load a model by: its id, or the folder of its snapshot if the cache cannot find it by id.

    A cache filled by commit, as the evaluator's is, has no ``refs/main``. Offline, a library that asks for the model by id needs
    it (huggingface_hub 0.36, ``try_to_load_from_cache``). The snapshot of ``revision`` is taken, else the only one. A commit that is
    ``pinned`` allows only its own snapshot, and only if no hub could complete it.
    """
    if (_folder(model) / "refs" / "main").is_file():
        return model
    if pinned:
        snapshot = _folder(model) / "snapshots" / revision
        return str(snapshot) if snapshot.is_dir() and no_hub() is not None else model
    for commit in (revision, cached_revision(model)):
        snapshot = _folder(model) / "snapshots" / commit
        if commit and snapshot.is_dir():
            return str(snapshot)
    return model


def with_found_weights(profile: Profile) -> Profile:
    """Give the models that the local cache has only by commit the folders of their snapshots."""
    revisions = submitted_revisions()

    def replace_paths(spec: Mapping[str, Any]) -> dict[str, Any]:
        inner = {key: replace_paths(value) if isinstance(value, Mapping) else value for key, value in spec.items()}
        path = inner.get("path")
        if isinstance(path, str) and is_hub_id(path):
            own = str(inner.get("revision", MAIN))
            inner["path"] = resolve_weights(
                path, own if is_commit(own) else revisions.get(path, ""), pinned=is_commit(own)
            )
        return inner

    return profile.model_copy(update={"models": {role: replace_paths(spec) for role, spec in profile.models.items()}})


def _folder(model: str, kind: str = "models") -> Path:
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"{kind}--{model.replace('/', '--')}"
