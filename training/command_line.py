"""Shared by the commands of the training: options, reading of data, and files in the output folder."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from agents.models.architecture import ArchitectureError
from agents.models.base import ModelError
from agents.settings.profiles import SettingsError
from agents.settings.run_config import DEFAULT_CACHE
from evaluation import commands
from evaluation.files.manifest import write_json
from evaluation.records import DEFAULT_REVISION, EvaluationError
from training.chat_examples import HELD_OUT, TRAIN, Example, TrainingDataError, read_examples
from training.recipes import Recipe, load_recipe, recipe_names

ABOUT = "about.json"
FAILURES = (ArchitectureError, EvaluationError, ModelError, SettingsError, TrainingDataError)

_OPTIONS: dict[str, dict[str, Any]] = {
    "--cache": {"type": Path, "default": DEFAULT_CACHE, "help": "folder of judgements, converted tables and weights"},
    "--dataset": {"type": Path, "help": "local folder of the data sets; default: the hub's CRAG-MM"},
    "--device": {"default": "cpu", "help": "cpu, cuda ... (default: cpu)"},
    "--eval-model": {"metavar": "MODEL", "help": "judge of the replies (see local_evaluation.py)"},
    "--held-out": {"type": float, "default": 0.1, "help": "share of the sessions held out (default: %(default)s)"},
    "--online": {"action": "store_true", "help": "fetch pictures that are given by URL"},
    "--out": {"type": Path, "required": True, "help": "folder of the result"},
    "--resume": {"action": "store_true", "help": "go on from the last checkpoint in --out"},
    "--revision": {"default": DEFAULT_REVISION, "help": "data set revision (default: %(default)s)"},
    "--set": {"action": "append", "default": [], "metavar": "TABLE.KEY=VALUE",
              "help": "value of the recipe replaced, such as data.refusals_left_out=0.7; may be repeated"},
    "--split": {"default": "validation", "help": "split to train on (default: validation)"},
}  # fmt: skip
"""Options that several commands have."""


@dataclass(frozen=True)
class Run:
    """One training: its recipe, and what the command line says of it.

    Attributes:
        steps: Most optimiser steps; -1 for as many as the epochs hold.
        resume: Whether to go on from the last checkpoint in ``out``, where there is one.
    """

    recipe: Recipe
    out: Path
    device: str = "cpu"
    steps: int = -1
    resume: bool = False


def parser_of(name: str, description: str | None, *shared: str, **changes: Any) -> argparse.ArgumentParser:
    """The parser of ``python -m training.NAME`` with options of ``_OPTIONS``, some with other defaults (``changes``)."""
    parser = commands.parser_of(f"training.{name}", description)
    for option in shared:
        parser.add_argument(option, **_OPTIONS[option])
    parser.set_defaults(**changes)
    return parser


def training_parser(name: str, description: str | None, recipe: str) -> argparse.ArgumentParser:
    """A parser with the options that all trainings of a language model share; ``recipe`` is the default."""
    parser = parser_of(name, description, "--set", "--out", "--device", "--resume", "--eval-model", "--cache")
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder that training.collect wrote")
    add("--model", required=True, help="checkpoint folder, or an id of the local Hugging Face cache")
    add("--recipe", default=recipe, help=f"{', '.join(recipe_names())} or a TOML file (default: {recipe})")
    add("--max-steps", type=int, default=-1, metavar="N", help="optimiser steps; default: all of the epochs")
    return parser


def read_data(arguments: argparse.Namespace) -> tuple[Run, list[Example], list[Example]]:
    """The run that ``training_parser`` describes, the examples to train on and those held out.

    Raises:
        TrainingDataError: Recipe or examples are missing or malformed.
    """
    recipe = load_recipe(arguments.recipe, arguments.set)
    run = Run(recipe, arguments.out, arguments.device, arguments.max_steps, arguments.resume)
    return run, read_examples(arguments.data / TRAIN), read_examples(arguments.data / HELD_OUT)


def write_about(out: Path, about: dict[str, Any]) -> None:
    """Write what was done into the output folder, and print it."""
    write_json(out / ABOUT, about)
    print((out / ABOUT).read_text(encoding="utf-8"), end="")


def run_command(
    run: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser, arguments: Sequence[str] | None
) -> int:
    """The exit status of a command: 0, or 2 with one line on standard error where data, judge or model cannot be used."""
    options = parser.parse_args(arguments)
    return commands.exit_status(lambda: run(options), Console(stderr=True), FAILURES)
