"""The challenge's rule on models: Llama, or fewer than 1.5 billion parameters."""

import re
from collections.abc import Sequence
from typing import Literal

from agents.settings.run_config import RunConfig
from apps.preflight.architecture import ArchitectureError, read_architecture
from apps.preflight.check import Check
from apps.preflight.checkpoints import Checkpoint, list_checkpoints

FEWEST_REFUSED = 1_500_000_000
"""Parameters from which any model but a Llama is refused: "under 1.5b parameter size limit" (the challenge's page)."""

_VISION_LLAMA = "mllama"  # the model type of Llama-3.2-Vision alone
_LLAMA = "llama"  # the model type of Meta's text models, and of many that are not Meta's
_SIZE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)b(?![a-z])", re.IGNORECASE)

Verdict = Literal["ok", "failed", "skipped"]


def check_models(config: RunConfig) -> Check:
    """Check that the challenge admits every model that the preset can load.

    Parameters are counted from each model's config.json. A model without one in the local cache is judged by its name.

    Raises:
        SettingsError: The profile names no model for a role of the preset.
    """
    return check_checkpoints(list_checkpoints(config))


def check_checkpoints(checkpoints: Sequence[Checkpoint]) -> Check:
    """Check that the challenge admits every one of these models."""
    name = "models admitted"
    verdicts = [judge_model(each) for _, each in sorted({each.path: each for each in checkpoints}.items())]
    for state, fix in (
        ("failed", "take a Llama model or a smaller one: the profiles gpu, gpu_fp8 and gpu_tuned have such"),
        ("skipped", "hf download MODEL config.json, where the hub can be reached"),
    ):
        if reasons := [reason for verdict, reason in verdicts if verdict == state]:
            return Check(name, "failed" if state == "failed" else "skipped", "; ".join(reasons), fix)
    return Check(
        name, "ok", f"{len(verdicts)}, each a Llama or below 1.5 B: {'; '.join(reason for _, reason in verdicts)}"
    )


def judge_model(checkpoint: Checkpoint) -> tuple[Verdict, str]:
    """Return whether the challenge admits a model, and the reason in words."""
    model = checkpoint.path.rstrip("/").rsplit("/", 1)[-1]
    is_named_llama = _LLAMA in model.lower()
    try:
        architecture = read_architecture(checkpoint.path, checkpoint.revision)
    except ArchitectureError:
        if is_named_llama:
            return "ok", f"{model} is a Llama by its name"
        return _judge_by_name(model)
    if architecture.model_type == _VISION_LLAMA or (architecture.model_type == _LLAMA and is_named_llama):
        return "ok", f"{model} is a Llama"
    size = f"{model} has {architecture.parameters / 1e9:.2f} B parameters"
    if architecture.parameters < FEWEST_REFUSED:
        return "ok", size
    return "failed", f"{size} and is no Llama; the challenge allows fewer than 1.5 B"


def _judge_by_name(model: str) -> tuple[Verdict, str]:
    sizes = [float(size) for size in _SIZE.findall(model)]
    if not sizes:
        return "skipped", f"{model} has no config.json in the local cache to count its parameters by"
    reason = f"{model} has {max(sizes):g} B parameters by its name"
    if max(sizes) * 1e9 < FEWEST_REFUSED:
        return "ok", reason
    return "failed", f"{reason} and is no Llama; the challenge allows fewer than 1.5 B"
