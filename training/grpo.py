"""Group relative policy optimisation with reward 1 / 0 / -1 by a judge, in three stages: easy, 1:1, 1:2 easy to hard (trl).

    python -m training.grpo --data data/training --model PATH --recipe curriculum --strong results/strong --out runs/grpo

A question is easy where a strong model answered it right: --strong names that model's judged run over the same split. Without it the
model's own recorded replies decide. Each stage goes on from the adapter of the one before; OUT gets the last one as ``adapter/``.
trl's trainer has no place for Mllama's cross-attention inputs: Llama-3.2-Vision is trained by ``training.sft`` and ``training.dpo``.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trl import GRPOConfig, GRPOTrainer

from agents.models.chat.prompt_fitting import MAX_IMAGE_SIDE
from agents.models.chat.transformers_checkpoint import Checkpoint
from agents.models.pixels import rgb_within
from evaluation.files.outputs import read_turn_table
from evaluation.judge.judging import Judge, choose_judge
from training.adapters import ADAPTER, load_base, lora_config, run_guarded
from training.chat_examples import Example, TrainingDataError
from training.command_line import read_data, run_command, training_parser, write_about
from training.fit import common_options, last_checkpoint, write_curves
from training.preferences import REWARDS, Stage, curriculum, judged_replies, questions
from training.recipes import Recipe

Reward = Callable[..., list[float]]


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
        verdicts = judged_replies([examples[number] for number in place], [text.strip() for text in said], judge)
        return [REWARDS[verdict] for verdict in verdicts]

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
        known = row.reply_verdict == "correct" if right is None else (row.session_id, row.interaction_id) in right
        (easy if known else hard).append(row)
    return easy, hard


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
    stage: Stage,
    model: str,
    earlier: Path | None,
    recipe: Recipe,
    judge: Judge,
    out: Path,
    *,
    device: str = "cpu",
    steps: int = -1,
    resume: bool = False,
    vllm: bool = False,
) -> list[dict[str, Any]]:
    """Train one stage and write its adapter and curves into ``out``; returns the log.

    Args:
        earlier: The adapter of the stage before; None for a fresh one.
        vllm: Whether vLLM samples the replies, on a GPU.

    Raises:
        TrainingDataError: The model is an Mllama, or the memory of the device is full.
    """
    checkpoint = load_base(model, recipe, device)
    if checkpoint.model.config.model_type == "mllama":
        raise TrainingDataError(
            "trl's GRPO has no place for Mllama's cross-attention inputs; train Llama-3.2-Vision with training.sft or training.dpo"
        )
    network: Any = checkpoint.model
    if earlier is not None:
        from peft import PeftModel

        network = PeftModel.from_pretrained(checkpoint.model, str(earlier), is_trainable=True)
    table = recipe.training
    config = GRPOConfig(
        **common_options(recipe, out, steps, device, evaluate=False),
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
    resumed = last_checkpoint(out, resume)
    run_guarded(lambda: trainer.train(resume_from_checkpoint=resumed), f"recipe {recipe.name!r}")
    trainer.model.save_pretrained(out / ADAPTER, selected_adapters=["default"])
    log: list[dict[str, Any]] = trainer.state.log_history
    write_curves(log, out, f"{recipe.name}, stage {stage.name}", ("reward", "loss", "kl"))
    return log


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the curriculum, train its stages and write.

    Raises:
        TrainingDataError, EvaluationError: Something is missing; the message says what.
    """
    recipe, examples, _ = read_data(arguments)
    judge = choose_judge(arguments.eval_model, cache=arguments.cache)
    right = None
    if arguments.strong is not None:
        table = read_turn_table(arguments.strong)
        right = {(row.turn.session_id, row.turn.interaction_id) for row in table if row.correct}
    easy, hard = split_by_difficulty(examples, right)
    stages = curriculum(easy, hard, recipe.training.seed)
    if not stages:
        raise TrainingDataError(
            "no question is easy: the curriculum begins with those; name a strong model's run with --strong"
        )
    about: dict[str, Any] = {
        "recipe": recipe.model_dump(),
        "model": str(arguments.model),
        "easy": len(easy),
        "hard": len(hard),
        "judge": judge.name,
        "stages": [],
    }
    adapter = Path()
    for number, stage in enumerate(stages, 1):
        folder = arguments.out / f"stage_{number}"
        if not (arguments.resume and (folder / ADAPTER).is_dir()):
            log = train_stage(
                stage, arguments.model, adapter if number > 1 else None, recipe, judge, folder,
                device=arguments.device, steps=arguments.max_steps, resume=arguments.resume, vllm=arguments.vllm,
            )  # fmt: skip
            rewards = [row["reward"] for row in log if "reward" in row]
            about["stages"].append(
                {"name": stage.name, "questions": len(stage.examples), "steps": len(rewards), "rewards": rewards}
            )
        adapter = folder / ADAPTER
    shutil.copytree(adapter, arguments.out / ADAPTER, dirs_exist_ok=True)
    return write_about(arguments.out, about)


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
