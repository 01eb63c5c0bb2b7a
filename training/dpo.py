"""Direct preference optimisation on sampled replies: right over refusal over wrong, on LoRA adapters (trl).

    python -m training.dpo --data data/training --model PATH --recipe preferences --out runs/dpo

The model's own replies are sampled and judged first; OUT keeps them in ``samples.jsonl``, which a second call takes over.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from trl import DPOConfig, DPOTrainer

from agents.models.chat.transformers_chat import TransformersChat
from evaluation.judge.judging import choose_judge
from training.adapters import ADAPTER, load_base, lora_config, run_guarded
from training.chat_examples import Example, TrainingDataError
from training.command_line import read_data, run_command, training_parser, write_about
from training.encoding import IGNORED, SampleEncoder
from training.fit import common_options, last_checkpoint, write_curves
from training.preferences import Pair, key_of, pairs_of, questions, read_samples, sample_replies, write_samples
from training.targets import Sample

SAMPLES = "samples.jsonl"


class PairTrainer(DPOTrainer):  # type: ignore[misc]  # trl is not typed for strict checks
    """trl's trainer over pairs that the collator encodes, so that prompts are those the agent serves, pictures included."""

    def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset


class PairCollator:
    """Encodes pairs as trl wants them: the chosen rows, then the rejected ones."""

    def __init__(self, pairs: Sequence[Pair], encoder: SampleEncoder) -> None:
        self._pairs = pairs
        self._encoder = encoder

    def __call__(self, rows: Sequence[dict[str, int]]) -> dict[str, torch.Tensor]:
        """One batch of pairs, given by their places."""
        pairs = [self._pairs[row["place"]] for row in rows]
        samples = [Sample(pair.example, pair.chosen, "answer") for pair in pairs]
        samples += [Sample(pair.example, pair.rejected, "answer") for pair in pairs]
        inputs = self._encoder.padded(samples)
        inputs["completion_mask"] = (inputs.pop("labels") != IGNORED).to(inputs["attention_mask"].dtype)
        return inputs


def fitting(pairs: Sequence[Pair], encoder: SampleEncoder, max_tokens: int) -> list[Pair]:
    """The pairs of which both rows have at most ``max_tokens``."""
    return [
        pair
        for pair in pairs
        if max(encoder.length(Sample(pair.example, reply, "answer")) for reply in (pair.chosen, pair.rejected)) <= max_tokens
    ]  # fmt: skip


def _pairs(examples: Sequence[Example], path: Path, sample: Any) -> list[Pair]:
    """The pairs of the examples' questions, from the file of samples or from fresh ones."""
    if not path.is_file():
        write_samples(path, sample(examples))
    sampled = {row.key: row for row in read_samples(path)}
    return [
        pair for row in questions(examples) if key_of(row) in sampled for pair in pairs_of(row, sampled[key_of(row)])
    ]


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Sample, judge, train and write.

    Raises:
        TrainingDataError, EvaluationError: Something is missing; the message says what.
    """
    import datasets

    recipe, examples, held_out = read_data(arguments)
    judge = choose_judge(arguments.eval_model, cache=arguments.cache)
    checkpoint = load_base(arguments.model, recipe, arguments.device)
    chat = TransformersChat(checkpoint, Path(arguments.model).name)

    def sample(rows: Sequence[Example]) -> Any:
        table = recipe.dpo
        return sample_replies(
            chat, rows, judge, samples=table.samples, temperature=table.temperature, seed=recipe.training.seed
        )

    encoder, most = SampleEncoder(checkpoint), recipe.training.max_tokens
    pairs = fitting(_pairs(examples, arguments.out / SAMPLES, sample), encoder, most)
    other = fitting(_pairs(held_out, arguments.out / f"held_out_{SAMPLES}", sample), encoder, most)
    if not pairs:
        raise TrainingDataError("no question has replies of which one is better; sample more (dpo.samples) or hotter")
    table = recipe.training
    config = DPOConfig(
        **common_options(recipe, arguments.out, arguments.max_steps, arguments.device, evaluate=bool(other)),
        per_device_train_batch_size=1,  # a pair
        per_device_eval_batch_size=1,
        gradient_accumulation_steps=table.batch * table.accumulation,
        beta=recipe.dpo.beta,
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
        peft_config=lora_config(recipe),
    )
    resumed = last_checkpoint(arguments.out, arguments.resume)
    run_guarded(lambda: trainer.train(resume_from_checkpoint=resumed), f"recipe {recipe.name!r}")
    trainer.model.save_pretrained(arguments.out / ADAPTER)
    log = trainer.state.log_history
    write_curves(log, arguments.out, recipe.name, ("loss", "rewards/margins", "eval_loss"))
    steps = [row for row in log if "rewards/margins" in row]
    about = {
        "recipe": recipe.model_dump(),
        "model": str(arguments.model),
        "pairs": len(pairs),
        "held_out_pairs": len(other),
        "steps": max((row["step"] for row in log), default=0),
        "margin": {"first": steps[0]["rewards/margins"], "last": steps[-1]["rewards/margins"]} if steps else None,
        "judge": judge.name,
    }
    return write_about(arguments.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(run, training_parser("dpo", __doc__, "preferences"), arguments)


if __name__ == "__main__":
    raise SystemExit(main())
