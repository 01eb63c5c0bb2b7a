"""Recipes: how a model is trained, as TOML files in ``training/recipes``.

Published values name their source there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from agents.base.files import first_fault, read_toml
from agents.profiles.profile import SettingsError, Table, names
from agents.settings.presets import parse_assignment
from training.chat_examples import TrainingDataError

RECIPES = Path(__file__).parent / "recipes"


class LoraTable(Table):
    """Low-rank adapters (Hu et al., "LoRA", 2021) on every linear layer of the language model."""

    r: int = Field(gt=0, description="rank")
    alpha: float = Field(gt=0, description="scale: the update is multiplied by alpha / r")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout before the adapter")
    vision: bool = Field(False, description="adapters in the picture encoder too")


class DataTable(Table):
    """Examples to train on, and the replies to be learned."""

    tasks: tuple[Literal["answer", "queries", "relevance"], ...] = ("answer",)
    answers: Literal["own", "reference"] = Field("own", description="target where the model's own answer is right")
    refusals_left_out: float = Field(0.0, ge=0, le=1, description="share of the refusals to leave out")


class TrainingTable(Table):
    """Settings of the optimisation."""

    epochs: float = Field(1.0, gt=0)
    learning_rate: float = Field(gt=0)
    scheduler: str = Field("cosine", description="learning-rate schedule, by transformers' name")
    warmup: float = Field(0.03, ge=0, lt=1, description="share of the steps with a rising learning rate")
    batch: int = Field(1, gt=0, description="rows in one pass")
    accumulation: int = Field(16, gt=0, description="passes in one step")
    max_tokens: int = Field(4096, gt=0, description="longer rows are left out; length of a pack")
    packing: bool = Field(True, description="several rows without images in one sequence")
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    checkpointing: bool = Field(True, description="activations are computed again in the backward pass")
    eval_steps: int = Field(50, gt=0, description="steps between evaluations on the held-out side")
    save_steps: int = Field(50, gt=0, description="steps between checkpoints to go on from")
    seed: int = 0


class DpoTable(Table):
    """Direct preference optimisation (Rafailov et al., 2023)."""

    beta: float = Field(0.1, gt=0, description="strength of the pull to the model before training")
    samples: int = Field(8, gt=0, description="replies sampled for each question")
    temperature: float = Field(1.0, gt=0)


class GrpoTable(Table):
    """Group relative policy optimisation (Shao et al., "DeepSeekMath", 2024)."""

    generations: int = Field(8, gt=1, description="replies in a group")
    temperature: float = Field(1.0, gt=0)
    beta: float = Field(0.04, ge=0, description="weight of the KL term; 0 for none")


class Recipe(Table):
    """Settings of a training; ``source`` says which values are published, and where."""

    name: str
    description: str
    source: str
    lora: LoraTable
    training: TrainingTable
    data: DataTable = DataTable()
    dpo: DpoTable = DpoTable()
    grpo: GrpoTable = GrpoTable()


def list_recipes() -> list[str]:
    """Return the names of all recipes."""
    return names(RECIPES)


def load_recipe(name: str, changes: Sequence[str] = ()) -> Recipe:
    """Load a recipe by name, or by the path of a TOML file, and replace values.

    Args:
        name: Name or path.
        changes: Replacements in TOML, such as ``training.epochs=2``; a word needs no quotes.

    Raises:
        TrainingDataError: There is no such recipe, or it is malformed.
    """
    path = Path(name) if name.endswith(".toml") else RECIPES / f"{name}.toml"
    try:
        table = read_toml(path)
        for change in map(parse_assignment, changes):
            for section, values in change.items():
                table[section] = {**table.get(section, {}), **values} if isinstance(values, dict) else values
        return Recipe.model_validate({"name": path.stem, **table})
    except FileNotFoundError as error:
        raise TrainingDataError(f"there is no recipe {name!r}; known: {', '.join(list_recipes())}") from error
    except ValidationError as error:
        raise TrainingDataError(f"recipe {name!r} is malformed: {first_fault(error)}") from error
    except (SettingsError, ValueError) as error:
        raise TrainingDataError(f"recipe {name!r} is malformed: {error}") from error
