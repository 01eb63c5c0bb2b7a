"""Group relative policy optimisation with reward 1 / 0 / -1 by a judge, in three stages: easy, 1:1, 1:2 easy to hard (trl).

    python -m training.grpo --data data/training --model PATH --recipe curriculum --strong results/strong --out runs/grpo

A question is easy where a strong model answered it right: --strong names that model's judged run over the same split. Without it the
model's own recorded replies decide. Each stage goes on from the adapter of the one before; OUT gets the last one as ``adapter/``.
trl's trainer has no place for Mllama's cross-attention inputs: Llama-3.2-Vision is trained by ``training.sft`` and ``training.dpo``.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from agents.models.chat.prompt_fitting import MAX_IMAGE_SIDE
from agents.models.chat.transformers_checkpoint import Checkpoint
from agents.models.pixels import rgb_within
from evaluation.files.outputs import read_turn_table
from evaluation.judge.judging import Judge, choose_judge
from training.adapters import ADAPTER, load_base, lora_config
from training.chat_examples import Example, TrainingDataError
from training.collect import judged_replies, questions
from training.command_line import Run, read_data, run_command, training_parser, write_about
from training.fit import common_options, run_trainer

Reward = Callable[..., list[float]]

REWARDS: Mapping[str, float] = {"correct": 1.0, "miss": 0.0, "hallucination": -1.0}
"""The challenge's own scale, which Dianping (arXiv 2508.10337) took for the reward."""


@dataclass(frozen=True)
class Stage:
    """A stage of the curriculum: its name and its questions."""

    name: str
    examples: tuple[Example, ...]


class PromptTrainer(GRPOTrainer):  # type: ignore[misc]  # trl is not typed for strict checks
    """trl's trainer; prompts that are rendered already get no second begin-of-text token."""

    def _tokenize_prompts(self, prompts: list[Any]) -> Any:
        if not isinstance(prompts[0], str):
            return super()._tokenize_prompts(prompts)
        return [self._tokenizer.encode(prompt, add_special_tokens=False) for prompt in prompts], None, {}


def reward_of(examples: Sequence[Example], judge: Judge) -> Reward:
    """The reward of replies by the judge's verdicts: 1 right, 0 "I don't know", -1 wrong."""

    def truthfulness(completions: Sequence[Any], place: Sequence[int], **_: Any) -> list[float]:
        said = [reply if isinstance(reply, str) else reply[0]["content"] for reply in completions]
        said = [text if isinstance(text, str) else text[0]["text"] for text in said]
        judged = judged_replies([examples[number] for number in place], [text.strip() for text in said], judge)
        return [REWARDS[turn.verdict] for turn in judged]

    return truthfulness


def split_by_difficulty(
    examples: Sequence[Example], right: set[tuple[str, str]] | None
) -> tuple[list[Example], list[Example]]:
    """Easy and hard questions.

    Args:
        right: Session and interaction of the turns that a strong model answered right; None: the model's own replies decide.
    """
    easy: list[Example] = []
    hard: list[Example] = []
    for row in questions(examples):
        known = row.reply_verdict == "correct" if right is None else row.key in right
        (easy if known else hard).append(row)
    return easy, hard


