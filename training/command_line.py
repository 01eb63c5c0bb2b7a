"""Parts that the commands of the training share: options, reading of data, files in the output folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field

from agents.base.cache_folder import DEFAULT_CACHE, CacheOption
from agents.base.command_options import Flag, Options
from agents.base.console import SafeConsole
from agents.base.printing import print_text
from agents.models.base import ModelError
from agents.profiles.profile import SettingsError
from evaluation import commands
from evaluation.files.manifest import read_json, write_json
from evaluation.records import DEFAULT_REVISION, EvaluationError
from training.chat_examples import HELD_OUT, TRAIN, Example, TrainingDataError, read_examples
from training.recipes import Recipe, list_recipes, load_recipe

ABOUT = "about.json"
HELD_OUT_SHARE = "held_out_share"
"""Key in about.json of the share of the held-out sessions."""
FAILURES = (EvaluationError, ModelError, SettingsError, TrainingDataError)

AnyOptions = TypeVar("AnyOptions", bound=Options)


class ResultOptions(Options):
    """Options of every command that makes something of data."""

    out: Path = Field(description="folder of the result")
    cache: CacheOption = Field(DEFAULT_CACHE, description="folder of judgements, converted tables and weights")


class JudgedOptions(ResultOptions):
    """Options of a command whose replies are judged."""

    eval_model: Annotated[str | None, Flag(metavar="MODEL")] = Field(
        None, description="judge of the replies (see local_evaluation.py); not given: the rule judge"
    )


class SplitOptions(ResultOptions):
    """Options of a command that reads a split of the data sets."""

    dataset: Path | None = Field(None, description="local folder of the data sets; default: the hub's CRAG-MM")
    split: str = Field("validation", description="split to train on")
    revision: str = Field(DEFAULT_REVISION, description="data set revision")
    online: bool = Field(False, description="fetch pictures given by URL")


class DeviceOptions(Options):
    """Options of the device of a training, and of resuming it."""

    device: str = Field("cpu", description="device that trains: cpu, cuda ...")
    resume: bool = Field(
        False,
        description="continue from the last checkpoint in --out, which must be of the same data, recipe and model",
    )


class RecipeOptions(Options):
    """Options of a command that reads recipes."""

    set: Annotated[tuple[str, ...], Flag(metavar="TABLE.KEY=VALUE", repeated=True)] = Field(
        (), description="replace a value of the recipe, such as data.refusals_left_out=0.7; may be repeated"
    )


class TrainingOptions(JudgedOptions, DeviceOptions, RecipeOptions):
    """Options that all trainings of a language model share; each has its own default recipe."""

    data: Annotated[tuple[Path, ...], Flag(metavar="DATA", repeated=True)] = Field(
        description="folder that training.collect wrote; may be repeated"
    )
    model: str = Field(description="checkpoint folder, or ORG/NAME@COMMIT of the local Hugging Face cache")
    recipe: str = Field("nvidia", description=f"{', '.join(list_recipes())} or a TOML file")
    max_steps: Annotated[int, Flag(metavar="N")] = Field(
        -1, description="maximum of optimiser steps; -1: all of the epochs"
    )


@dataclass(frozen=True)
class Run:
    """One training: its recipe, and the command line's settings.

    Attributes:
        recipe: The recipe.
        model: Folder or name of the checkpoint to train.
        out: Folder of the result.
        device: Device that trains.
        steps: Maximum number of optimiser steps; -1: all of the epochs.
        resume: Whether to continue from the last checkpoint in ``out``, if there is one.
    """

    recipe: Recipe
    model: str
    out: Path
    device: str = "cpu"
    steps: int = -1
    resume: bool = False


def read_data(options: TrainingOptions) -> tuple[Run, list[Example], list[Example]]:
    """Read the run that the options describe, the examples to train on, and those held out.

    Raises:
        TrainingDataError: Recipe or examples are missing or malformed, or a session is on both sides.
    """
    recipe = load_recipe(options.recipe, options.set)
    run = Run(recipe, options.model, options.out, options.device, options.max_steps, options.resume)
    train, held_out = (
        [row for data in options.data for row in read_examples(data / side)] for side in (TRAIN, HELD_OUT)
    )
    _refuse_shared_sessions(options.data, train, held_out)
    return run, train, held_out


def _refuse_shared_sessions(folders: Sequence[Path], train: Sequence[Example], held_out: Sequence[Example]) -> None:
    """Check that no session is on both sides, as those of folders with unequal shares are."""
    shared = {row.session_id for row in train} & {row.session_id for row in held_out}
    if shared:
        shares = ", ".join(
            f"{folder}: {read_json(folder / ABOUT).get(HELD_OUT_SHARE, 'unknown')}" for folder in folders
        )
        raise TrainingDataError(
            f"{len(shared)} sessions (such as {min(shared)!r}) are both trained on and held out; "
            f"collect the folders again with one --held-out (now {shares})"
        )


def write_about(out: Path, about: dict[str, Any], name: str = ABOUT) -> None:
    """Write facts about a result into a file of the output folder, and print them."""
    write_json(out / name, about)
    print_text((out / name).read_text(encoding="utf-8"), end="")


def run_command(
    run: Callable[[AnyOptions], None],
    options: type[AnyOptions],
    arguments: Sequence[str] | None,
    description: str | None,
) -> int:
    """Parse the arguments, run a command, and return its exit status.

    Returns:
        0; 2 with one line on standard error if data, judge or model cannot be used; 130 when stopped by Ctrl-C.
    """
    cli_options = options.parse(arguments, description=description)
    return commands.run_to_exit_status(lambda: run(cli_options), SafeConsole(stderr=True), FAILURES)
