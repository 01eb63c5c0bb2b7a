"""Refusal fine-tuning: the model learns its own right answers and "I don't know" where it was wrong, on LoRA adapters.

    python -m training.sft --data data/training --model PATH --recipe nvidia --out runs/sft
    python -m training.sft ... --resume        # go on after a stop

OUT gets ``adapter/``, ``checkpoints/``, ``curves.json``, ``curves.png`` and ``about.json`` with the held-out loss before and after and,
with --measure, the scores of the model's held-out replies. The loss is on replies alone. Prompts are rendered as when serving.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from agents.asking.readers.answers import ANSWERS, STEP_ANSWER
from agents.asking.readers.fields import QUERIES
from agents.models.base import ChatModel
from agents.models.chat.transformers_chat import TransformersChat
from agents.turn import IDK
from evaluation.judge.judging import Judge, choose_judge
from evaluation.scores.scoring import bootstrap_intervals, score
from training.chat_examples import Example, share_of
from training.collect import RELEVANCE, judged_replies, questions
from training.command_line import TrainingOptions, read_data, run_command, write_about
from training.encoding import Sample, SampleEncoder, SampleGroup, groups_of
from training.fit import fit, load_trainable
from training.recipes import DataTable, Recipe

LEARNED = ANSWERS | {STEP_ANSWER.name}
"""Forms whose replies are learned as answers, where they have a verdict."""


def samples_of(examples: Iterable[Example], data: DataTable) -> list[Sample]:
    """The samples of the tasks asked for, in the order of the examples; ``kind`` is answer, refusal, queries or relevance.

    ``answer``: the model's own reply where it is right (or the reference answer, by choice), else "I don't know"; a share of
    either is left out, chosen by the hash of their turn so that a greater share leaves out more of the same. ``queries``: the model's
    own queries where the turn ended right. ``relevance``: yes or no.
    """
    return [sample for sample in (_sample(example, data) for example in examples) if sample is not None]


def _sample(example: Example, data: DataTable) -> Sample | None:
    if example.form in LEARNED and "answer" in data.tasks:
        right, share = example.reply_verdict == "correct", share_of("/".join(example.key))
        if example.reply_verdict is None or share < (data.answers_left_out if right else data.refusals_left_out):
            return None
        own = example.reply if data.answers == "own" else example.ground_truth
        return Sample(example, own) if right else Sample(example, IDK, "refusal")
    if example.form == QUERIES and "queries" in data.tasks and example.verdict == "correct" and example.reply:
        return Sample(example, example.reply, "queries")
    if example.prompt == RELEVANCE and "relevance" in data.tasks:
        return Sample(example, example.reply, "relevance")
    return None


def counts(samples: Sequence[Sample]) -> dict[str, int]:
    """How many samples there are of each kind."""
    return dict(sorted(Counter(sample.kind for sample in samples).items()))


def prepare(samples: Sequence[Sample], encoder: SampleEncoder, recipe: Recipe) -> tuple[list[SampleGroup], int]:
    """The groups of samples that fit the recipe's ``max_tokens``, and how many were too long."""
    table = recipe.training
    lengths = [encoder.length(sample) for sample in samples]
    fitting = [place for place, length in enumerate(lengths) if length <= table.max_tokens]
    groups = groups_of(
        [samples[place] for place in fitting],
        [lengths[place] for place in fitting],
        batch=table.batch,
        max_tokens=table.max_tokens,
        packing=table.packing and encoder.packs,
    )
    return groups, len(samples) - len(fitting)


def measure(model: ChatModel, examples: Sequence[Example], judge: Judge) -> dict[str, Any]:
    """Rates of the model's replies to the questions among the examples, 0 to 1 (truthfulness -1 to 1).

    Every question is asked with the evidence and the dialog of the recorded run, in one batched call.
    """
    asked = questions(examples)
    if not asked:
        return {"questions": 0}
    replies = model.chat([example.request() for example in asked])
    judged = judged_replies(asked, [reply.text for reply in replies], judge)
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


class SftOptions(TrainingOptions):
    """What is trained."""

    measure: bool = Field(False, description="judge the held-out replies before and after")


def run(options: SftOptions) -> None:
    """Read, train, measure and write; raises one of ``command_line.FAILURES`` where something is missing."""
    run, examples, held_out = read_data(options)
    judge = choose_judge(options.eval_model, cache=options.cache)
    checkpoint, model = load_trainable(options.model, run.recipe, run.device)
    chat = TransformersChat(checkpoint, Path(options.model).name)
    before = measure(chat, held_out, judge) if options.measure else None
    encoder = SampleEncoder(checkpoint)
    samples, other = samples_of(examples, run.recipe.data), samples_of(held_out, run.recipe.data)
    groups, too_long = prepare(samples, encoder, run.recipe)
    about = {
        "recipe": run.recipe.model_dump(),
        "samples": counts(samples),
        "held_out_samples": counts(other),
        "too_long": too_long,
        "sequences": len(groups),
        **fit(model, run, groups, prepare(other, encoder, run.recipe)[0], encoder.encode),
        "model": str(options.model),
    }
    if before is not None:
        about["held_out_replies"] = {"before": before, "after": measure(chat, held_out, judge)}
    write_about(run.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(run, SftOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
