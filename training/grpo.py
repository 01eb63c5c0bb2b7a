"""Train by group relative policy optimisation in three stages: easy, 1:1, 1:2 easy to hard (trl).

    python -m training.grpo --data data/training --model PATH --recipe curriculum --strong results/strong --out runs/grpo

A judge gives the reward 1, 0 or -1. A question is easy if a strong model answered it right: --strong names that model's judged run over
the same split. Without it the model's own recorded replies decide. Questions without a verdict are left out. Each stage continues from the
adapter of the one before; OUT gets the last one as ``adapter/``.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import torch
from pydantic import Field
from trl import GRPOConfig, GRPOTrainer

from agents.base.command_options import Flag
from agents.models.base import ChatMessage, ChatReply
from agents.models.chat.transformers_checkpoint import Checkpoint
from evaluation.files.outputs import read_turn_table
from evaluation.judge.judging import Judge, choose_judge
from evaluation.records import Key
from training.chat_examples import Example, TrainingDataError
from training.collect import judge_replies, read_verdict, select_questions
from training.command_line import Run, TrainingOptions, read_data, run_command, write_about
from training.encoding import SampleEncoder, extend_cross_mask, uses_cross_attention
from training.fit import (
    ADAPTER,
    claim_folder,
    compute_fingerprint,
    describe_run,
    load_base,
    make_arguments,
    make_common_options,
    make_lora_config,
    read_log,
    run_trainer,
)
from training.merge import ADAPTER_CONFIG
from training.recipes import list_recipes

log = logging.getLogger(__name__)

REWARDS: Mapping[str, float] = {"correct": 1.0, "miss": 0.0, "hallucination": -1.0}
"""The challenge's own scale, which Dianping (arXiv 2508.10337) took for the reward."""

SIGHT = ("pixel_values", "aspect_ratio_ids", "aspect_ratio_mask", "cross_attention_mask")
"""Inputs of Mllama beside the tokens, each with one row a prompt."""


@dataclass(frozen=True)
class Stage:
    """A stage of the curriculum: its name and its questions."""

    name: str
    examples: tuple[Example, ...]


class PromptTrainer(GRPOTrainer):  # type: ignore[misc]  # trl is not typed for strict checks
    """GRPO trainer of trl that gives rendered prompts no second begin-of-text token."""

    def _tokenize_prompts(self, prompts: list[Any]) -> Any:
        if not isinstance(prompts[0], str):
            return super()._tokenize_prompts(prompts)
        return [self._tokenizer.encode(prompt, add_special_tokens=False) for prompt in prompts], None, {}


class CrossAttentionTrainer(PromptTrainer):
    """Trainer for Mllama, whose pictures trl cannot pass on: to trl its prompts are text alone.

    The model's picture inputs (``SIGHT``) are added beside the tokens wherever the model is called. ``sight`` builds them from the places
    of examples; it returns {} for a model or questions without pictures.
    """

    def __init__(self, sight: Callable[[Sequence[int]], dict[str, torch.Tensor]], **options: Any) -> None:
        super().__init__(**options)
        self._build_sight = sight
        self._sight: dict[str, torch.Tensor] = {}

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._sight = self._build_sight([row["place"] for row in inputs])
        return {**super()._generate_and_score_completions(inputs), **self._sight}  # shuffled and split with the rest

    def _generate_single_turn(self, prompt_ids: Any, images: Any, fields: Any, *rest: Any, **more: Any) -> Any:
        return super()._generate_single_turn(prompt_ids, images, {**fields, **self._sight}, *rest, **more)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        self._sight = {name: inputs[name] for name in SIGHT if name in inputs}
        return super()._compute_loss(model, inputs)

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, batch_size: Any = None, **more: Any
    ) -> Any:
        if not self._sight:
            inputs = (model, input_ids, attention_mask, logits_to_keep, batch_size)
            return super()._get_per_token_logps_and_entropies(*inputs, **more)
        more["pixel_values"] = None  # they are in ``_sight``
        parts = []
        for start in range(0, len(input_ids), batch_size or len(input_ids)):
            rows = slice(start, start + (batch_size or len(input_ids)))
            sight = {name: value[rows] for name, value in self._sight.items()}
            sight["cross_attention_mask"] = extend_cross_mask(sight["cross_attention_mask"], logits_to_keep)
            seeing = partial(model, **sight)
            tokens = input_ids[rows], attention_mask[rows]
            parts.append(super()._get_per_token_logps_and_entropies(seeing, *tokens, logits_to_keep, **more))
        return tuple(torch.cat(part) if part[0] is not None else None for part in zip(*parts, strict=True))


