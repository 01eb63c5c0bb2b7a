"""Cache on disk of the outputs of the layers below the adapters.

These layers are frozen, so that every epoch and training gets the same outputs. Without the cache a row goes forward through all layers
and back through the upper ones. With it, the row goes through the upper ones alone.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from training.chat_examples import TrainingDataError

FROZEN = "frozen_layers"
"""Folder below the cache folder; in it one for each lower part of a model, by the hash of its weights."""

Item = TypeVar("Item")
Inputs = Mapping[str, torch.Tensor]


class _Placeholder(nn.Module):
    """Identity placeholder that keeps the indices of the remaining layers, and so those of their adapters."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.attention_type = getattr(layer, "attention_type", None)

    def forward(self, hidden_states: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return hidden_states


@contextlib.contextmanager
def cache_frozen_layers(
    model: Any, first: int, folder: Path, encode: Callable[[Item], Inputs]
) -> Iterator[Callable[[Item], dict[str, torch.Tensor]]]:
    """Remove the model's layers below ``first`` while the context is open.

    It yields a function that encodes an item as input of the upper layers: ``inputs_embeds`` of shape (rows, tokens, hidden) in place of
    ``input_ids``.

    Args:
        model: The model with adapters from layer ``first`` on, as PEFT wraps it.
        first: The first layer that stays.
        folder: Folder for the outputs of the lower layers, by the hash of the row: 4 bytes a number in float32.
        encode: Builds the input of the whole model from an item.

    Raises:
        TrainingDataError: There is nothing below the adapters, the model is of no known build, or a row holds a picture.
    """
    decoder: Any = getattr(model.get_base_model(), "model", None)
    layers = getattr(decoder, "layers", None)
    if layers is None or not hasattr(decoder, "norm") or decoder.config.model_type not in ("llama", "qwen2", "qwen3"):
        raise TrainingDataError("training.frozen_cache is for text models built like Llama or Qwen2; turn it off")
    if not 0 < first < len(layers) or any(
        weight.requires_grad for layer in layers[:first] for weight in layer.parameters()
    ):
        raise TrainingDataError(f"training.frozen_cache needs layers below the adapters: lora.first_layer is {first}")
    own, norm = list(layers), decoder.norm
    place = folder / _hash_weights([decoder.embed_tokens, *own[:first]])
    place.mkdir(parents=True, exist_ok=True)

    def put(kept: range, last: nn.Module) -> None:
        for number, layer in enumerate(own):
            layers[number] = layer if number in kept else _Placeholder(layer)
        decoder.norm = last

    lower, upper = range(first), range(first, len(own))

    def encode_upper(item: Item) -> dict[str, torch.Tensor]:
        inputs = dict(encode(item))
        labels = inputs.pop("labels")
        if strange := sorted(set(inputs) - {"input_ids", "attention_mask", "position_ids"}):
            raise TrainingDataError(f"training.frozen_cache is for rows of text alone, not for {', '.join(strange)}")
        file = place / f"{_hash_row(inputs)}.safetensors"
        if file.is_file():
            made = load_file(file)["made"].to(labels.device)
        else:
            training = decoder.training
            decoder.eval()
            put(lower, nn.Identity())
            with torch.no_grad():
                made = decoder(**inputs).last_hidden_state
            put(upper, norm)
            decoder.train(training)
            part = file.with_suffix(".part")
            save_file({"made": made.contiguous()}, part)
            part.replace(file)
        inputs.pop("input_ids")
        return {**inputs, "inputs_embeds": made, "labels": labels}

    put(upper, norm)
    try:
        yield encode_upper
    finally:
        put(range(len(own)), norm)


def _hash_weights(parts: list[nn.Module]) -> str:
    digest = hashlib.sha256(str(len(parts)).encode())
    for weight in (weight for part in parts for weight in part.state_dict().values()):
        digest.update(f"{weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:32]


def _hash_row(inputs: Inputs) -> str:
    digest = hashlib.sha256()
    for name, values in sorted(inputs.items()):
        digest.update(f"{name} {tuple(values.shape)}".encode() + values.cpu().numpy().tobytes())
    return digest.hexdigest()[:32]
