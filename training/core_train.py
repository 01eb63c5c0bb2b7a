"""CoRe-MMRAG's training (arXiv 2506.02544, section 3.3): first L_PRKI and L_VTKI, then L_SFT, on LoRA adapters.

    python -m training.core_train --data data/core --model PATH --out runs/core

DATA is what ``training.core_data`` wrote. OUT gets ``adapter/`` and a folder with checkpoints and curves for each of the two phases.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import Trainer

from agents.asking.readers.entry_replies import LETTERS
from agents.models.chat.transformers_checkpoint import Checkpoint
from training.chat_examples import Example, TrainingDataError
from training.command_line import read_data, run_command, training_parser, write_about
from training.core_data import OBJECTIVES
from training.encoding import IGNORED, Sample, SampleEncoder
from training.fit import ADAPTER, fit, load_trainable

PHASES: Mapping[str, tuple[str, ...]] = {"selection": OBJECTIVES[:4], "answers": OBJECTIVES[4:]}
"""The two phases with their sets; the answers are what the paper continues with."""


class ObjectiveTrainer(Trainer):  # type: ignore[misc]  # transformers is not checked
    """A Trainer whose loss is that of the objective an input carries."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # The loss of a pass is a mean over its examples, not over all tokens of a step.
        self.model_accepts_loss_kwargs = False

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The mean of the pass's examples."""
        del num_items_in_batch
        objective, letters, labels = (inputs.pop(name) for name in ("objective", "letters", "labels"))
        outputs = model(**inputs)
        loss = objective_loss(str(objective), outputs.logits, labels, letters)
        return (loss, outputs) if return_outputs else loss


def objective_loss(objective: str, logits: torch.Tensor, labels: torch.Tensor, letters: torch.Tensor) -> torch.Tensor:
    """The loss of one pass: minus the mean log-probability of what its examples should have replied.

    Equations 9 (L_PRKI, own right answers), 11 (L_VTKI, the right entry) and 12 (L_SFT, the reference answer given the right entry) sum
    over two sets each. Here an example of either set counts alike, and the mean in place of the sum scales the learning rate alone. The
    probability of a reply is the product over its tokens. Equation 11 has the logarithm of an argmax, which has no gradient; this takes
    the probability that the argmax is taken of: a softmax over the logits of the entries' letters where the reply begins.

    Args:
        objective: One of ``OBJECTIVES``.
        logits: Shape (rows, tokens, vocabulary).
        labels: Shape (rows, tokens); ``IGNORED`` outside of the reply.
        letters: Token ids of the letters of each row's entries, -1 beyond them, shape (rows, most entries); unused by other objectives.
    """
    if not objective.startswith("vtki"):
        scores = logits[:, :-1].float().transpose(1, 2)
        return cross_entropy(scores, labels[:, 1:], ignore_index=IGNORED, reduction="none").sum(dim=1).mean()
    begin = (labels != IGNORED).int().argmax(dim=1)
    rows = torch.arange(len(labels), device=labels.device)
    scores = logits[rows, begin - 1].float().gather(1, letters.clamp(min=0)).masked_fill(letters < 0, float("-inf"))
    return cross_entropy(scores, (letters == labels[rows, begin].unsqueeze(1)).int().argmax(dim=1))


class CoreEncoder:
    """Encodes an example with the objective it is for.

    Raises:
        TrainingDataError: The tokenizer has no token of its own for a letter.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._encoder = SampleEncoder(checkpoint)
        self._device = checkpoint.model.device
        letters = [checkpoint.encode(letter) for letter in LETTERS]
        if any(len(ids) != 1 for ids in letters):
            raise TrainingDataError(f"the tokenizer has no token of its own for each of the letters {LETTERS}")
        self._letters = [ids[0] for ids in letters]

    def length(self, example: Example) -> int:
        """Tokens of prompt and reply."""
        return self._encoder.length(Sample(example, example.reply))

    def encode(self, example: Example) -> dict[str, Any]:
        """The model's input with ``labels``, ``objective`` and ``letters``."""
        letters = torch.tensor([self._letters[: example.choices]], device=self._device).reshape(1, -1)
        inputs = self._encoder.padded([Sample(example, example.reply)])
        return {**inputs, "objective": example.objective, "letters": letters}


def run(arguments: argparse.Namespace) -> None:
    """Both phases one after the other on the same adapters; a phase without examples is left out, and TrainingDataError raised for both."""
    run, examples, held_out = read_data(arguments)
    checkpoint, model = load_trainable(arguments.model, run.recipe, run.device)
    encoder = CoreEncoder(checkpoint)
    fitting, other = (
        [row for row in rows if row.objective in OBJECTIVES and encoder.length(row) <= run.recipe.training.max_tokens]
        for rows in (examples, held_out)
    )
    if not fitting:
        raise TrainingDataError(
            "there is no example of any of CoRe-MMRAG's sets; mine them with python -m training.core_data"
        )
    about: dict[str, Any] = {
        "recipe": run.recipe.model_dump(),
        "too_long": len(examples) - len(fitting),
        "examples": dict(Counter(row.objective for row in fitting)),
    }
    for phase, objectives in PHASES.items():
        rows, held = ([row for row in side if row.objective in objectives] for side in (fitting, other))
        if rows:
            into = replace(run, out=run.out / phase)
            about[phase] = fit(model, into, rows, held, encoder.encode, ObjectiveTrainer)
    model.save_pretrained(run.out / ADAPTER)
    write_about(run.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    return run_command(run, training_parser("core_train", __doc__, "core_mmrag"), arguments)


if __name__ == "__main__":
    raise SystemExit(main())
