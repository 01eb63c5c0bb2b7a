"""The memory plan: what the models of a preset take of a GPU, computed before any of them is loaded.

Run: ``python -m agents.memory_plan --preset best --profile gpu``. It is checked against 48 GB (an L40S) and, where there is
one, against the machine's own GPU; what does not fit is refused with the change that would make it fit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from agents.prompts import PromptError, PromptLibrary
from agents.runtime.architecture import ArchitectureError
from agents.runtime.plan import L40S_BYTES, PLANNED, MemoryPlan, plan_memory
from agents.runtime.plan_changes import what_would_fit
from agents.settings import PROMPTS, Profile, Settings, SettingsError, load_profile, load_settings


class MemoryPlanError(RuntimeError):
    """The models of a preset do not fit; the message says how much is lacking and what would make them fit."""


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
