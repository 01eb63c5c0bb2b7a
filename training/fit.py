"""LoRA adapters on a checkpoint, and the loop that trains them.

The trainers are those of transformers and trl. A training can be resumed, and draws its curves.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from PIL import Image
from transformers import Trainer, TrainingArguments, set_seed
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from agents.base.files import write_whole
from agents.models.chat.transformers_checkpoint import Checkpoint, load_checkpoint
from agents.models.pixels import pixels_digest
from agents.models.weights import digest_weights
from training.chat_examples import TrainingDataError
from training.command_line import Run
from training.recipes import Recipe

CHECKPOINTS = "checkpoints"
CURVES = "curves"
FINGERPRINT = "fingerprint"
"""File in a folder that a training may be resumed from; it has the result of ``compute_fingerprint``."""

Item = TypeVar("Item")
Arguments = TypeVar("Arguments", bound=TrainingArguments)

WARMUP = "warmup_ratio" if "warmup_ratio" in TrainingArguments.__dataclass_fields__ else "warmup_steps"
"""Option that takes a share of the steps; transformers 5 reads a number of steps below one as a share."""

ADAPTER = "adapter"
"""Folder of the adapter in the output folder of a training run."""

LANGUAGE = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Linear layers of Llama, Mllama, Qwen2 and Qwen-VL language models."""

VISION = ("q_proj", "k_proj", "v_proj", "o_proj", "qkv", "proj", "fc1", "fc2")
"""Linear layers of the picture encoders of Mllama and Qwen-VL."""


def make_lora_config(recipe: Recipe) -> Any:
    """Convert the recipe's adapters to PEFT's configuration."""
    from peft import LoraConfig

    layers = rf"(?!.*(?:vision|visual)).*\.(?:{'|'.join(LANGUAGE)})"
    if recipe.lora.vision:
        layers = rf"(?:{layers})|(?:.*(?:vision|visual).*\.(?:{'|'.join(VISION)}))"
    return LoraConfig(
        r=recipe.lora.r,
        lora_alpha=recipe.lora.alpha,
        lora_dropout=recipe.lora.dropout,
        target_modules=layers,
        task_type="CAUSAL_LM",
    )


def load_base(model: str | Path, recipe: Recipe, device: str = "cpu") -> Checkpoint:
    """Load a checkpoint in the recipe's dtype, without adapters and without a cache.

    Raises:
        ModelError: The checkpoint cannot be loaded.
    """
    checkpoint = load_checkpoint(model, device, recipe.training.dtype)
    disable_cache(checkpoint.model)
    return checkpoint


def load_trainable(model: str | Path, recipe: Recipe, device: str = "cpu") -> tuple[Checkpoint, Any]:
    """Load a checkpoint and add fresh adapters.

    Returns:
        The checkpoint, and its model as PEFT wraps it, which saves the adapters alone.

    Raises:
        ModelError: The checkpoint cannot be loaded.
        TrainingDataError: It has none of the layers that get adapters.
    """
    from peft import get_peft_model

    checkpoint = load_base(model, recipe, device)
    set_seed(recipe.training.seed)  # adapters begin at random
    try:
        return checkpoint, get_peft_model(checkpoint.model, make_lora_config(recipe))
    except ValueError as error:  # PEFT's "target modules not found"
        raise TrainingDataError(f"{model} has no layers for LoRA: {error}") from error


def disable_cache(model: Any) -> None:
    """Turn a model's key-value cache off.

    With a cache, transformers overlooks that a row is packed, and checkpointing is off.
    """
    for config in (model.config, model.config.get_text_config()):
        config.use_cache = False


def make_quiet_options(out: Path, device: str) -> dict[str, Any]:
    """Return the options of ``TrainingArguments`` that all trainings share.

    Checkpoints go into ``out``, and nothing but the log is reported.
    """
    return {
        "output_dir": str(out / CHECKPOINTS),
        "use_cpu": device == "cpu",
        "logging_steps": 1,
        "remove_unused_columns": False,
        "dataloader_pin_memory": False,
        "disable_tqdm": True,
        "report_to": [],
    }


