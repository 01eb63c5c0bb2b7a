"""Train by direct preference optimisation on sampled replies, on LoRA adapters (trl).

    python -m training.dpo --data data/training --model PATH --recipe preferences --out runs/dpo

A right reply is preferred to a refusal, and a refusal to a wrong reply. The model's own replies are sampled and judged first; OUT keeps
them in ``samples.jsonl``. A second call reuses them and samples missing ones; it refuses those of another model or judge, or
sampled otherwise.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from pydantic import Field, TypeAdapter
from trl import DPOConfig, DPOTrainer

from agents.models.base import ChatModel
from agents.models.chat.transformers_chat import TransformersChat
from agents.turn import IDK
from evaluation.files.responses import JsonLinesWriter, cut_tail, rewrite
from evaluation.judge.judging import Judge, choose_judge
from training.chat_examples import Example, TrainingDataError, Verdict, read_rows
from training.collect import judge_replies, read_target, read_verdict, select_questions
from training.command_line import TrainingOptions, read_data, run_command, write_about
from training.encoding import IGNORED, Sample, SampleEncoder
from training.fit import (
    ADAPTER,
    compute_fingerprint,
    describe_run,
    identify_model,
    load_base,
    make_arguments,
    make_common_options,
    make_lora_config,
    run_trainer,
)
from training.recipes import Recipe, list_recipes

SAMPLES = "samples.jsonl"
BATCH = 16
"""Questions whose replies are sampled in one call and kept together: an interruption loses no more."""


@dataclass(frozen=True)
class Sampling:
    """How replies are sampled and judged, the first line of their file."""

    model: str
    judge: str
    temperature: float
    samples: int
    seed: int


@dataclass(frozen=True)
class SampledReplies:
    """Replies to one question with their verdicts, in the order of sampling; of a cut reply the answer that the agent reads of it.

    ``key`` is session, interaction, prompt and a hash of the request, since a turn may ask several under one prompt.
    """

    key: tuple[str, str, str, str]
    replies: tuple[str, ...]
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class Pair:
    """A better reply and a worse one."""

    example: Example
    chosen: str
    rejected: str


def make_key(example: Example) -> tuple[str, str, str, str]:
    """Return the key by which an example's samples are found."""
    request = json.dumps([[asdict(message) for message in example.messages], example.max_tokens])
    return (*example.key, example.prompt, hashlib.sha256(request.encode()).hexdigest()[:16])


def sample_replies(model: ChatModel, examples: Sequence[Example], judge: Judge, recipe: Recipe) -> list[SampledReplies]:
    """Sample several replies to each question, in one batched call, and judge them; unjudged ones are left out."""
    table, seed = recipe.dpo, recipe.training.seed
    questions = [row for row in select_questions(examples) for _ in range(table.samples)]
    places = range(len(questions))
    requests = [questions[place].request(table.temperature, seed + place % table.samples) for place in places]
    replies = model.chat(requests)
    verdicts = [read_verdict(turn) for turn in judge_replies(questions, replies, judge)]
    samples = []
    for start in places[:: table.samples]:
        group = slice(start, start + table.samples)
        judged = [
            (read_target(reply), verdict)
            for reply, verdict in zip(replies[group], verdicts[group], strict=True)
            if verdict is not None
        ]
        texts, labels = tuple(reply for reply, _ in judged), tuple(verdict for _, verdict in judged)
        samples.append(SampledReplies(make_key(questions[start]), texts, labels))
    return samples


def write_samples(path: Path, sampling: Sampling, samples: Iterable[SampledReplies] = ()) -> None:
    """Write how the replies were sampled, then one question a line."""
    rewrite(path, [asdict(sampling), *map(asdict, samples)])


def read_samples(path: Path, sampling: Sampling) -> list[SampledReplies]:
    """Read the output of ``write_samples``.

    Raises:
        TrainingDataError: The file is missing or malformed, or its replies were sampled otherwise.
    """
    try:
        rows = read_rows(path, _parse_line, "sampled replies")
        earlier = [row for row in rows if isinstance(row, Sampling)]
        if earlier != [sampling]:
            raise TrainingDataError(f"{path} has replies of another sampling ({_compare(earlier, sampling)})")
    except TrainingDataError as error:
        raise TrainingDataError(f"{error}; remove the file, and replies are sampled again") from error
    return [row for row in rows if isinstance(row, SampledReplies)]


def _parse_line(values: dict[str, Any]) -> Sampling | SampledReplies:
    kind: type[Sampling | SampledReplies] = SampledReplies if "key" in values else Sampling
    return TypeAdapter(kind).validate_python(values)


def _compare(earlier: Sequence[Sampling], sampling: Sampling) -> str:
    if len(earlier) != 1:
        return "it does not say how"
    now = asdict(sampling)
    return ", ".join(
        f"{name}: {then} then, {now[name]} now" for name, then in asdict(earlier[0]).items() if then != now[name]
    )


def complete_samples(
    path: Path,
    sampling: Sampling,
    questions: Sequence[Example],
    sample: Callable[[Sequence[Example]], Iterable[SampledReplies]],
) -> dict[tuple[str, str, str, str], SampledReplies]:
    """Sample the replies that a file lacks and append them, a batch at a time; return all of the file by their keys.

    Raises:
        TrainingDataError: See ``read_samples``.
    """
    if not path.is_file():
        write_samples(path, sampling)
    cut_tail(path)  # a line that a killed call began
    sampled = {row.key: row for row in read_samples(path, sampling)}
    missing = list({key: row for row in questions if (key := make_key(row)) not in sampled}.values())
    with JsonLinesWriter(path) as file:
        for start in range(0, len(missing), BATCH):
            for row in sample(missing[start : start + BATCH]):
                sampled[row.key] = row
                file.write(asdict(row))
            file.sync()
    return sampled


