"""Train by CoRe-MMRAG (arXiv 2506.02544, section 3.3) on LoRA adapters.

    python -m training.core_train --data data/core --model PATH --out runs/core

The first phase is L_PRKI and L_VTKI, the second L_SFT. DATA comes from ``training.core_data``. OUT gets ``adapter/`` and a folder with
checkpoints and curves for each of the two phases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from pydantic import Field
from torch.nn.functional import cross_entropy
from transformers import Trainer

from agents.models.chat.transformers_checkpoint import Checkpoint
from agents.papers.core_mmrag import LETTERS
from training.chat_examples import Example, TrainingDataError
from training.command_line import TrainingOptions, read_data, run_command, write_about
from training.core_data import OBJECTIVES
from training.encoding import IGNORED, Sample, SampleEncoder
from training.fit import ADAPTER, claim_folder, compute_fingerprint, describe_run, fit, load_trainable
from training.recipes import list_recipes

PHASES: Mapping[str, tuple[str, ...]] = {"selection": OBJECTIVES[:4], "answers": OBJECTIVES[4:]}
"""The two phases with their sets, in the paper's order."""


class ObjectiveTrainer(Trainer):  # type: ignore[misc]  # transformers is not checked
    """Trainer whose loss is that of the objective an input carries."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # The loss of a pass is a mean over its examples, not over all tokens of a step.
        self.model_accepts_loss_kwargs = False

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Compute the mean loss of the pass's examples."""
        del num_items_in_batch
        objective, letters, labels = (inputs.pop(name) for name in ("objective", "letters", "labels"))
        outputs = model(**inputs)
        loss = compute_objective_loss(str(objective), outputs.logits, labels, letters)
        return (loss, outputs) if return_outputs else loss


def compute_objective_loss(
    objective: str, logits: torch.Tensor, labels: torch.Tensor, letters: torch.Tensor
) -> torch.Tensor:
    """Compute the loss of one pass: minus the mean log-probability of its examples' right replies.

    Equations 9 (L_PRKI, own right answers), 11 (L_VTKI, the right entry) and 12 (L_SFT, the reference answer given the right entry) sum
    over two sets each. Here an example of either set counts alike, and the mean in place of the sum scales the learning rate alone. The
    probability of a reply is the product over its tokens. Equation 11 has the logarithm of an argmax, which has no gradient. This takes
    the probability inside the argmax: a softmax over the logits of the entries' letters at the beginning of the reply.

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
    """Encoder of examples with the objective that each is for.

    Raises:
        TrainingDataError: The tokenizer has no token of its own for a letter.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._encoder = SampleEncoder(checkpoint)
        self._device = checkpoint.model.device
        letters = [checkpoint.encode(letter) for letter in LETTERS]
        if any(len(ids) != 1 for ids in letters):
            raise TrainingDataError(
                f"the tokenizer has no single token for some of the letters {LETTERS}; take another model"
            )
        self._letters = [ids[0] for ids in letters]

    def length(self, example: Example) -> int:
        """Count the tokens of prompt and reply."""
        return self._encoder.length(Sample(example, example.reply))

    def encode(self, example: Example) -> dict[str, Any]:
        """Build the model's input with ``labels``, ``objective`` and ``letters``."""
        letters = torch.tensor([self._letters[: example.choices]], device=self._device).reshape(1, -1)
        inputs = self._encoder.pad([Sample(example, example.reply)])
        return {**inputs, "objective": example.objective, "letters": letters}


class CoreTrainOptions(TrainingOptions):
    """Options of the training."""

    recipe: str = Field("core_mmrag", description=f"{', '.join(list_recipes())} or a TOML file")


def run(options: CoreTrainOptions) -> None:
    """Train both phases one after the other on the same adapters; skip a phase without examples.

    Raises:
        TrainingDataError: Neither phase has examples.
    """
    run, examples, held_out = read_data(options)
    checkpoint, model = load_trainable(options.model, run.recipe, run.device)
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
    phases = [phase for phase in PHASES if any(row.objective in PHASES[phase] for row in fitting)]
    fingerprint = compute_fingerprint(describe_run(run), fitting, other)
    for phase in phases:  # all of them before the first is trained, which takes hours
        claim_folder(run.out / phase, fingerprint, resume=run.resume)
    for phase in phases:
        rows, held_out_rows = ([row for row in side if row.objective in PHASES[phase]] for side in (fitting, other))
        into = replace(run, out=run.out / phase)
        about[phase] = fit(model, into, rows, held_out_rows, encoder.encode, ObjectiveTrainer)
    model.save_pretrained(run.out / ADAPTER)
    write_about(run.out, about)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, CoreTrainOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