def make_reward(examples: Sequence[Example], judge: Judge, end_ids: Collection[int]) -> Callable[..., list[float]]:
    """Return the reward function of replies by the judge's verdicts: 1 right, 0 "I don't know", -1 wrong.

    A reply that the judge could not judge gets the mean of its group: no advantage, in either direction. A reply that does not end with
    one of ``end_ids`` was cut off by its limit of tokens.
    """

    def truthfulness(
        completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], place: Sequence[int], **_: Any
    ) -> list[float]:
        texts = [reply if isinstance(reply, str) else reply[0]["content"] for reply in completions]
        texts = [text if isinstance(text, str) else text[0]["text"] for text in texts]
        replies = [
            ChatReply(text.strip(), "stop" if ids[-1] in end_ids else "length")
            for text, ids in zip(texts, completion_ids, strict=True)
        ]
        judged = judge_replies([examples[number] for number in place], replies, judge)
        rewards = [None if (verdict := read_verdict(turn)) is None else REWARDS[verdict] for turn in judged]
        groups: dict[int, list[float]] = {}
        for number, reward in zip(place, rewards, strict=True):
            groups.setdefault(number, []).extend([] if reward is None else [reward])
        means = {number: fmean(group) if group else 0.0 for number, group in groups.items()}
        return [means[number] if reward is None else reward for number, reward in zip(place, rewards, strict=True)]

    return truthfulness


def select_uniform(questions: Sequence[Example]) -> tuple[list[Example], dict[str, int]]:
    """Select the larger group of questions with or without pictures: a batch has pictures in all rows or in none.

    Returns:
        The group, and the number of questions left out ``with_picture`` and ``without_picture``.
    """
    pictured = [row for row in questions if row.images]
    plain = [row for row in questions if not row.images]
    selection, others = (pictured, plain) if len(pictured) >= len(plain) else (plain, pictured)
    if others:
        message = "%d of %d questions are left out: those with and without a picture cannot be trained on together"
        log.warning(message, len(others), len(questions))
    count_pictured = sum(bool(row.images) for row in others)
    return selection, {"with_picture": count_pictured, "without_picture": len(others) - count_pictured}


def read_strong_verdicts(run: Path) -> dict[Key, str]:
    """Read a strong model's verdicts by turn; errors and unjudged answers are no verdicts.

    Raises:
        EvaluationError: The run has no table of judged turns.
    """
    return {row.turn.key: row.verdict for row in read_turn_table(run) if row.verdict in REWARDS}


def split_by_difficulty(
    examples: Sequence[Example], strong: Mapping[Key, str] | None
) -> tuple[list[Example], list[Example]]:
    """Split the questions into easy and hard ones; those without a verdict are left out.

    ``strong`` has a strong model's verdicts by turn; None: those on the model's own replies decide.
    """
    easy: list[Example] = []
    hard: list[Example] = []
    questions = select_questions(examples)
    for row in questions:
        verdict = row.reply_verdict if strong is None else strong.get(row.key)
        if verdict is not None:
            (easy if verdict == "correct" else hard).append(row)
    if num_left_out := len(questions) - len(easy) - len(hard):
        log.warning("%d of %d questions are left out: they have no verdict", num_left_out, len(questions))
    return easy, hard


