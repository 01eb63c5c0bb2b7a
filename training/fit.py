"""The training loop of supervised fine-tuning: transformers' Trainer over groups of samples, resumable, with curves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from training.adapters import ADAPTER, Trainable, run_guarded
from training.chat_examples import TrainingDataError
from training.recipes import Recipe

CHECKPOINTS = "checkpoints"
CURVES = "curves"
Item = TypeVar("Item")


class ItemDataset(torch.utils.data.Dataset[Item]):
    """A sequence as torch's loader wants it."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, place: int) -> Item:
        return self._items[place]


def common_options(recipe: Recipe, out: Path, steps: int, device: str, *, evaluate: bool) -> dict[str, Any]:
    """The recipe as options of transformers' ``TrainingArguments`` and of trl's ``DPOConfig`` and ``GRPOConfig``.

    Args:
        steps: Most optimiser steps; -1 for as many as the epochs hold.
        evaluate: Whether there is a held-out side.
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
        "eval_strategy": "steps" if evaluate else "no",
        "eval_steps": table.eval_steps,
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


def fit(
    trainable: Trainable,
    recipe: Recipe,
    train: Sequence[Item],
    held_out: Sequence[Item],
    encode: Callable[[Item], Mapping[str, torch.Tensor]],
    out: Path,
    *,
    device: str = "cpu",
    steps: int = -1,
    resume: bool = False,
    trainer: type[Trainer] = Trainer,
) -> list[dict[str, Any]]:
    """Train, evaluate before and after, and write the adapter and the curves into ``out``.

    Args:
        encode: From an item to the model's input with its labels.
        resume: Whether to go on from the last checkpoint in ``out``, where there is one.
        trainer: A Trainer with a loss of its own.

    Returns:
        The log: steps with ``loss`` and ``learning_rate``, and with ``eval_loss``.

    Raises:
        TrainingDataError: There is nothing to train on, the loss is no number, or the device's memory is full.
    """
    if not train:
        raise TrainingDataError("there is nothing to train on; see what training.collect says of the data")
    arguments = TrainingArguments(
        **common_options(recipe, out, steps, device, evaluate=bool(held_out)),
        per_device_train_batch_size=1,  # an item is a group already
        per_device_eval_batch_size=1,
        gradient_accumulation_steps=recipe.training.accumulation,
        eval_on_start=bool(held_out),
        prediction_loss_only=True,
        label_names=["labels"],
    )
    last = last_checkpoint(out, resume)
    loop = trainer(
        model=trainable.model,
        args=arguments,
        train_dataset=ItemDataset(train),
        eval_dataset=ItemDataset(held_out) if held_out else None,
        data_collator=lambda items: dict(encode(items[0])),
    )

    def work() -> None:
        loop.train(resume_from_checkpoint=last)
        if held_out:
            loop.evaluate()

    run_guarded(work, f"recipe {recipe.name!r}")
    log: list[dict[str, Any]] = loop.state.log_history
    if any(not math.isfinite(row["loss"]) for row in log if "loss" in row):
        raise TrainingDataError("the loss is no number; lower training.learning_rate or train in float32")
    trainable.model.save_pretrained(out / ADAPTER)
    trainable.model.eval()
    write_curves(log, out, recipe.name)
    return log


def write_curves(
    log: Sequence[Mapping[str, Any]], out: Path, title: str, measures: Sequence[str] = ("loss", "eval_loss")
) -> None:
    """Write ``curves.json``, the whole log, and ``curves.png``, its ``measures`` over the steps."""
    import matplotlib.figure

    out.mkdir(parents=True, exist_ok=True)
    (out / f"{CURVES}.json").write_text(json.dumps(list(log), indent=1) + "\n", encoding="utf-8")
    figure = matplotlib.figure.Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for measure in measures:
        points = [(row["step"], row[measure]) for row in log if measure in row]
        if points:
            axes.plot(*zip(*points, strict=True), marker="." if len(points) < 100 else "", label=measure)
    axes.set(xlabel="optimiser step", title=title)
    axes.legend()
    figure.savefig(out / f"{CURVES}.png", dpi=110)
