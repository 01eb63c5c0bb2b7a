"""What DPO and GRPO have in common: the recipe in trl's terms, and going on after a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers.trainer_utils import get_last_checkpoint

from training.fit import CHECKPOINTS
from training.recipes import Recipe


def common_arguments(recipe: Recipe, out: Path, device: str, steps: int) -> dict[str, Any]:
    """Options of trl's ``DPOConfig`` and ``GRPOConfig``.

    Args:
        steps: Most optimiser steps; -1 for as many as the epochs hold.
    """
    table = recipe.training
    return {
        "output_dir": str(out / CHECKPOINTS),
        "num_train_epochs": table.epochs,
        "max_steps": steps,
        "learning_rate": table.learning_rate,
        "lr_scheduler_type": table.scheduler,
        "warmup_ratio": table.warmup,
        "bf16": table.dtype == "bfloat16",
        "use_cpu": device == "cpu",
        "gradient_checkpointing": table.checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False} if table.checkpointing else None,
        "save_steps": table.save_steps,
        "save_total_limit": 2,
        "logging_steps": 1,
        "seed": table.seed,
        "remove_unused_columns": False,
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
        "report_to": [],
    }


def last_checkpoint(out: Path, resume: bool) -> str | None:
    """The last checkpoint in a folder, to go on from; None where there is none, or it is not wanted."""
    folder = out / CHECKPOINTS
    found: str | None = get_last_checkpoint(str(folder)) if resume and folder.is_dir() else None
    return found
