"""Revisions of hub models: which commit a submission takes, and where the local Hugging Face cache keeps it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from agents.settings import ROOT

REVISIONS = ROOT / "agents" / "data" / "model_revisions.toml"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Pin:
    """The revision of a model that a submission takes, empty where nobody has said one; files that are not wanted."""

    revision: str = ""
    ignore_patterns: tuple[str, ...] = ()


def is_commit(revision: str) -> bool:
    """Whether a revision stays what it is: a branch moves."""
    return bool(_COMMIT.fullmatch(revision))


def is_hub_id(path: str) -> bool:
    """Whether a path names a model of the hub, and no folder that is there."""
    return bool(_HUB_ID.fullmatch(path)) and not Path(path).is_dir() and not (ROOT / path).is_dir()


def pins(path: Path = REVISIONS) -> dict[str, Pin]:
    """The pins of ``model_revisions.toml``, by model id; an empty one is filled from the local Hugging Face cache."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        model: Pin(entry.get("revision") or cached_main(model), tuple(entry.get("ignore_patterns", ())))
        for model, entry in table.items()
    }


def cached_main(model: str) -> str:
    """The commit that ``main`` of a model points to in the local cache; empty where it is not there."""
    reference = _folder(model) / "refs" / "main"
    return reference.read_text(encoding="ascii").strip() if reference.is_file() else ""


def loadable(model: str, revision: str = "") -> str:
    """What to load a model by: its id, or the folder of its snapshot where the cache cannot find it by id.

    A cache that was filled with a commit has no ``refs/main``, and offline a library that asks for the model by id looks for just that
    (huggingface_hub 0.36, ``try_to_load_from_cache``). The snapshot of ``revision`` is taken, else the only one there is.
    """
    snapshots = _folder(model) / "snapshots"
    if cached_main(model) or not snapshots.is_dir():
        return model
    if revision and (snapshots / revision).is_dir():
        return str(snapshots / revision)
    only = list(snapshots.iterdir())
    return str(only[0]) if len(only) == 1 else model


def _folder(model: str) -> Path:
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{model.replace('/', '--')}"