def make_common_options(run: Run, *, evaluate: bool) -> dict[str, Any]:
    """Convert the recipe to options of transformers' ``TrainingArguments`` and trl's configurations.

    These are ``DPOConfig`` and ``GRPOConfig``.
    """
    table = run.recipe.training
    return {
        **make_quiet_options(run.out, run.device),
        "num_train_epochs": table.epochs,
        "max_steps": run.steps,
        "learning_rate": table.learning_rate,
        "lr_scheduler_type": table.scheduler,
        WARMUP: table.warmup,
        "bf16": table.dtype == "bfloat16",
        "gradient_checkpointing": table.checkpointing,
        "gradient_checkpointing_kwargs": {"use_reentrant": False} if table.checkpointing else None,
        "eval_strategy": "steps" if evaluate else "no",
        "eval_steps": table.eval_steps,
        "save_steps": table.save_steps,
        "save_total_limit": 2,
        "seed": table.seed,
    }


def make_arguments(kind: type[Arguments], recipe: Recipe, **options: Any) -> Arguments:
    """Make the arguments of a trainer.

    Raises:
        TrainingDataError: The recipe has a value that the trainer does not take, such as an unknown schedule.
    """
    try:
        arguments: Arguments = kind(**options)
    except ValueError as error:
        raise TrainingDataError(
            f"recipe {recipe.name!r} cannot be trained: {error}; correct it, or use --set"
        ) from error
    return arguments


def identify_model(model: str) -> str:
    """Return a model id of a hub as it is, and the name of a folder with a digest of its files, which may be trained anew."""
    folder = Path(model)  # a model id has no files until it is loaded for the first time
    return folder.name + digest_weights([folder]) if folder.exists() else model


def compute_fingerprint(*parts: Any) -> str:
    """Return the SHA-256 of the inputs of a training, in JSON; of dataclasses the fields count, of images the pixels."""
    digest = hashlib.sha256()
    for chunk in json.JSONEncoder(default=_list_fields).iterencode(parts):
        digest.update(chunk.encode())
    return digest.hexdigest()


def _list_fields(value: object) -> Any:
    if isinstance(value, Image.Image):
        return pixels_digest(value)
    return {name: field for name, field in vars(value).items() if name != "folder"}  # the same data may be moved


def describe_run(run: Run) -> list[Any]:
    """Return the dependencies of a run's result besides its data, for ``compute_fingerprint``."""
    return [run.recipe.model_dump(exclude={"description", "source"}), identify_model(run.model), run.steps]


def claim_folder(folder: Path, fingerprint: str, *, resume: bool) -> None:
    """Prepare a folder for a training and note its inputs.

    Without ``resume`` the folder is emptied. Otherwise a training that is killed would be resumed later from an older one's checkpoint.

    Raises:
        TrainingDataError: The training is to be resumed, and the folder is of another one.
    """
    noted = folder / FINGERPRINT
    if not resume and folder.is_dir():
        shutil.rmtree(folder)
    earlier = noted.read_text(encoding="utf-8") if noted.is_file() else None
    if earlier != fingerprint and any(folder.glob("*")):
        why = (
            "does not say what it was made from"
            if earlier is None
            else "was made from other data, another recipe, model or judge, or another --max-steps"
        )
        raise TrainingDataError(
            f"{folder} {why}; name another --out, or start again without --resume, which removes what is there"
        )
    write_whole(noted, fingerprint)


def find_checkpoint(folder: Path) -> str | None:
    """Return the newest whole checkpoint, None for none.

    A kill may leave one without its state, which is written last.
    """
    checkpoints = {
        int(step): path
        for path in folder.glob(f"{PREFIX_CHECKPOINT_DIR}-*")
        if (step := path.name.rpartition("-")[2]).isdigit()
    }
    for _, path in sorted(checkpoints.items(), reverse=True):
        with contextlib.suppress(OSError, ValueError, TypeError):
            TrainerState.load_from_json(str(path / TRAINER_STATE_NAME))
            return str(path)
    return None


