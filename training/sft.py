"""Fine-tune a model to give its own right answers, and "I don't know" where it was wrong.

    python -m training.sft --data data/training --model PATH --recipe nvidia --out runs/sft
    python -m training.sft ... --resume        # continue after a stop

It trains LoRA adapters. OUT gets ``adapter/``, ``checkpoints/``, ``curves.json``, ``curves.png`` and ``about.json``. The last has the
held-out loss before and after and, with --measure, the scores of the model's held-out replies. The loss is on replies alone. Prompts are
rendered as when serving.
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
from agents.texts.replies import was_cut
from agents.turn import IDK
from evaluation.judge.judging import Judge, choose_judge
from evaluation.scores.scoring import bootstrap_intervals, count_unjudged, score
from training.chat_examples import Example, hash_to_share
from training.collect import RELEVANCE, judge_replies, read_target, select_questions
from training.command_line import TrainingOptions, read_data, run_command, write_about
from training.encoding import Sample, SampleEncoder, SampleGroup, group_samples
from training.fit import fit, load_trainable
from training.recipes import DataTable, Recipe

LEARNED = ANSWERS | {STEP_ANSWER.name}
"""Forms whose replies are learned as answers, where they have a verdict."""


def select_samples(examples: Iterable[Example], data: DataTable) -> list[Sample]:
    """Select the samples of the requested tasks, in the order of the examples.

    ``answer``: the model's own reply if it is right (or the reference answer, by choice), else "I don't know". Of a truncated reply
    the agent's answer is learned. A share of the refusals is left out, chosen by the hash of the turn, so that a greater share leaves out
    more of the same. ``queries``: the model's own queries, not cut off, if the turn ended right. ``relevance``: yes or no.

    Returns:
        Samples whose ``kind`` is answer, refusal, queries or relevance.
    """
    return [sample for sample in (_make_sample(example, data) for example in examples) if sample is not None]


def _make_sample(example: Example, data: DataTable) -> Sample | None:
    if example.form in LEARNED and "answer" in data.tasks:
        right, share = example.reply_verdict == "correct", hash_to_share("/".join(example.key))
        if example.reply_verdict is None or (not right and share < data.refusals_left_out):
            return None
        own = read_target(example.chat_reply, example.form) if data.answers == "own" else example.ground_truth
        return Sample(example, own) if right else Sample(example, IDK, "refusal")
    if example.form == QUERIES and "queries" in data.tasks and example.verdict == "correct" and example.reply:
        return None if was_cut(example.chat_reply) else Sample(example, example.reply, "queries")
    if example.prompt == RELEVANCE and "relevance" in data.tasks:
        return Sample(example, example.reply, "relevance")
    return None


def count_kinds(samples: Sequence[Sample]) -> dict[str, int]:
    """Count the samples of each kind."""
    return dict(sorted(Counter(sample.kind for sample in samples).items()))


def prepare(samples: Sequence[Sample], encoder: SampleEncoder, recipe: Recipe) -> tuple[list[SampleGroup], int]:
    """Group the samples that fit the recipe's ``max_tokens``, and count those that are too long."""
    table = recipe.training
    lengths = [encoder.length(sample) for sample in samples]
    fitting = [place for place, length in enumerate(lengths) if length <= table.max_tokens]
    groups = group_samples(
        [samples[place] for place in fitting],
        [lengths[place] for place in fitting],
        batch=table.batch,
        max_tokens=table.max_tokens,
        packing=table.packing and encoder.can_pack,
    )
    return groups, len(samples) - len(fitting)


def measure(model: ChatModel, examples: Sequence[Example], judge: Judge) -> dict[str, Any]:
    """Compute rates of the model's replies to the questions among the examples.

    Every question is asked with the evidence and the dialog of the recorded run, in one batched call.

    Returns:
        Rates from 0 to 1 (truthfulness -1 to 1), with their intervals. Replies that the judge failed on are counted apart.
    """
    questions = select_questions(examples)
    if not questions:
        return {"questions": 0}
    replies = model.chat([example.request() for example in questions])
    replies_judged = judge_replies(questions, replies, judge)
    judged = [turn for turn in replies_judged if not turn.judge_failed]
    scores = score(judged)
    return {
        "questions": scores.total,
        "not_judged": count_unjudged(replies_judged),
        "accuracy": scores.accuracy,
        "missing": scores.missing,
        "hallucination": scores.hallucination_rate,
        "truthfulness": scores.truthfulness_score,
        "intervals": {name: list(interval) for name, interval in bootstrap_intervals(judged).items()},
        "judge": judge.name,
    }


class SftOptions(TrainingOptions):
    """Options of the training."""

    measure: bool = Field(False, description="judge the held-out replies before and after")


def run(options: SftOptions) -> None:
    """Read the data, train, measure and write.

    Raises:
        One of ``command_line.FAILURES``: Something is missing.
    """
    run, examples, held_out = read_data(options)
    judge = choose_judge(options.eval_model, cache=options.cache)
    checkpoint, model = load_trainable(options.model, run.recipe, run.device)
    chat = TransformersChat(checkpoint, Path(options.model).name)
    before = measure(chat, held_out, judge) if options.measure else None
    encoder = SampleEncoder(checkpoint)
    samples, other = select_samples(examples, run.recipe.data), select_samples(held_out, run.recipe.data)
    groups, too_long = prepare(samples, encoder, run.recipe)
    about = {
        "recipe": run.recipe.model_dump(),
        "samples": count_kinds(samples),
        "held_out_samples": count_kinds(other),
        "too_long": too_long,
        "sequences": len(groups),
        **fit(model, run, groups, prepare(other, encoder, run.recipe)[0], encoder.encode),
        "model": str(options.model),
    }
    if before is not None:
        about["held_out_replies"] = {"before": before, "after": measure(chat, held_out, judge)}
    write_about(run.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, SftOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
