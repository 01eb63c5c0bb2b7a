"""Refusal fine-tuning: the model learns its own right answers and "I don't know" where it was wrong, on LoRA adapters.

    python -m training.sft --data data/training --model PATH --recipe nvidia --out runs/sft
    python -m training.sft ... --resume        # go on after a stop

OUT gets ``adapter/``, ``checkpoints/``, ``curves.json``, ``curves.png`` and ``about.json`` with the held-out loss before and after and,
with --measure, what the model's held-out replies are worth. The loss is on replies alone. Prompts are rendered as when serving.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.launch import DEFAULT_CACHE
from evaluation.judge.choose_judge import choose_judge
from evaluation.records import EvaluationError
from training.adapters import Trainable, load_trainable
from training.chat_examples import HELD_OUT, TRAIN, Example, TrainingDataError, read_examples
from training.encoding import Group, SampleEncoder, groups_of
from training.recipes import Recipe, load_recipe, recipe_names
from training.targets import Sample, counts, samples_of

ABOUT = "about.json"


def prepare(samples: Sequence[Sample], encoder: SampleEncoder, recipe: Recipe) -> tuple[list[Group], int]:
    """The groups of samples that fit the recipe's ``max_tokens``, and how many were too long."""
    table = recipe.training
    measured = [(sample, encoder.length(sample)) for sample in samples]
    fitting = [(sample, length) for sample, length in measured if length <= table.max_tokens]
    groups = groups_of(
        [sample for sample, _ in fitting],
        [length for _, length in fitting],
        batch=table.batch,
        max_tokens=table.max_tokens,
        packing=table.packing and encoder.packs,
    )
    return groups, len(samples) - len(fitting)


def train(
    trainable: Trainable,
    recipe: Recipe,
    examples: Sequence[Example],
    held_out: Sequence[Example],
    out: Path,
    *,
    device: str = "cpu",
    steps: int = -1,
    resume: bool = False,
) -> dict[str, Any]:
    """Train on the examples; returns what was trained on and the held-out losses.

    Raises:
        TrainingDataError: See ``fit``.
    """
    from training.fit import fit

    encoder = SampleEncoder(trainable.checkpoint)
    samples, other = samples_of(examples, recipe.data), samples_of(held_out, recipe.data)
    groups, too_long = prepare(samples, encoder, recipe)
    other_groups, _ = prepare(other, encoder, recipe)
    log = fit(trainable, recipe, groups, other_groups, encoder.encode, out, device=device, steps=steps, resume=resume)
    losses = [row["eval_loss"] for row in log if "eval_loss" in row]
    return {
        "recipe": recipe.model_dump(),
        "samples": counts(samples),
        "held_out_samples": counts(other),
        "too_long": too_long,
        "sequences": len(groups),
        "steps": max((row["step"] for row in log), default=0),
        "held_out_loss": {"before": losses[0], "after": losses[-1]} if losses else None,
    }


def add_options(parser: argparse.ArgumentParser, recipe: str) -> None:
    """The flags that all trainings share."""
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.sft", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser, "nvidia")
    parser.add_argument("--measure", action="store_true", help="judge the held-out replies before and after")
    return parser


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Read, train, measure and write.

    Raises:
        TrainingDataError, EvaluationError: Something is missing; the message says what.
    """
    from agents.models.chat.transformers_chat import TransformersChat
    from training.measure import measure

    recipe = load_recipe(arguments.recipe, arguments.set)
    examples, held_out = read_examples(arguments.data / TRAIN), read_examples(arguments.data / HELD_OUT)
    judge = choose_judge(arguments.eval_model, cache=arguments.cache)
    trainable = load_trainable(arguments.model, recipe, arguments.device)
    chat = TransformersChat(trainable.checkpoint, Path(arguments.model).name)
    before = measure(chat, held_out, judge) if arguments.measure else None
    about = train(
        trainable,
        recipe,
        examples,
        held_out,
        arguments.out,
        device=arguments.device,
        steps=arguments.max_steps,
        resume=arguments.resume,
    )
    about["model"] = str(arguments.model)
    if before is not None:
        about["held_out_replies"] = {"before": before, "after": measure(chat, held_out, judge)}
    (arguments.out / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return about


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    try:
        print(json.dumps(run(_parser().parse_args(arguments)), indent=2))
    except (EvaluationError, TrainingDataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
