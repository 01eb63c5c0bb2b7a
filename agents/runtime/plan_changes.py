"""Changes to a profile that make its models fit a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agents.prompts import PromptLibrary
from agents.runtime.checkpoints import Checkpoint
from agents.runtime.plan import Row, plan_memory
from agents.settings import Profile, Settings


def what_would_fit(settings: Settings, profile: Profile, prompts: PromptLibrary, capacity: int) -> str:
    """The first single change that makes a plan fit, else all changes together, else that none does."""

    def fits(changed: Profile) -> bool:
        return plan_memory(settings, changed, prompts, capacity).fits

    for said, changed in _changes(settings, profile, prompts):
        if fits(changed):
            return said
    said_all, together = [], profile
    for _ in range(8):  # each round takes the change that saves most
        options = list(_changes(settings, together, prompts))
        if not options:
            break
        said, together = min(options, key=lambda change: plan_memory(settings, change[1], prompts, capacity).needed)
        said_all.append(said)
        if fits(together):
            return "; ".join(said_all)
    return "no change of batch, context or type makes it fit: take a smaller model or leave out a stage"


def _changes(settings: Settings, profile: Profile, prompts: PromptLibrary) -> Iterator[tuple[str, Profile]]:
    """Changes to a profile that save memory, those that cost least first, each as words and as a profile."""
    rows = sorted(plan_memory(settings, profile, prompts).rows, key=lambda entry: -entry.total)
    for entry in rows:
        if entry.dtype == "float32" and entry.checkpoint.kind != "organiser":
            yield _changed(profile, entry, dtype="bfloat16")
    for entry in rows:
        batch, context = entry.checkpoint.options.get("max_batch"), entry.checkpoint.options.get("context")
        if entry.architecture.decoder is None:
            continue
        if isinstance(batch, int):
            for smaller in range(batch - 1, 0, -1):
                yield _changed(profile, entry, max_batch=smaller)
        limit = context or entry.architecture.decoder.context
        for smaller in (65536, 32768, 16384, 8192, 6144, 4096, 3072, 2048):
            if smaller < limit and entry.checkpoint.kind == "vllm":
                yield _changed(profile, entry, context=smaller)
    for entry in rows:
        size = entry.checkpoint.options.get("batch_size")
        if isinstance(size, int) and size > 1 and entry.checkpoint.kind != "organiser":
            yield _changed(profile, entry, batch_size=max(1, size // 4))


def _changed(profile: Profile, entry: Row, **options: Any) -> tuple[str, Profile]:
    (name, value), *_ = options.items()
    old = entry.dtype if name == "dtype" else entry.checkpoint.options.get(name)
    models = {role: _with(spec, entry.checkpoint, options) for role, spec in profile.models.items()}
    said = f"{name} = {value!r} for {entry.checkpoint.path} (now {old if old is not None else 'unlimited'})"
    return said, profile.model_copy(update={"models": models})


def _with(spec: Mapping[str, Any], checkpoint: Checkpoint, options: Mapping[str, Any]) -> dict[str, Any]:
    """A specification with other options wherever it names that checkpoint."""
    inner = {
        key: _with(value, checkpoint, options) if isinstance(value, Mapping) else value for key, value in spec.items()
    }
    same = spec.get("kind") == checkpoint.kind and spec.get("path") == checkpoint.path
    return {**inner, **options} if same else inner
