"""CoRe-MMRAG's training (arXiv 2506.02544, section 3.3): first L_PRKI and L_VTKI, then L_SFT, on LoRA adapters.

    python -m training.core_train --data data/core --model PATH --out runs/core

DATA is what ``training.core_data`` wrote. OUT gets ``adapter/`` and a folder with checkpoints and curves for each of the two phases.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer

from agents.methods.entry_replies import LETTERS
from training.adapters import ADAPTER, Trainable, load_trainable
from training.chat_examples import Example, TrainingDataError
from training.command_line import read_data, run_command, training_parser, write_about
from training.core_data import OBJECTIVES
from training.encoding import IGNORED, SampleEncoder
from training.fit import fit
from training.recipes import Recipe
from training.targets import Sample

PHASES: Mapping[str, tuple[str, ...]] = {"selection": OBJECTIVES[:4], "answers": OBJECTIVES[4:]}
"""The two phases with their sets; the answers are what the paper continues with."""


class ObjectiveTrainer(Trainer):  # type: ignore[misc]  # transformers is not checked
    """A Trainer whose loss is that of the objective an input carries."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.model_accepts_loss_kwargs = (
            False  # the loss of a pass is a mean over its examples, not over all tokens of a step
        )

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The mean of the pass's examples."""
        del num_items_in_batch
        objective, letters = inputs.pop("objective"), inputs.pop("letters")
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = objective_loss(str(objective), outputs.logits, labels, letters)
        return (loss, outputs) if return_outputs else loss


def reply_log_probabilities(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """log M(y | input) of each row: the sum over the reply's tokens.

    Args:
        logits: Shape (rows, tokens, vocabulary).
        labels: Shape (rows, tokens); ``IGNORED`` outside of the reply.

    Returns:
        Shape (rows,), natural logarithms.
    """
    targets = labels[:, 1:]
    kept = targets != IGNORED
    chosen = targets.masked_fill(~kept, 0).unsqueeze(-1)
    found = torch.log_softmax(logits[:, :-1].float(), dim=-1).gather(-1, chosen).squeeze(-1)
    return (found * kept).sum(dim=1)


def choice_log_probabilities(scores: torch.Tensor, chosen: torch.Tensor, entries: torch.Tensor) -> torch.Tensor:
    """log of the probability r_M that the model gives an entry among the k of a question (eq. 11).

    The paper writes the logarithm of an argmax, which has no gradient; this is the probability that the argmax is taken of: a softmax
    over the entries' scores.

    Args:
        scores: Shape (rows, most entries); columns beyond a row's entries are left out.
        chosen: Shape (rows,), the entry's index from 0.
        entries: Shape (rows,), k of each row.

    Returns:
        Shape (rows,), natural logarithms.
    """
    columns = torch.arange(scores.shape[1], device=scores.device)
    there = columns.unsqueeze(0) < entries.unsqueeze(1)
    found = torch.log_softmax(scores.float().masked_fill(~there, float("-inf")), dim=-1)
    return found.gather(1, chosen.unsqueeze(1)).squeeze(1)


def objective_loss(objective: str, logits: torch.Tensor, labels: torch.Tensor, letters: torch.Tensor) -> torch.Tensor:
    """The loss of one pass: minus the mean log-probability of what its examples should have replied.

    Equations 9 (L_PRKI, own right answers), 11 (L_VTKI, the right entry) and 12 (L_SFT, the reference answer given the right entry) sum
    over two sets each. Here an example of either set counts alike, and the mean in place of the sum scales the learning rate alone.

    Args:
        objective: One of ``OBJECTIVES``.
        logits: Shape (rows, tokens, vocabulary).
        labels: Shape (rows, tokens).
        letters: Token ids of the letters of each row's entries, -1 beyond them, shape (rows, most entries); unused by other objectives.
    """
    if not objective.startswith("vtki"):
        return -reply_log_probabilities(logits, labels).mean()
    scores, chosen = letter_scores(logits, labels, letters)
    return -choice_log_probabilities(scores, chosen, (letters >= 0).sum(dim=1)).mean()


def letter_scores(
    logits: torch.Tensor, labels: torch.Tensor, letters: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits of the entries' letters where the reply begins, and the place of the right one, from 0.

    Returns:
        Shapes (rows, most entries) and (rows,).
    """
    begin = (labels != IGNORED).int().argmax(dim=1)
    rows = torch.arange(len(labels), device=labels.device)
    scores = logits[rows, begin - 1].gather(1, letters.clamp(min=0))
    chosen = (letters == labels[rows, begin].unsqueeze(1)).int().argmax(dim=1)
    return scores, chosen


class CoreEncoder:
    """Encodes an example with the objective it is for.

    Raises:
        TrainingDataError: The tokenizer has no token of its own for a letter.
    """

    def __init__(self, trainable: Trainable) -> None:
        self._encoder = SampleEncoder(trainable.checkpoint)
        self._device = trainable.checkpoint.model.device
        self._letters = []
        for letter in LETTERS:
            ids = trainable.checkpoint.tokenizer.encode(letter, add_special_tokens=False)
            if len(ids) != 1:
                raise TrainingDataError(f"the tokenizer has no token of its own for the letter {letter}")
            self._letters.append(ids[0])

    def length(self, example: Example) -> int:
        """Tokens of prompt and reply."""
        return self._encoder.length(Sample(example, example.reply, "answer"))

    def encode(self, example: Example) -> dict[str, Any]:
        """The model's input with ``labels``, ``objective`` and ``letters``."""
        inputs: dict[str, Any] = dict(self._encoder.padded([Sample(example, example.reply, "answer")]))
        inputs["objective"] = example.stage
        inputs["letters"] = torch.tensor([self._letters[: example.choices]], device=self._device).reshape(1, -1)
        return inputs


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
    """Both phases one after the other on the same adapters; a phase without examples is left out.

    Raises:
        TrainingDataError: There is no example at all, or see ``fit``.
    """
    encoder = CoreEncoder(trainable)
    most = recipe.training.max_tokens
    fitting, other = (
        [row for row in rows if row.stage in OBJECTIVES and encoder.length(row) <= most]
        for rows in (examples, held_out)
    )
    if not fitting:
        raise TrainingDataError(
            "there is no example of any of CoRe-MMRAG's sets; mine them with python -m training.core_data"
        )
    about: dict[str, Any] = {"recipe": recipe.model_dump(), "too_long": len(examples) - len(fitting)}
    about["examples"] = dict(Counter(row.stage for row in fitting))
    for phase, objectives in PHASES.items():
        rows = [row for row in fitting if row.stage in objectives]
        if not rows:
            continue
        held = [row for row in other if row.stage in objectives]
        log = fit(
            trainable, recipe, rows, held, encoder.encode, out / phase,
            device=device, steps=steps, resume=resume, trainer=ObjectiveTrainer,
        )  # fmt: skip
        losses = [row["eval_loss"] for row in log if "eval_loss" in row]
        about[phase] = {
            "steps": max((row["step"] for row in log), default=0),
            "held_out_loss": {"before": losses[0], "after": losses[-1]} if losses else None,
        }
    trainable.model.save_pretrained(out / ADAPTER)
    return about


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Read, train and write.

    Raises:
        TrainingDataError: Something is missing; the message says what.
    """
    recipe, examples, held_out = read_data(arguments)
    trainable = load_trainable(arguments.model, recipe, arguments.device)
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
    return write_about(arguments.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(run, training_parser("core_train", __doc__, "core_mmrag"), arguments)


if __name__ == "__main__":
    raise SystemExit(main())