def curriculum(easy: Sequence[Example], hard: Sequence[Example], seed: int = 0) -> list[Stage]:
    """The three stages of Dianping (arXiv 2508.10337): easy questions alone, then as many hard ones, then twice as many.

    Each stage is as large as the questions allow without repeating one; a stage that would be empty is left out.
    """
    chooser = random.Random(seed)
    stages = [Stage("easy", tuple(easy))]
    for name, ratio in (("1:1", 1), ("1:2", 2)):
        size = min(len(easy), len(hard) // ratio)
        chosen = chooser.sample(list(easy), size) + chooser.sample(list(hard), ratio * size)
        chooser.shuffle(chosen)
        stages.append(Stage(name, tuple(chosen)))
    return [stage for stage in stages if stage.examples]


def prompts_of(examples: Sequence[Example], checkpoint: Checkpoint) -> Any:
    """The data set of trl: rendered prompts for a text model, messages with images for one that sees."""
    import datasets

    def rows(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        chosen = [examples[number] for number in batch["place"]]
        if not checkpoint.sees:
            return {**batch, "prompt": [checkpoint.render(row.load_messages()) for row in chosen]}
        return {
            **batch,
            "prompt": [[{"role": part.role, "content": part.content} for part in row.messages] for row in chosen],
            "images": [
                [rgb_within(image, MAX_IMAGE_SIDE) for part in row.load_messages() for image in part.images]
                for row in chosen
            ],
        }

    return datasets.Dataset.from_dict({"place": list(range(len(examples)))}).with_transform(rows)


def train_stage(
    stage: Stage, model: str, earlier: Path | None, run: Run, judge: Judge, *, vllm: bool = False
) -> list[dict[str, Any]]:
    """Train one stage and write its adapter and curves into the run's folder; returns the log.

    Args:
        earlier: The adapter of the stage before; None for a fresh one.
        vllm: Whether vLLM samples the replies, on a GPU.

    Raises:
        TrainingDataError: The model is an Mllama, or the memory of the device is full.
    """
    checkpoint = load_base(model, run.recipe, run.device)
    if checkpoint.model.config.model_type == "mllama":
        raise TrainingDataError(
            "trl's GRPO has no place for Mllama's cross-attention inputs; train Llama-3.2-Vision with training.sft or training.dpo"
        )
    network: Any = checkpoint.model
    if earlier is not None:
        from peft import PeftModel

        network = PeftModel.from_pretrained(checkpoint.model, str(earlier), is_trainable=True)
    recipe, table = run.recipe, run.recipe.training
    config = GRPOConfig(
        **common_options(run, evaluate=False),
        per_device_train_batch_size=table.batch,
        gradient_accumulation_steps=table.accumulation,
        num_generations=recipe.grpo.generations,
        max_completion_length=max(row.max_tokens for row in stage.examples),
        temperature=recipe.grpo.temperature,
        beta=recipe.grpo.beta,
        use_vllm=vllm,
    )
    trainer = PromptTrainer(
        model=network,
        reward_funcs=reward_of(stage.examples, judge),
        args=config,
        train_dataset=prompts_of(stage.examples, checkpoint),
        processing_class=checkpoint.processor or checkpoint.tokenizer,
        peft_config=lora_config(recipe) if earlier is None else None,
    )
    title = f"{recipe.name}, stage {stage.name}"
    log = run_trainer(trainer, run.out, title, resume=run.resume, measures=("reward", "loss", "kl"))
    trainer.model.save_pretrained(run.out / ADAPTER, selected_adapters=["default"])
    return log


def run(arguments: argparse.Namespace) -> None:
    """Make the curriculum, train its stages and write.

    Raises:
        TrainingDataError, EvaluationError: Something is missing; the message says what.
    """
    run, examples, _ = read_data(arguments)
    judge = choose_judge(arguments.eval_model, cache=arguments.cache)
    right = None
    if arguments.strong is not None:
        right = {row.turn.key for row in read_turn_table(arguments.strong) if row.correct}
    easy, hard = split_by_difficulty(examples, right)
    stages = curriculum(easy, hard, run.recipe.training.seed)
    if not stages:
        raise TrainingDataError(
            "no question is easy: the curriculum begins with those; name a strong model's run with --strong"
        )
    about: dict[str, Any] = {
        "recipe": run.recipe.model_dump(),
        "model": str(arguments.model),
        "easy": len(easy),
        "hard": len(hard),
        "judge": judge.name,
        "stages": [],
    }
    adapter: Path | None = None
    for number, stage in enumerate(stages, 1):
        into = replace(run, out=run.out / f"stage_{number}")
        if not (run.resume and (into.out / ADAPTER).is_dir()):
            log = train_stage(stage, arguments.model, adapter, into, judge, vllm=arguments.vllm)
            rewards = [row["reward"] for row in log if "reward" in row]
            about["stages"].append(
                {"name": stage.name, "questions": len(stage.examples), "steps": len(rewards), "rewards": rewards}
            )
        adapter = into.out / ADAPTER
    assert adapter is not None  # there is a stage
    shutil.copytree(adapter, run.out / ADAPTER, dirs_exist_ok=True)
    write_about(run.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = training_parser("grpo", __doc__, "curriculum")
    parser.add_argument(
        "--strong", type=Path, metavar="RUN", help="judged run of a strong model: what it has right is easy"
    )
    parser.add_argument("--vllm", action="store_true", help="let vLLM sample the replies (GPU)")
    return run_command(run, parser, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
