"""Memory and time that a recipe takes on one GPU, computed from the model's configuration alone.

    python -m training.plan --model meta-llama/Llama-3.2-11B-Vision-Instruct
    python -m training.plan --model PATH --recipe blackpearl --samples 5000 --tokens 1500

Memory is a sum of what is held at once; time is arithmetic over the card's peak and a share of it that is assumed. Neither has
been checked on a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agents.models.architecture import Architecture, ArchitectureError, Decoder, architecture_of
from training.chat_examples import TrainingDataError
from training.recipes import Recipe, load_recipe, recipe_names

GIB = 2**30

ADAM_BYTES = 16
"""Bytes of a trained number: its float32 value, its gradient, and the two moments of AdamW."""

CONTEXT_BYTES = 1 * GIB
"""What CUDA and the libraries take before anything is loaded (about; it is not the model's)."""

FRAGMENTED = 1.1
"""What torch's allocator holds for each byte of activations that is in use: an assumption."""

UTILISATION = 0.35
"""Share of the card's peak that training reaches: an assumption; published figures for LoRA are between 0.3 and 0.5."""

MEMORY_UTILISATION = 0.6
"""Share of the card's memory bandwidth that decoding reaches: an assumption."""

Method = Literal["sft", "dpo", "grpo"]


@dataclass(frozen=True)
class Card:
    """A GPU by its data sheet.

    Attributes:
        memory: GiB.
        flops: Dense bfloat16 operations a second.
        bandwidth: Bytes of its memory read a second.
    """

    name: str
    memory: float
    flops: float
    bandwidth: float


CARDS = (Card("L40S, 48 GB", 44.5, 362e12, 864e9), Card("A100, 80 GB", 79.2, 312e12, 2039e9))
"""NVIDIA's data sheets; the memory is what is left to programs (an L40S has error correction on)."""


@dataclass(frozen=True)
class Load:
    """What is trained on.

    Attributes:
        samples: Rows an epoch (questions, for GRPO).
        tokens: Prompt tokens of a row.
        reply: Tokens of a reply.
        images: Pictures in a row.
    """

    samples: int = 26_500
    tokens: int = 1_500
    reply: int = 75
    images: int = 1


@dataclass(frozen=True)
class Need:
    """Bytes by what they are for, and the operations of one epoch."""

    weights: float
    adapters: float
    activations: float
    logits: float
    cache: float
    training_flops: float
    decoded_bytes: float

    @property
    def memory(self) -> float:
        """Bytes on the card, at the worst moment: sampling and training do not happen at once."""
        working = max(self.activations + self.logits, self.cache)
        return self.weights + self.adapters + FRAGMENTED * working + CONTEXT_BYTES

    def hours(self, card: Card, epochs: float) -> float:
        """Hours of training, with the shares of the card's peak that are assumed above."""
        seconds = self.training_flops / (UTILISATION * card.flops) + self.decoded_bytes / (
            MEMORY_UTILISATION * card.bandwidth
        )
        return epochs * seconds / 3600


def lora_parameters(decoder: Decoder, r: int) -> int:
    """Numbers in the adapters of every linear layer of a Llama-like language model: r times (inputs + outputs) of each.

    The query and output projections are taken to be square, as in Llama, Mllama and Qwen2.
    """
    hidden, kv, inner = decoder.hidden, decoder.kv_heads * decoder.head_dim, decoder.intermediate
    attention = 2 * (hidden + hidden) + 2 * (hidden + kv)
    return decoder.layers * r * (attention + 3 * (hidden + inner))


def layer_activation_bytes(decoder: Decoder, itemsize: int = 2) -> int:
    """Bytes that one layer keeps of one token for its backward pass, attention without a stored matrix.

    Two normalised inputs, queries, keys, values and the attention's output, and in the gated MLP: gate, its activation, up, product.
    """
    return itemsize * (5 * decoder.hidden + 2 * decoder.kv_heads * decoder.head_dim + 4 * decoder.intermediate)


def need(architecture: Architecture, recipe: Recipe, load: Load, method: Method = "sft") -> Need:
    """What one pass and one epoch take.

    Raises:
        TrainingDataError: The model does not generate.
    """
    decoder = architecture.decoder
    if decoder is None:
        raise TrainingDataError(f"{architecture.model} writes no text and is no model for these recipes")
    table = recipe.training
    itemsize = 2 if table.dtype == "bfloat16" else 4
    # DPO sees each pair as two rows; GRPO trains on ``batch`` replies at a time; packing fills a row up to max_tokens.
    rows = {"sft": table.batch, "dpo": 2, "grpo": table.batch}[method]
    longest = table.max_tokens if method == "sft" else min(table.max_tokens, load.tokens + load.reply)
    tokens = rows * longest
    layer = layer_activation_bytes(decoder, itemsize)
    kept = decoder.layers * itemsize * decoder.hidden if table.checkpointing else decoder.layers * layer
    # The layer that is worked on: its values and their gradients.
    activations = tokens * (kept + 2 * layer)
    vision = architecture.vision
    positions = vision.positions * load.images if vision is not None else 0
    if (
        vision is not None
    ):  # frozen and first in line: nothing is kept for a backward pass but what the language model reads
        width = 8 * vision.hidden + 2 * vision.intermediate + vision.kept
        activations += rows * positions * width * itemsize
    # Logits in the model's type, in float32 for the loss, and their gradient; trl computes them in tiles for DPO and GRPO.
    logits = tokens * decoder.vocabulary * (itemsize + 4 + 4) if method == "sft" else 0
    cache = rows * (load.tokens + load.reply) * decoder.kv_bytes("bfloat16" if itemsize == 2 else "float32")

    language = architecture.parameters - architecture.vision_parameters - architecture.lookup_parameters
    row_tokens = load.tokens + load.reply
    # Forward 2 N, backward to the activations 2 N (frozen weights get no gradient), forward once more with checkpointing.
    passes = 2 + 2 + (2 if table.checkpointing else 0)
    replies = {"sft": 1, "dpo": 2, "grpo": recipe.grpo.generations}[method]
    each = passes + (0 if method == "sft" else 2)  # the reference model's forward pass
    flops = load.samples * replies * row_tokens * each * language
    flops += load.samples * replies * positions * 2 * architecture.vision_parameters
    sampled = {"sft": 0, "dpo": recipe.dpo.samples, "grpo": recipe.grpo.generations}[method]
    decoded = load.samples * sampled * load.reply * architecture.parameters * itemsize / max(rows, sampled, 1)
    return Need(
        weights=architecture.parameters * itemsize,
        adapters=lora_parameters(decoder, recipe.lora.r) * ADAM_BYTES,
        activations=activations,
        logits=logits,
        cache=cache if method == "grpo" else 0,
        training_flops=flops,
        decoded_bytes=decoded,
    )


def method_of(recipe: Recipe) -> Method:
    """What a recipe of this repository is for."""
    methods: dict[str, Method] = {"preferences": "dpo", "curriculum": "grpo"}
    return methods.get(recipe.name, "sft")


def table(model: str, recipes: Sequence[Recipe], load: Load) -> str:
    """A Markdown table: a row a recipe, with memory and hours for each card.

    Raises:
        ArchitectureError: The model has no config.json here.
        TrainingDataError: It does not generate.
    """
    architecture = architecture_of(model)
    heads = [f"fits {card.name}; hours" for card in CARDS]
    lines = [
        f"| recipe | method | LoRA | weights, GiB | adapters, GiB | activations and logits, GiB | together, GiB | {' | '.join(heads)} |",
        "|---|---|---|---|---|---|---|" + "---|" * len(heads),
    ]
    for recipe in recipes:
        method = method_of(recipe)
        found = need(architecture, recipe, load, method)
        working = max(found.activations + found.logits, found.cache)
        cells = [
            recipe.name,
            method,
            f"r {recipe.lora.r}",
            *(f"{part / GIB:.1f}" for part in (found.weights, found.adapters, working, found.memory)),
        ]
        for card in CARDS:
            fits = found.memory <= card.memory * GIB
            cells.append(f"yes; {found.hours(card, recipe.training.epochs):.1f}" if fits else "no")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.plan", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model",
        required=True,
        help="folder of a checkpoint (its config.json is enough), or a model of the local Hugging Face cache",
    )
    parser.add_argument(
        "--recipe", action="append", help=f"of {', '.join(recipe_names())}; may be repeated (default: all)"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="value replaced in every recipe"
    )
    default = Load()
    parser.add_argument(
        "--samples", type=int, default=default.samples, help=f"rows an epoch (default: {default.samples})"
    )
    parser.add_argument(
        "--tokens", type=int, default=default.tokens, help=f"prompt tokens a row (default: {default.tokens})"
    )
    parser.add_argument(
        "--reply", type=int, default=default.reply, help=f"tokens of a reply (default: {default.reply})"
    )
    parser.add_argument(
        "--images", type=int, default=default.images, help=f"pictures a row (default: {default.images})"
    )
    given = parser.parse_args(arguments)
    load = replace(default, samples=given.samples, tokens=given.tokens, reply=given.reply, images=given.images)
    try:
        recipes = [load_recipe(name, given.set) for name in given.recipe or recipe_names()]
        print(table(given.model, recipes, load))
    except (ArchitectureError, TrainingDataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
