"""The memory plan: what the models of a preset take of a GPU, computed before any of them is loaded.

Run: ``python -m agents.memory_plan --preset best --profile gpu``. It is checked against 48 GB (an L40S) and, where there is
one, against the machine's own GPU; what does not fit is refused with the change that would make it fit.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from agents.prompts import PromptError, PromptLibrary
from agents.runtime.architecture import Architecture, ArchitectureError, architecture_of
from agents.runtime.checkpoints import Checkpoint, checkpoints_of
from agents.runtime.memory import (
    CUDA_CONTEXT,
    CUDA_GRAPHS,
    FRAGMENTATION,
    cache_bytes,
    decoder_activation_bytes,
    encoder_activation_bytes,
    prompt_tokens_of_a_pass,
    vision_activation_bytes,
    weight_bytes,
)
from agents.runtime.roles import images_of
from agents.settings import PROMPTS, Profile, Settings, SettingsError, load_profile, load_settings

L40S_BYTES = 48_000_000_000
"""One NVIDIA L40S: 48 GB (its datasheet; nvidia-smi shows 46,068 MiB, a little more)."""

UNBOUNDED_PROMPT = 2048
"""Tokens planned for a prompt of a kind that has no limit of its own; small chat models read short prompts."""

PLANNED = "plan"
"""What a profile writes for ``gpu_memory_utilization``, ``max_batch`` and ``images`` where the plan is to choose them."""

MOST_UTILIZATION = 0.95
"""Share that an engine gets at most, whatever is left."""

MOST_AT_ONCE = 16
"""Requests that a chat model is planned for at most: the evaluator's largest batch."""


class MemoryPlanError(RuntimeError):
    """The models of a preset do not fit; the message says how much is lacking and what would make them fit."""


@dataclass(frozen=True)
class Row:
    """Bytes of one checkpoint on the GPU; ``vision`` is part of ``weights``, ``batch`` requests at once show ``images`` each."""

    checkpoint: Checkpoint
    architecture: Architecture
    dtype: str
    weights: int
    vision: int
    cache: int
    activations: int
    other: int = 0
    batch: int = 0
    images: int = 0

    @property
    def engine(self) -> bool:
        """Whether it is a vLLM engine, which keeps the memory that its activations take."""
        return self.checkpoint.kind == "vllm"

    @property
    def total(self) -> int:
        """What it keeps: weights, cache, CUDA graphs and context; an engine its activations too."""
        return self.weights + self.cache + self.other + (self.activations if self.engine else 0)


@dataclass(frozen=True)
class MemoryPlan:
    """The rows of all checkpoints against the capacity of a GPU.

    Attributes:
        rows: Models on the GPU.
        capacity: Bytes of the GPU.
        context: Bytes of the CUDA context of this process, and what fragmentation may waste.
    """

    rows: tuple[Row, ...]
    capacity: int
    context: int

    @property
    def shared(self) -> int:
        """Activations of the models that run one after another in this process: torch's allocator gives each the same blocks."""
        return max((row.activations for row in self.rows if not row.engine), default=0)

    @property
    def needed(self) -> int:
        """Bytes of everything."""
        return sum(row.total for row in self.rows) + self.shared + self.context

    @property
    def fits(self) -> bool:
        """Whether everything has room at once."""
        return self.needed <= self.capacity

    def utilization(self, path: str) -> float:
        """``gpu_memory_utilization`` of a vLLM engine: what others leave, in whole percent.

        CUDA graphs and contexts lie outside what vLLM counts. With several engines each but the largest gets what it needs.
        """
        engines = [row for row in self.rows if row.engine]
        largest = max(engines, key=lambda row: row.total)
        own = next(row for row in engines if row.checkpoint.path == path)
        if own is not largest:
            return math.ceil(100 * (own.total - own.other) / self.capacity) / 100
        others = self.needed - own.total
        left = (self.capacity - others - own.other) / self.capacity
        return min(MOST_UTILIZATION, math.floor(100 * left) / 100)


def plan_memory(settings: Settings, profile: Profile, prompts: PromptLibrary, capacity: int = L40S_BYTES) -> MemoryPlan:
    """The plan of a preset under a profile.

    Raises:
        SettingsError: The profile names no model for a role of the preset.
        ArchitectureError: The configuration of a model is not to be had.
    """
    made = _plan(settings, profile, prompts, capacity, MOST_AT_ONCE)
    for batch in range(MOST_AT_ONCE - 1, 0, -1):
        if made.fits or not any(entry.checkpoint.options.get("max_batch") == PLANNED for entry in made.rows):
            break
        made = _plan(settings, profile, prompts, capacity, batch)
    return made


