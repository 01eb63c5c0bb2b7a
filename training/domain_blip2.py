"""Fine-tune BLIP-2 as the domain router, on the data set's domain labels (QA-Dragon, section 3.1.1).

    python -m training.domain_blip2 --dataset PATH --split validation --model Salesforce/blip2-itm-vit-g --out models/domains

The Q-Former, its query tokens, both projections and a linear head are trained. The picture encoder stays as it is, as in BLIP-2's own
second stage. OUT gets the checkpoint (a folder named after the model and ``-domains``) and ``head.json``, which the kind
``domain-head`` of a profile loads. ``training.domain_router`` fits a head alone, to frozen features.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from PIL import Image
from pydantic import Field
from transformers import Trainer, TrainingArguments

from agents.base.linear_head import LinearHead, convert_rows
from agents.base.printing import print_text
from agents.models.encoders.blip2 import Blip2QFormer, joint_tokens, text_token
from training.chat_examples import TrainingDataError, is_held_out
from training.command_line import DeviceOptions, SplitOptions, run_command
from training.domain_router import (
    TYPES,
    DomainExample,
    describe_head,
    extract_features,
    name_training_data,
    read_domains,
)
from training.fit import compute_fingerprint, identify_model, make_quiet_options, run_trainer
from training.logistic import compute_rates

HEAD = "head.json"


class DomainModel(torch.nn.Module):
    """Features of ``Blip2QFormer`` with gradients, and a linear head on them.

    ``model`` is a ``Blip2ForImageTextRetrieval``.
    """

    def __init__(self, model: Any, classes: int) -> None:
        super().__init__()
        self.model = model
        self.head = torch.nn.Linear(2 * model.config.image_text_hidden_size, classes)
        for parameter in model.vision_model.parameters():
            parameter.requires_grad = False

    def features(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        pixel_values: torch.Tensor,
        has_picture: torch.Tensor,
    ) -> torch.Tensor:
        """Compute features as ``Blip2QFormer.features``: the mean query token beside the question's [CLS].

        The mean is 0 for a row without a picture.

        Args:
            input_ids: Token ids of the questions, shape (rows, tokens).
            attention_mask: 1 for tokens and 0 for padding, shape (rows, tokens).
            pixel_values: Pictures of the processor, one a row.
            has_picture: Whether each row has a picture, shape (rows,); the pixels of the others are ignored.

        Returns:
            Shape (rows, 2 x projection size).
        """
        with torch.no_grad():
            sight = self.model.vision_model(pixel_values=pixel_values).last_hidden_state
        means = joint_tokens(self.model, input_ids, attention_mask, sight).mean(dim=1)
        means = torch.nn.functional.normalize(means, dim=-1) * has_picture.unsqueeze(1).to(means.dtype)
        return torch.cat([means, text_token(self.model, input_ids, attention_mask)], dim=1)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        pixel_values: torch.Tensor,
        has_picture: torch.Tensor,
        labels: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Return the cross-entropy over the domains (``loss``) and ``logits`` of shape (rows, classes)."""
        features = self.features(input_ids, attention_mask, pixel_values, has_picture)
        logits = self.head(features.to(self.head.weight.dtype))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


class DomainCollator:
    """Collator of examples to the model's input; questions are cut as ``Blip2QFormer`` cuts them."""

    def __init__(self, processor: Any, classes: Sequence[str], max_tokens: int) -> None:
        self._processor = processor
        self._classes = {name: number for number, name in enumerate(classes)}
        self._max_tokens = max_tokens

    def __call__(self, rows: Sequence[DomainExample]) -> dict[str, torch.Tensor]:
        """Encode one batch; rows without a picture get a black one, which is ignored."""
        images = [row.image or Image.new("RGB", (8, 8)) for row in rows]
        values = self._processor.image_processor(images, return_tensors="pt")["pixel_values"]
        has_picture = torch.tensor([row.image is not None for row in rows])
        words = self._processor.tokenizer(
            [row.question for row in rows],
            padding=True,
            truncation=True,
            max_length=self._max_tokens,
            return_token_type_ids=False,
            return_tensors="pt",
        )
        labels = torch.tensor([self._classes[row.domain] for row in rows])
        return {**words, "pixel_values": values, "has_picture": has_picture, "labels": labels}