def run_trainer(
    trainer: Trainer,
    out: Path,
    title: str,
    *,
    fingerprint: str,
    resume: bool,
    measures: Sequence[str] = ("loss", "eval_loss"),
) -> list[dict[str, Any]]:
    """Train, and write curves of the ``measures`` over the steps.

    The trainer prints to standard error.

    Args:
        trainer: The trainer.
        out: Folder of the result.
        title: Title of the curves, and name of the training in messages.
        fingerprint: Digest of the training's inputs (see ``compute_fingerprint``).
        resume: Whether to continue from the last whole checkpoint in ``out``, if there is one; else earlier checkpoints are removed.
        measures: Names of values in the log.

    Returns:
        The log: steps with ``loss`` and ``learning_rate``, and with ``eval_loss``.

    Raises:
        TrainingDataError: The loss is no number, the device's memory is full, or the checkpoints are of another training.
    """
    claim_folder(out / CHECKPOINTS, fingerprint, resume=resume)
    last = find_checkpoint(out / CHECKPOINTS) if resume else None
    try:
        with contextlib.redirect_stdout(sys.stderr):
            trainer.train(resume_from_checkpoint=last)
            if trainer.eval_dataset is not None:
                trainer.evaluate()
    except torch.OutOfMemoryError as error:
        raise TrainingDataError(
            f"{title} does not fit the device ({error}); make training.batch (--batch) or training.max_tokens smaller, or turn "
            "training.checkpointing on (docs/training.md has the memory of each recipe)"
        ) from error
    log: list[dict[str, Any]] = trainer.state.log_history
    if any(not math.isfinite(row["loss"]) for row in log if "loss" in row):
        raise TrainingDataError("the loss is no number; lower training.learning_rate or train in float32")
    write_curves(log, out, title, measures)
    return log


def fit(
    model: Any,
    run: Run,
    train: Sequence[Item],
    held_out: Sequence[Item],
    encode: Callable[[Item], Mapping[str, torch.Tensor]],
    trainer: type[Trainer] = Trainer,
) -> dict[str, Any]:
    """Train, evaluate before and after, and write the adapter and the curves into the run's folder.

    Args:
        model: The model with adapters, as PEFT wraps it.
        run: Recipe, output folder and device.
        train: Items to train on.
        held_out: Items to evaluate on; may be empty.
        encode: Builds the model's input with labels from an item.
        trainer: Class of the trainer.

    Returns:
        ``steps``, and ``held_out_loss`` before and after; None for it if nothing is held out.

    Raises:
        TrainingDataError: There is nothing to train on, or see ``run_trainer``.
    """
    if not train:
        raise TrainingDataError("there is nothing to train on; see the summary of training.collect")
    arguments = make_arguments(
        TrainingArguments,
        run.recipe,
        **make_common_options(run, evaluate=bool(held_out)),
        per_device_train_batch_size=1,  # an item is a group already
        per_device_eval_batch_size=1,
        gradient_accumulation_steps=run.recipe.training.accumulation,
        eval_on_start=bool(held_out),
        prediction_loss_only=True,
        label_names=["labels"],
    )
    loop = trainer(
        model=model,
        args=arguments,
        train_dataset=list(train),
        eval_dataset=list(held_out) or None,
        data_collator=lambda items: dict(encode(items[0])),
    )
    fingerprint = compute_fingerprint(describe_run(run), train, held_out)
    log = run_trainer(loop, run.out, run.recipe.name, fingerprint=fingerprint, resume=run.resume)
    model.save_pretrained(run.out / ADAPTER)
    model.eval()
    losses = [row["eval_loss"] for row in log if "eval_loss" in row]
    return {
        "steps": loop.state.global_step,
        "held_out_loss": {"before": losses[0], "after": losses[-1]} if losses else None,
    }


def read_log(out: Path) -> list[dict[str, Any]]:
    """Read the log of a finished training, as ``write_curves`` wrote it; [] if it is not there."""
    try:
        log: list[dict[str, Any]] = json.loads((out / f"{CURVES}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return log


def write_curves(log: Sequence[Mapping[str, Any]], out: Path, title: str, measures: Sequence[str]) -> None:
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