def _plan(settings: Settings, profile: Profile, prompts: PromptLibrary, capacity: int, batch: int) -> MemoryPlan:
    images = images_of(settings)
    rows = tuple(row(entry, batch, images) for entry in checkpoints_of(settings, profile, prompts) if entry.on_gpu)
    return MemoryPlan(rows, capacity, CUDA_CONTEXT + FRAGMENTATION if rows else 0)


def row(checkpoint: Checkpoint, planned_batch: int = 1, planned_images: int = 1) -> Row:
    """What a checkpoint takes; the planned values stand for a ``max_batch`` and ``images`` that the plan is to choose.

    Raises:
        ArchitectureError: Its configuration is not to be had.
    """
    model, options = architecture_of(checkpoint.path), checkpoint.options
    dtype = str(options.get("dtype") or ("float16" if options.get("half") else "auto"))
    dtype = model.dtype if dtype == "auto" else dtype
    cache = activations = other = batch = images = 0
    if model.decoder is not None:
        size = options.get("max_batch", options.get("batch_size", 1))
        batch = planned_batch if size == PLANNED else int(size)
        shown = options.get("images", 1)
        images = planned_images if shown == PLANNED else int(shown)
        engine = checkpoint.kind == "vllm"
        longest = model.decoder.context if engine else min(model.decoder.context, UNBOUNDED_PROMPT)
        context = int(options.get("context") or options.get("max_tokens") or longest)
        sees = model.vision is not None
        if engine or "max_batch" in options:  # a reranker reads its scores off the prompt: it keeps no cache
            cache = cache_bytes(model.decoder, model.vision, dtype, batch=batch, context=context, images=images)
        tokens = prompt_tokens_of_a_pass(context, sees) if engine else batch * context
        activations = decoder_activation_bytes(model.decoder, dtype, tokens=tokens, batch=batch)
        if model.vision is not None:
            # vLLM profiles, and Llama-3.2-Vision runs, all pictures of a batch at once; its newer engine one by one.
            pictures = batch * images if model.vision.masked else images
            activations += vision_activation_bytes(model.vision, dtype, pictures=pictures)
        if engine:
            graphs = 0 if options.get("enforce_eager") else CUDA_GRAPHS
            other = (
                graphs if model.vision is not None and model.vision.masked else graphs + CUDA_CONTEXT
            )  # a process of its own
    else:
        most_tokens = int(options["max_tokens"]) if options.get("max_tokens") else None
        activations = encoder_activation_bytes(
            model, dtype, batch=int(options.get("batch_size", 1)), most_tokens=most_tokens
        )
    return Row(
        checkpoint=checkpoint,
        architecture=model,
        dtype=dtype,
        weights=weight_bytes(model.parameters, dtype),
        vision=weight_bytes(model.vision_parameters, dtype),
        cache=cache,
        activations=activations,
        other=other,
        batch=batch,
        images=images,
    )


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


def with_planned_memory(settings: Settings, profile: Profile, prompts: PromptLibrary) -> Profile:
    """A profile whose engines get the share of the GPU that the plan leaves them, wherever it says "plan".

    Raises:
        MemoryPlanError: The models do not fit the machine's GPU (48 GB where there is none).
        SettingsError: The profile names no model for a role of the preset.
        ArchitectureError: The configuration of a model is not to be had.
    """
    if not any(PLANNED in spec.values() for spec in profile.models.values()):
        return profile
    made = plan_memory(settings, profile, prompts, machine_bytes() or L40S_BYTES)
    require_fit(made, settings, profile, prompts)
    chosen = {
        entry.checkpoint.path: {
            "gpu_memory_utilization": made.utilization(entry.checkpoint.path),
            "max_batch": entry.batch,
            "images": entry.images,
        }
        for entry in made.rows
        if entry.engine
    }
    models = {role: _filled_in(spec, chosen.get(str(spec.get("path")), {})) for role, spec in profile.models.items()}
    return profile.model_copy(update={"models": models})