class DomainBlip2Options(SplitOptions, DeviceOptions):
    """Options of the training."""

    held_out: float = Field(0.2, gt=0, lt=1, description="share of the sessions held out")
    model: str = Field("Salesforce/blip2-itm-vit-g", description="checkpoint of Blip2ForImageTextRetrieval")
    epochs: float = Field(5.0, description="passes over the data")
    learning_rate: float = Field(
        1e-5, description="learning rate of the Q-Former; the head has a hundred times as much"
    )
    batch: int = Field(16, description="questions in one step")


def fine_tune(examples: Sequence[DomainExample], data: str, tuning: DomainBlip2Options) -> LinearHead:
    """Train, write checkpoint and head, and measure both on the held-out photos.

    Args:
        examples: Labelled questions of all sessions.
        data: Name of the data, for the head's file.
        tuning: Options of the training, with the output folder.

    Returns:
        The head; its ``accuracy`` has ``held_out`` and ``held_out_macro_recall``, 0 to 1.

    Raises:
        TrainingDataError: There are too few sessions or domains, or the memory of the device is full.
        ModelError: The checkpoint cannot be loaded.
    """
    source, out = tuning.model, tuning.out
    train = [row for row in examples if not is_held_out(row.group, tuning.held_out)]
    other = [row for row in examples if is_held_out(row.group, tuning.held_out)]
    classes = tuple(sorted({row.domain for row in train}))
    eval_rows = [row for row in other if row.domain in classes]
    if len(classes) < 2 or not eval_rows:
        raise TrainingDataError(
            f"{len(train)} questions of {len(classes)} domains to train on and {len(eval_rows)} to measure on are too few"
        )
    torch.manual_seed(0)
    extractor = Blip2QFormer(path=source)
    processor, blip = extractor.load("BLIP-2", "AutoProcessor", "Blip2ForImageTextRetrieval")
    processor.tokenizer.padding_side = "right"  # the [CLS] token must come first
    model = DomainModel(blip, len(classes))
    body = [parameter for parameter in blip.parameters() if parameter.requires_grad]
    rate, own = tuning.learning_rate, list(model.head.parameters())  # the head begins at nothing
    optimiser = torch.optim.AdamW([{"params": body, "lr": rate}, {"params": own, "lr": 100 * rate}])
    limit = min(extractor.max_tokens, int(blip.config.qformer_config.max_position_embeddings))
    loop = Trainer(
        model=model,
        args=TrainingArguments(
            **make_quiet_options(out, tuning.device),
            per_device_train_batch_size=tuning.batch,
            per_device_eval_batch_size=tuning.batch,
            num_train_epochs=tuning.epochs,
            lr_scheduler_type="constant",
            eval_strategy="epoch",
            eval_on_start=True,
            save_strategy="epoch",
            save_total_limit=1,
            seed=0,
            bf16=tuning.device != "cpu",
            prediction_loss_only=True,
            label_names=["labels"],
        ),
        train_dataset=train,
        eval_dataset=eval_rows,
        data_collator=DomainCollator(processor, classes, limit),
        optimizers=(optimiser, None),
    )
    made_from = [identify_model(source), tuning.epochs, tuning.learning_rate, tuning.batch, train, eval_rows]
    fingerprint = compute_fingerprint(made_from)
    run_trainer(loop, out, "domains by BLIP-2", fingerprint=fingerprint, resume=tuning.resume)
    folder = out / f"{Path(source).name}-domains"
    blip.eval().cpu().save_pretrained(folder)
    processor.save_pretrained(folder)
    head = LinearHead(
        classes=classes,
        coefficients=convert_rows(model.head.weight.detach().cpu().float().numpy()),
        intercept=convert_rows(cast(Any, model.head.bias).detach().cpu().float().numpy()[None])[0],
    )
    guesses = head.predict(extract_features(Blip2QFormer(path=folder, batch_size=tuning.batch), eval_rows))
    accuracy = compute_rates("held_out", guesses, [row.domain for row in eval_rows])
    head = describe_head(head, folder.name, train, data, accuracy)
    head.save(out / HEAD)
    return head


def run(options: DomainBlip2Options) -> None:
    """Read the data, train and write.

    Raises:
        TrainingDataError, EvaluationError, ModelError: Something is missing; the message says what.
    """
    data = name_training_data(options)
    head = fine_tune(read_domains(options, TYPES, options.split), data, options)
    print_text(f"{head.fitted_on['examples']} questions, {len(head.classes)} domains: {head.accuracy}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, DomainBlip2Options, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