def build_curriculum(easy: Sequence[Example], hard: Sequence[Example], seed: int = 0) -> list[Stage]:
    """Build the three stages of Dianping (arXiv 2508.10337).

    Easy questions come alone, then with as many hard ones, then with twice as many. Each stage is as large as the questions allow without
    repeating one. A stage that would be empty is left out.
    """
    chooser = random.Random(seed)
    stages = [Stage("easy", tuple(easy))]
    for name, ratio in (("1:1", 1), ("1:2", 2)):
        size = min(len(easy), len(hard) // ratio)
        selection = chooser.sample(list(easy), size) + chooser.sample(list(hard), ratio * size)
        chooser.shuffle(selection)
        stages.append(Stage(name, tuple(selection)))
    return [stage for stage in stages if stage.examples]


def make_trainer(examples: Sequence[Example], checkpoint: Checkpoint, **options: Any) -> GRPOTrainer:
    """Make the trainer that suits a model, over the requests of some examples.

    ``options`` are those of trl's ``GRPOTrainer``. A model that takes pictures among the tokens gets messages with them, any other
    rendered prompts.
    """
    import datasets

    encoder = SampleEncoder(checkpoint)

    def message(part: ChatMessage) -> dict[str, Any]:
        pictures = [{"type": "image", "image": image} for image in part.images]
        return {"role": part.role, "content": [*pictures, {"type": "text", "text": part.content}]}

    def prompt(example: Example) -> Any:
        messages = encoder.messages(example)
        rendered = uses_cross_attention(checkpoint) or not checkpoint.sees
        return checkpoint.render(messages) if rendered else [message(part) for part in messages]

    def rows(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        return {**batch, "prompt": [prompt(examples[number]) for number in batch["place"]]}

    options["train_dataset"] = datasets.Dataset.from_dict({"place": list(range(len(examples)))}).with_transform(rows)
    if not uses_cross_attention(checkpoint):
        return PromptTrainer(**options, processing_class=checkpoint.processor or checkpoint.tokenizer)

    def sight(places: Sequence[int]) -> dict[str, torch.Tensor]:
        inputs = encoder.prompts([examples[place] for place in places])
        return {name: inputs[name] for name in SIGHT if name in inputs}

    return CrossAttentionTrainer(sight, **options, processing_class=checkpoint.tokenizer)


def train_stage(
    stage: Stage, earlier: Path | None, run: Run, judge: Judge, *, fingerprint: str, vllm: bool = False
) -> list[dict[str, Any]]:
    """Train one stage, write its adapter and curves into the run's folder, and return the log.

    Args:
        stage: The stage.
        earlier: The adapter of the stage before; None for a fresh one.
        run: Recipe, checkpoint, output folder and device.
        judge: Judge of the replies.
        fingerprint: Digest of the curriculum's inputs.
        vllm: Whether vLLM samples the replies, on a GPU.

    Raises:
        TrainingDataError: vLLM is to sample for an Mllama, the groups do not fit the recipe's batches, or the memory of the device is
            full.
    """
    checkpoint = load_base(run.model, run.recipe, run.device)
    if vllm and uses_cross_attention(checkpoint):
        raise TrainingDataError("trl hands vLLM no pictures for Llama-3.2-Vision; leave out --vllm")
    network: Any = checkpoint.model
    if earlier is not None:
        from peft import PeftModel

        network = PeftModel.from_pretrained(checkpoint.model, str(earlier), is_trainable=True)
    recipe, table = run.recipe, run.recipe.training
    config = make_arguments(
        GRPOConfig,
        recipe,
        **make_common_options(run, evaluate=False),
        per_device_train_batch_size=table.batch,
        gradient_accumulation_steps=table.accumulation,
        num_generations=recipe.grpo.generations,
        max_completion_length=max(row.max_tokens for row in stage.examples),
        temperature=recipe.grpo.temperature,
        beta=recipe.grpo.beta,
        use_vllm=vllm,
    )
    trainer = make_trainer(
        stage.examples,
        checkpoint,
        model=network,
        reward_funcs=make_reward(stage.examples, judge, checkpoint.end_ids),
        args=config,
        peft_config=make_lora_config(recipe) if earlier is None else None,
    )
    title = f"{recipe.name}, stage {stage.name}"
    measures = ("reward", "loss", "kl")
    log = run_trainer(trainer, run.out, title, fingerprint=fingerprint, resume=run.resume, measures=measures)
    trainer.model.save_pretrained(run.out / ADAPTER, selected_adapters=["default"])
    return log


class GrpoOptions(TrainingOptions):
    """Options of the training."""

    recipe: str = Field("curriculum", description=f"{', '.join(list_recipes())} or a TOML file")
    strong: Annotated[Path | None, Flag(metavar="RUN")] = Field(
        None, description="judged run of a strong model: the questions that it answers right are easy"
    )
    vllm: bool = Field(False, description="let vLLM sample the replies (GPU)")


def run(options: GrpoOptions) -> None:
    """Build the curriculum, train its stages and write.

    Raises:
        One of ``command_line.FAILURES``: Something is missing.
    """
    run, examples, _ = read_data(options)
    judge = choose_judge(options.eval_model, cache=options.cache)
    strong = None if options.strong is None else read_strong_verdicts(options.strong)
    questions, left_out = select_uniform(select_questions(examples))
    easy, hard = split_by_difficulty(questions, strong)
    stages = build_curriculum(easy, hard, run.recipe.training.seed)
    if not stages:
        raise TrainingDataError(
            "no question is easy: the curriculum begins with those; name a strong model's run over the same questions with --strong"
        )
    about: dict[str, Any] = {
        "recipe": run.recipe.model_dump(),
        "model": str(options.model),
        "easy": len(easy),
        "hard": len(hard),
        "left_out": left_out,
        "without_verdict": len(questions) - len(easy) - len(hard),
        "judge": judge.name,
        "stages": [],
    }
    fingerprint = compute_fingerprint(describe_run(run), judge.name, stages)
    stage_runs = [replace(run, out=run.out / f"stage_{number}") for number in range(1, len(stages) + 1)]
    for into in stage_runs:  # all of them before the first is trained, which takes hours
        claim_folder(into.out, fingerprint, resume=run.resume)
    adapter: Path | None = None
    for stage, into in zip(stages, stage_runs, strict=True):
        is_finished = (into.out / ADAPTER / ADAPTER_CONFIG).is_file()  # which PEFT writes last
        log = (
            read_log(into.out)
            if is_finished
            else train_stage(stage, adapter, into, judge, fingerprint=fingerprint, vllm=options.vllm)
        )
        rewards = [row["reward"] for row in log if "reward" in row]
        size = {"questions": len(stage.examples), "steps": len(rewards)}
        about["stages"].append({"name": stage.name, **size, "rewards": rewards})
        adapter = into.out / ADAPTER
    shutil.copytree(into.out / ADAPTER, run.out / ADAPTER, dirs_exist_ok=True)
    write_about(run.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, GrpoOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