def build_pairs(example: Example, sampled: SampledReplies) -> list[Pair]:
    """Build preference pairs: right over refusal over wrong.

    They are the commonest right reply, "I don't know", and the commonest wrong reply.
    """
    right, wrong = (_find_commonest(sampled, verdict) for verdict in ("correct", "hallucination"))
    ladder = [reply for reply in (right, IDK, wrong) if reply is not None]
    return [Pair(example, better, worse) for better, worse in combinations(ladder, 2) if better != worse]


def _find_commonest(sampled: SampledReplies, verdict: str) -> str | None:
    replies = [
        reply
        for reply, reply_verdict in zip(sampled.replies, sampled.verdicts, strict=True)
        if reply_verdict == verdict
    ]
    return Counter(replies).most_common(1)[0][0] if replies else None  # the first of equals


class PairTrainer(DPOTrainer):  # type: ignore[misc]  # trl is not typed for strict checks
    """DPO trainer of trl over pairs that the collator encodes.

    So the prompts are those that the agent serves, pictures included.
    """

    def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset


class PairCollator:
    """Collator that encodes pairs for trl: the chosen rows, then the rejected ones."""

    def __init__(self, pairs: Sequence[Pair], encoder: SampleEncoder) -> None:
        self._pairs = pairs
        self._encoder = encoder

    def __call__(self, rows: Sequence[dict[str, int]]) -> dict[str, torch.Tensor]:
        """Encode one batch of pairs, given by their places."""
        pairs = [self._pairs[row["place"]] for row in rows]
        chosen = [Sample(pair.example, pair.chosen) for pair in pairs]
        rejected = [Sample(pair.example, pair.rejected) for pair in pairs]
        inputs = self._encoder.pad(chosen + rejected)
        inputs["completion_mask"] = (inputs.pop("labels") != IGNORED).to(inputs["attention_mask"].dtype)
        return inputs


def select_fitting(pairs: Sequence[Pair], encoder: SampleEncoder, max_tokens: int) -> list[Pair]:
    """Select the pairs whose rows both have at most ``max_tokens``."""
    return [
        pair
        for pair in pairs
        if all(encoder.length(Sample(pair.example, reply)) <= max_tokens for reply in (pair.chosen, pair.rejected))
    ]


class DpoOptions(TrainingOptions):
    """Options of the training."""

    recipe: str = Field("preferences", description=f"{', '.join(list_recipes())} or a TOML file")


def run(options: DpoOptions) -> None:
    """Sample, judge, train and write.

    Raises:
        One of ``command_line.FAILURES``: Something is missing.
    """
    import datasets

    run, examples, held_out = read_data(options)
    judge = choose_judge(options.eval_model, cache=options.cache)
    checkpoint = load_base(options.model, run.recipe, run.device)
    chat, encoder = TransformersChat(checkpoint, Path(options.model).name), SampleEncoder(checkpoint)

    sampling = Sampling(
        identify_model(run.model),
        judge.name,
        run.recipe.dpo.temperature,
        run.recipe.dpo.samples,
        run.recipe.training.seed,
    )
    sample = partial(sample_replies, chat, judge=judge, recipe=run.recipe)

    def make_pairs(questions: Sequence[Example], path: Path) -> list[Pair]:
        sampled = complete_samples(path, sampling, questions, sample)
        pairs = [pair for row in questions for pair in build_pairs(row, sampled[make_key(row)])]
        return select_fitting(pairs, encoder, run.recipe.training.max_tokens)

    questions, held_out_questions = select_questions(examples), select_questions(held_out)
    pairs = make_pairs(questions, run.out / SAMPLES)
    other = make_pairs(held_out_questions, run.out / f"held_out_{SAMPLES}")
    if not pairs:
        raise TrainingDataError(
            "all replies to each question are equally good; sample more (dpo.samples) or at a higher temperature"
        )
    table = run.recipe.training
    config = make_arguments(
        DPOConfig,
        run.recipe,
        **make_common_options(run, evaluate=bool(other)),
        per_device_train_batch_size=1,  # a pair
        per_device_eval_batch_size=1,
        gradient_accumulation_steps=table.batch * table.accumulation,
        beta=run.recipe.dpo.beta,
        max_length=None,
    )
    every = [*pairs, *other]
    places = datasets.Dataset.from_dict({"place": list(range(len(every)))})
    trainer = PairTrainer(
        model=checkpoint.model,
        args=config,
        train_dataset=places.select(range(len(pairs))),
        eval_dataset=places.select(range(len(pairs), len(every))) if other else None,
        processing_class=checkpoint.processor or checkpoint.tokenizer,
        data_collator=PairCollator(every, encoder),
        peft_config=make_lora_config(run.recipe),
    )
    measures = ("loss", "rewards/margins", "eval_loss")
    fingerprint = compute_fingerprint(describe_run(run), pairs, other)
    log = run_trainer(trainer, run.out, run.recipe.name, fingerprint=fingerprint, resume=run.resume, measures=measures)
    trainer.model.save_pretrained(run.out / ADAPTER)
    margins = [row["rewards/margins"] for row in log if "rewards/margins" in row]
    about = {
        "recipe": run.recipe.model_dump(),
        "model": str(options.model),
        "questions": len(questions),
        "pairs": len(pairs),
        "held_out_questions": len(held_out_questions),
        "held_out_pairs": len(other),
        "steps": trainer.state.global_step,
        "margin": {"first": margins[0], "last": margins[-1]} if margins else None,
        "judge": judge.name,
    }
    write_about(run.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, DpoOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