def _filled_in(spec: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """A specification with what the plan chose; what it is to choose for a model that the preset does not use is left out."""
    return {key: chosen.get(key, value) for key, value in spec.items() if not (value == PLANNED and key not in chosen)}


def require_fit(plan: MemoryPlan, settings: Settings, profile: Profile, prompts: PromptLibrary) -> None:
    """Refuse a plan that does not fit.

    Raises:
        MemoryPlanError: It does not.
    """
    if not plan.fits:
        raise MemoryPlanError(
            f"the models need {_gb(plan.needed)} GB, the GPU has {_gb(plan.capacity)} GB. What would make it fit: "
            f"{what_would_fit(settings, profile, prompts, plan.capacity)}"
        )


def machine_bytes() -> int | None:
    """Bytes of the machine's GPU; None where there is none."""
    import torch

    return int(torch.cuda.get_device_properties(0).total_memory) if torch.cuda.is_available() else None


def table(plan: MemoryPlan, title: str) -> Table:
    """The plan for people, in GB (10^9 bytes)."""
    shown = Table(title=title, caption="GB of 10^9 bytes; in brackets: taken in turn, not at once")
    shown.add_column("model")
    shown.add_column("for")
    for name in (
        "type",
        "parameters",
        "weights",
        "of it vision",
        "KV cache",
        "activations",
        "graphs, context",
        "total",
    ):
        shown.add_column(name, justify="right")
    for entry in sorted(plan.rows, key=lambda entry: -entry.total):
        shown.add_row(
            entry.checkpoint.path,
            ", ".join(entry.checkpoint.roles),
            entry.dtype,
            f"{entry.architecture.parameters / 1e6:,.0f} M",
            *(_gb(value) if value else "" for value in (entry.weights, entry.vision, entry.cache)),
            _gb(entry.activations) if entry.engine else f"({_gb(entry.activations)})",
            _gb(entry.other) if entry.other else "",
            _gb(entry.total),
        )
    if plan.shared:
        shown.add_row("the largest of these", *[""] * 6, _gb(plan.shared), "", _gb(plan.shared))
    shown.add_row("CUDA context, fragmentation", *[""] * 7, _gb(plan.context), _gb(plan.context), end_section=True)
    shown.add_row("all", *[""] * 8, _gb(plan.needed))
    return shown


def _gb(value: int) -> str:
    return f"{value / 1e9:.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the plan; 1 where it does not fit or cannot be made, 2 for a wrong command line."""
    parser = argparse.ArgumentParser(prog="python -m agents.memory_plan", description=__doc__.split("\n\n")[0])
    parser.add_argument("--preset", default="best")
    parser.add_argument("--profile", default="gpu")
    parser.add_argument(
        "--gpu-gb", type=float, default=L40S_BYTES / 1e9, help="memory of the GPU in 10^9 bytes (default 48)"
    )
    parser.add_argument("--max-batch", type=int, help="plan the chat model for this many requests at once instead")
    parser.add_argument("--context", type=int, help="plan the chat model for this many tokens instead")
    options = parser.parse_args(arguments)
    prompts = PromptLibrary(PROMPTS)
    console = Console(width=170)
    try:
        settings, profile = load_settings(options.preset, options.profile), load_profile(options.profile)
        profile = _overridden(profile, options.max_batch, options.context)
        planned = plan_memory(settings, profile, prompts, round(options.gpu_gb * 1e9))
        console.print(table(planned, f"{options.preset} under {options.profile}"))
        for capacity in filter(None, (planned.capacity, machine_bytes())):
            made = plan_memory(settings, profile, prompts, capacity)
            require_fit(made, settings, profile, prompts)
            for entry in made.rows:
                if entry.engine:
                    share = made.utilization(entry.checkpoint.path)
                    console.print(
                        f"{_gb(made.needed)} of {_gb(capacity)} GB: {entry.batch} requests at once, {entry.images} picture(s) each, "
                        f"gpu_memory_utilization = {share:.2f} for {entry.checkpoint.path}"
                    )
    except (MemoryPlanError, ArchitectureError, SettingsError, PromptError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _overridden(profile: Profile, max_batch: int | None, context: int | None) -> Profile:
    given = {name: value for name, value in (("max_batch", max_batch), ("context", context)) if value is not None}
    if not given or "chat" not in profile.models:
        return profile
    return profile.model_copy(update={"models": {**profile.models, "chat": {**profile.models["chat"], **given}}})


if __name__ == "__main__":
    sys.exit(main())
