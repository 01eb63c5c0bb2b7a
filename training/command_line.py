"""What the commands of the training have in common: their flags, the data they read, and what they leave in the output folder."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agents.launch import DEFAULT_CACHE
from evaluation.records import EvaluationError
from training.chat_examples import HELD_OUT, TRAIN, Example, TrainingDataError, read_examples
from training.recipes import Recipe, load_recipe, recipe_names

ABOUT = "about.json"


def parser_of(name: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of ``python -m training.NAME``."""
    return argparse.ArgumentParser(
        prog=f"python -m training.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def training_parser(name: str, description: str | None, recipe: str) -> argparse.ArgumentParser:
    """A parser with the flags that all trainings of a language model share; ``recipe`` is the default."""
    parser = parser_of(name, description)
    parser.add_argument("--data", type=Path, required=True, help="folder that training.collect wrote")
    parser.add_argument("--model", required=True, help="checkpoint folder, or an id of the local Hugging Face cache")
    parser.add_argument(
        "--recipe", default=recipe, help=f"{', '.join(recipe_names())} or a TOML file (default: {recipe})"
    )
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="value of the recipe replaced, "
                        "such as data.refusals_left_out=0.7; may be repeated")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, help="folder of the result")
    parser.add_argument("--device", default="cpu", help="cpu, cuda ... (default: cpu)")
    parser.add_argument(
        "--max-steps", type=int, default=-1, metavar="N", help="optimiser steps; default: all of the epochs"
    )
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --out")
    parser.add_argument("--eval-model", metavar="MODEL", help="judge of replies (see local_evaluation.py)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="folder of judgements")
    return parser


def read_data(arguments: argparse.Namespace) -> tuple[Recipe, list[Example], list[Example]]:
    """The recipe, the examples to train on and those held out.

    Raises:
        TrainingDataError: One of them is missing or malformed.
    """
    recipe = load_recipe(arguments.recipe, arguments.set)
    return recipe, read_examples(arguments.data / TRAIN), read_examples(arguments.data / HELD_OUT)


def write_about(out: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Write what was done into the output folder, and return it."""
    out.mkdir(parents=True, exist_ok=True)
    (out / ABOUT).write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return about


def run_command(
    run: Callable[[argparse.Namespace], dict[str, Any]],
    parser: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
) -> int:
    """Run and print what was done, as JSON; 2 with one line where data, judge or checkpoint cannot be used."""
    try:
        print(json.dumps(run(parser.parse_args(arguments)), indent=2, ensure_ascii=False))
    except (EvaluationError, TrainingDataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
