"""Refusal fine-tuning: the model learns its own right answers and "I don't know" where it was wrong, on LoRA adapters.

    python -m training.sft --data data/training --model PATH --recipe nvidia --out runs/sft
    python -m training.sft ... --resume        # go on after a stop

OUT gets ``adapter/``, ``checkpoints/``, ``curves.json``, ``curves.png`` and ``about.json`` with the held-out loss before and after and,
with --measure, what the model's held-out replies are worth. The loss is on replies alone. Prompts are rendered as when serving.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.models.base import ChatModel
from evaluation.judge.judging import Judge, choose_judge, judge_turns
from evaluation.scores.scoring import bootstrap_intervals, score
from training.adapters import Trainable, load_trainable
from training.chat_examples import Example
from training.collect import ANSWERING, answer_in, answered_by
from training.command_line import read_data, run_command, training_parser, write_about
from training.encoding import Group, SampleEncoder, groups_of
from training.recipes import Recipe
from training.targets import Sample, counts, samples_of


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


def measure(model: ChatModel, examples: Sequence[Example], judge: Judge) -> dict[str, Any]:
    """Rates of the model's replies to the questions among the examples, 0 to 1 (truthfulness -1 to 1).

    Every question is asked with the evidence and the dialog of the recorded run, in one batched call.
    """
    asked = [example for example in examples if example.stage in ANSWERING]
    if not asked:
        return {"questions": 0}
    replies = model.chat([example.request() for example in asked])
    accept = {example.interaction_id: example.accept for example in asked}
    turns = [answered_by(example, answer_in(reply.text)) for example, reply in zip(asked, replies, strict=True)]
    judged = judge_turns(turns, judge, accept=accept)
    scores = score(judged)
    return {
        "questions": scores.total,
        "accuracy": scores.accuracy,
        "missing": scores.missing,
        "hallucination": scores.hallucination_rate,
        "truthfulness": scores.truthfulness_score,
        "intervals": {name: list(interval) for name, interval in bootstrap_intervals(judged).items()},
        "judge": judge.name,
    }


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Read, train, measure and write.

    Raises:
        TrainingDataError, EvaluationError: Something is missing; the message says what.
    """
    from agents.models.chat.transformers_chat import TransformersChat

    recipe, examples, held_out = read_data(arguments)
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
    return write_about(arguments.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = training_parser("sft", __doc__, "nvidia")
    parser.add_argument("--measure", action="store_true", help="judge the held-out replies before and after")
    return run_command(run, parser, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
