"""A checkpoint with LoRA adapters on it, ready to be trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.models.chat.transformers_checkpoint import Checkpoint, load_checkpoint
from training.chat_examples import TrainingDataError
from training.recipes import LoraTable, Recipe

ADAPTER = "adapter"
"""Where a training run leaves its adapter, in its output folder."""

LANGUAGE = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""Linear layers of Llama, Mllama, Qwen2 and Qwen-VL language models."""

VISION = ("q_proj", "k_proj", "v_proj", "o_proj", "qkv", "proj", "fc1", "fc2")
"""Linear layers of the picture encoders of Mllama and Qwen-VL."""


@dataclass(frozen=True)
class Trainable:
    """A model to be trained: the checkpoint with its adapters, and the same as PEFT wraps it, which saves the adapters alone."""

    checkpoint: Checkpoint
    model: Any


def target_modules(lora: LoraTable) -> str:
    """A regular expression for the full names of the layers that get an adapter."""
    language = rf"(?!.*(?:vision|visual)).*\.(?:{'|'.join(LANGUAGE)})"
    return rf"(?:{language})|(?:.*(?:vision|visual).*\.(?:{'|'.join(VISION)}))" if lora.vision else language


def lora_config(recipe: Recipe) -> Any:
    """The recipe's adapters in PEFT's terms."""
    from peft import LoraConfig

    return LoraConfig(
        r=recipe.lora.r,
        lora_alpha=recipe.lora.alpha,
        lora_dropout=recipe.lora.dropout,
        target_modules=target_modules(recipe.lora),
        task_type="CAUSAL_LM",
    )


def load_base(model: str | Path, recipe: Recipe, device: str = "cpu") -> Checkpoint:
    """A checkpoint in the recipe's dtype, without adapters and without a cache.

    Raises:
        ModelError: The checkpoint cannot be loaded.
    """
    checkpoint = load_checkpoint(model, device, recipe.training.dtype)
    without_cache(checkpoint.model)
    return checkpoint


def load_trainable(model: str | Path, recipe: Recipe, device: str = "cpu") -> Trainable:
    """A checkpoint with fresh adapters; where the recipe says so, activations are checkpointed.

    Raises:
        ModelError: The checkpoint cannot be loaded.
        TrainingDataError: It has none of the layers that get adapters.
    """
    from peft import get_peft_model

    checkpoint = load_base(model, recipe, device)
    try:
        adapted = get_peft_model(checkpoint.model, lora_config(recipe))
    except ValueError as error:  # PEFT's "target modules not found"
        raise TrainingDataError(f"{model} has no layers for LoRA: {error}") from error
    return Trainable(checkpoint, adapted)


def without_cache(model: Any) -> None:
    """Let a model keep no keys and values: with a cache transformers overlooks that a row is packed, and checkpointing is off."""
    for config in (model.config, model.config.get_text_config()):
        config.use_cache = False
