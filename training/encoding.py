"""Encoding of samples for training.

Prompts are rendered as the agent serves them, replies are appended, and the loss is on replies alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.nn.utils.rnn import pad_sequence

from agents.models.base import ChatMessage
from agents.models.chat.prompt_fitting import MAX_IMAGE_SIDE
from agents.models.chat.transformers_checkpoint import Checkpoint
from agents.models.pixels import rgb_within
from training.chat_examples import Example

IGNORED = -100
"""Label of a token without loss (torch's ``cross_entropy``)."""

MODALITIES = "mm_token_type_ids"
"""Input of Qwen-VL under transformers 5: 0 for a token of text, which replies are made of, 1 for one of an image."""


@dataclass(frozen=True)
class Sample:
    """A request and the reply to be learned; ``kind`` says what it teaches."""

    example: Example
    reply: str
    kind: str = "answer"


@dataclass(frozen=True)
class SampleGroup:
    """Samples that go through the model together, all with images or none.

    They are padded side by side, or packed into one row.
    """

    samples: tuple[Sample, ...]
    packed: bool = False


class SampleEncoder:
    """Encoder of samples for one checkpoint: its model, with tokenizer and processor.

    Images are scaled down as when serving.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    @property
    def can_pack(self) -> bool:
        """Whether rows can be packed.

        Mllama makes its attention mask by itself and would let packed samples see each other.
        """
        return not uses_cross_attention(self._checkpoint)

    def length(self, sample: Sample) -> int:
        """Count the tokens of prompt and reply together, image tokens included."""
        return int(self.pad([sample])["input_ids"].shape[1])

    def reply_ids(self, reply: str) -> list[int]:
        """Return the tokens to be learned: the reply and the token that ends it."""
        return [*self._checkpoint.encode(reply), self._checkpoint.tokenizer.eos_token_id]

    def encode(self, group: SampleGroup) -> dict[str, torch.Tensor]:
        """Build the model's input for a group, with ``labels``."""
        return self.pack(group.samples) if group.packed else self.pad(group.samples)

    def pad(self, samples: Sequence[Sample]) -> dict[str, torch.Tensor]:
        """Encode one row a sample: padding, prompt, reply, padding. All samples have images, or none has."""
        inputs = self.prompts([sample.example for sample in samples])
        replies = [self.reply_ids(sample.reply) for sample in samples]
        return append_replies(inputs, replies, self._checkpoint.tokenizer.pad_token_id)

    def prompts(self, examples: Sequence[Example]) -> dict[str, torch.Tensor]:
        """Encode requests alone, one row each, padded on the left. All have images, or none has."""
        messages = [self.messages(example) for example in examples]
        texts = [self._checkpoint.render(row) for row in messages]
        images = [[image for message in row for image in message.images] for row in messages]
        return dict(self._checkpoint.inputs(texts, images))

    def pack(self, samples: Sequence[Sample]) -> dict[str, torch.Tensor]:
        """Encode all samples in one row, each seeing itself alone.

        Positions begin at 0 for each sample; by them transformers' mask keeps samples apart.
        """
        ids: list[int] = []
        labels: list[int] = []
        positions: list[int] = []
        for sample in samples:
            prompt = self._checkpoint.encode(self._checkpoint.render(self.messages(sample.example)))
            reply = self.reply_ids(sample.reply)
            ids += prompt + reply
            labels += [IGNORED] * len(prompt) + reply
            positions += range(len(prompt) + len(reply))
        device = self._checkpoint.model.device
        row = {"input_ids": ids, "labels": labels, "position_ids": positions}
        result = {name: torch.tensor([values], device=device) for name, values in row.items()}
        if "mrope_section" in (getattr(self._checkpoint.model.config.get_text_config(), "rope_scaling", None) or {}):
            # Qwen-VL: positions for the mask, then three for its rotary embedding
            result["position_ids"] = result["position_ids"].expand(4, 1, -1)
        return result

    def messages(self, example: Example) -> tuple[ChatMessage, ...]:
        """Return the messages of a request with images scaled down, or without if the model sees none."""
        sees = self._checkpoint.sees
        return tuple(
            replace(message, images=tuple(rgb_within(image, MAX_IMAGE_SIDE) for image in message.images if sees))
            for message in example.load_messages()
        )


def uses_cross_attention(checkpoint: Checkpoint) -> bool:
    """Return whether a model attends to its pictures apart from its tokens, as Mllama does."""
    return bool(checkpoint.model.config.model_type == "mllama")


def append_replies(
    inputs: dict[str, torch.Tensor], replies: Sequence[Sequence[int]], pad: int
) -> dict[str, torch.Tensor]:
    """Append replies to encoded prompts, padded on the right, and add ``labels``.

    Args:
        inputs: The processor's encoding of the prompts; ``input_ids`` has shape (rows, prompt).
        replies: Token ids of each row's reply.
        pad: A token id for padding.

    Returns:
        The inputs with ``input_ids``, ``attention_mask`` and ``labels`` of shape (rows, prompt + longest reply). The labels are ``IGNORED``
        outside of the replies.
    """
    prompt, mask = inputs["input_ids"], inputs["attention_mask"]
    rows = [torch.tensor(list(reply), dtype=prompt.dtype, device=prompt.device) for reply in replies]
    added = pad_sequence(rows, batch_first=True, padding_value=pad)
    reply_mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    result = {
        **inputs,
        "input_ids": torch.cat([prompt, added], dim=1),
        "attention_mask": torch.cat([mask, reply_mask.to(mask.dtype)], dim=1),
        "labels": torch.cat([torch.full_like(prompt, IGNORED), added.masked_fill(reply_mask == 0, IGNORED)], dim=1),
    }
    if "cross_attention_mask" in inputs:
        result["cross_attention_mask"] = extend_cross_mask(inputs["cross_attention_mask"], added.shape[1])
    if MODALITIES in inputs:
        result[MODALITIES] = torch.cat(
            [inputs[MODALITIES], torch.zeros_like(added, dtype=inputs[MODALITIES].dtype)], dim=1
        )
    return result


def extend_cross_mask(across: torch.Tensor, tokens: int) -> torch.Tensor:
    """Extend Mllama's cross-attention mask to replies, which see what the end of the prompt sees.

    Args:
        across: Mask of the prompts, shape (rows, prompt, images, tiles).
        tokens: Number of tokens of the replies.
    """
    return torch.cat([across, across[:, -1:].expand(-1, tokens, -1, -1)], dim=1)


def group_samples(
    samples: Sequence[Sample], lengths: Sequence[int], *, batch: int, max_tokens: int, packing: bool
) -> list[SampleGroup]:
    """Group samples for training.

    Packing is first-fit, longest sample first, into rows of ``max_tokens``.

    Args:
        samples: The samples.
        lengths: Tokens of each sample, at most ``max_tokens``.
        batch: Number of samples in a padded group.
        max_tokens: Maximum number of tokens of a packed row.
        packing: Whether to pack samples without images; else they are padded side by side, as those with images are.
    """
    order = sorted(range(len(samples)), key=lambda place: (-lengths[place], place))
    seeing = [place for place in order if samples[place].example.images]
    reading = [place for place in order if not samples[place].example.images]
    padded = [seeing] if packing else [seeing, reading]
    groups = [side[start : start + batch] for side in padded for start in range(0, len(side), batch)]
    packs: list[list[int]] = []
    room: list[int] = []
    for place in reading if packing else []:
        fit = next((pack for pack, remaining in enumerate(room) if lengths[place] <= remaining), len(packs))
        if fit == len(packs):
            packs.append([])
            room.append(max_tokens)
        packs[fit].append(place)
        room[fit] -= lengths[place]
    return [
        SampleGroup(tuple(samples[place] for place in group), packed=number >= len(groups))
        for number, group in enumerate(groups + packs)
    ]
