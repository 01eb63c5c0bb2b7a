"""Estimate memory and time of a recipe on one GPU or two CPU cores.

    python -m training.plan --model meta-llama/Llama-3.2-11B-Vision-Instruct
    python -m training.plan --model PATH --recipe blackpearl --samples 5000 --tokens 1500

It needs the model's configuration alone. Memory is a sum of what is held at once. Time is arithmetic over the card's peak and an assumed
share of it. Neither has been checked on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from agents.base.command_options import Flag
from agents.base.printing import print_text
from agents.models.architecture import BYTES, Architecture, Decoder, read_architecture
from training.chat_examples import TrainingDataError
from training.command_line import RecipeOptions, run_command
from training.recipes import Recipe, list_recipes, load_recipe

GIB = 2**30

ADAM_BYTES = 16
"""Bytes of a trained number: its float32 value, its gradient, and the two moments of AdamW."""

CONTEXT_BYTES = 1 * GIB
"""Approximate bytes that CUDA and the libraries take before a model is loaded."""

FRAGMENTED = 1.1
"""Bytes that torch's allocator holds for each byte of activations in use: an assumption."""

UTILISATION = 0.35
"""Share of the card's peak that training reaches: an assumption; published figures for LoRA are between 0.3 and 0.5."""

MEMORY_UTILISATION = 0.6
"""Share of the card's memory bandwidth that decoding reaches: an assumption."""

Method = Literal["sft", "dpo", "grpo"]
METHODS: dict[str, Method] = {"preferences": "dpo", "curriculum": "grpo"}
"""Methods of this repository's recipes; all others are for ``sft``."""


@dataclass(frozen=True)
class Card:
    """A device that trains.

    Attributes:
        name: Name in the table.
        memory: Memory in GiB.
        flops: Dense operations a second in ``dtype``.
        bandwidth: Bytes of its memory read a second.
        dtype: Data type that it computes in.
        utilisation: Share of the operations that training reaches.
    """

    name: str
    memory: float
    flops: float
    bandwidth: float
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    utilisation: float = UTILISATION


CARDS = (
    Card("L40S, 48 GB", 44.5, 362e12, 864e9),
    Card("A100, 80 GB", 79.2, 312e12, 2039e9),
    Card("two CPU cores, 24 GB", 23.0, 275e9, 20e9, "float32", 0.7),
)
"""GPUs by NVIDIA's data sheets; the memory is what is left to programs (an L40S has error correction on). The cores are those of the
machine that this repository is measured on: 275e9 operations a second in a product of 512 x 1536 x 8960, measured with torch; its
share in training and its bandwidth are assumptions."""


@dataclass(frozen=True)
class Load:
    """Amount of training data.

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
class Estimate:
    """Bytes by purpose, and the operations of one epoch."""

    weights: float
    adapters: float
    activations: float
    logits: float
    cache: float
    training_flops: float
    decoded_bytes: float

    @property
    def working(self) -> float:
        """Bytes beside the weights at the worst moment; sampling and training do not happen at once."""
        return max(self.activations + self.logits, self.cache)

    @property
    def memory(self) -> float:
        """Bytes on the card at the worst moment."""
        return self.weights + self.adapters + FRAGMENTED * self.working + CONTEXT_BYTES

    def hours(self, card: Card, epochs: float) -> float:
        """Compute the hours of training, with the shares of the card's peak that are assumed above."""
        training = self.training_flops / (card.utilisation * card.flops)
        return epochs * (training + self.decoded_bytes / (MEMORY_UTILISATION * card.bandwidth)) / 3600


def count_lora_parameters(decoder: Decoder, r: int) -> int:
    """Count the numbers in the adapters of every linear layer of a Llama-like model.

    There are r times (inputs + outputs) for each. Query and output projections are taken to be square, as in Llama, Mllama and Qwen2.
    """
    hidden, kv, inner = decoder.hidden, decoder.kv_heads * decoder.head_dim, decoder.intermediate
    attention = 2 * (hidden + hidden) + 2 * (hidden + kv)
    return decoder.layers * r * (attention + 3 * (hidden + inner))


def count_activation_bytes(decoder: Decoder, itemsize: int = 2) -> int:
    """Count the bytes that one layer keeps of one token for its backward pass.

    Two normalised inputs, queries, keys, values and the attention's output, and in the gated MLP: gate, its activation, up, product.
    No attention matrix is stored.
    """
    return itemsize * (5 * decoder.hidden + 2 * decoder.kv_heads * decoder.head_dim + 4 * decoder.intermediate)


def estimate(architecture: Architecture, recipe: Recipe, load: Load, method: Method = "sft") -> Estimate:
    """Estimate what one pass and one epoch take.

    Raises:
        TrainingDataError: The model does not generate.
    """
    decoder = architecture.decoder
    if decoder is None:
        raise TrainingDataError(f"{architecture.model} writes no text; these recipes need a language model")
    table = recipe.training
    itemsize = BYTES[table.dtype]
    # Rows at a time, and replies that are trained on and sampled for each question: DPO sees each pair as two rows.
    rows, replies, sampled = {
        "sft": (table.batch, 1, 0),
        "dpo": (2, 2, recipe.dpo.samples),
        "grpo": (table.batch, recipe.grpo.generations, recipe.grpo.generations),
    }[method]
    row_tokens = load.tokens + load.reply
    tokens = rows * (table.max_tokens if method == "sft" else min(table.max_tokens, row_tokens))  # packing fills a row
    layer = count_activation_bytes(decoder, itemsize)
    saved_bytes = decoder.layers * (itemsize * decoder.hidden if table.checkpointing else layer)
    # The layer that is worked on: its values and their gradients.
    activations = tokens * (saved_bytes + 2 * layer)
    vision = architecture.vision
    positions = vision.positions * load.images if vision is not None else 0
    if vision is not None:  # frozen and first in line: only what the language model reads is kept for a backward pass
        width = 8 * vision.hidden + 2 * vision.intermediate + vision.kept
        activations += rows * positions * width * itemsize
    # Logits in the model's type, in float32 for the loss, and their gradient; trl computes them in tiles for DPO and GRPO.
    logits = tokens * decoder.vocabulary * (itemsize + 4 + 4) if method == "sft" else 0
    cache = rows * row_tokens * decoder.kv_bytes(table.dtype) if method == "grpo" else 0

    language = architecture.parameters - architecture.vision_parameters - architecture.lookup_parameters
    # Forward 2 N, backward to the activations 2 N (frozen weights get no gradient), forward once more with checkpointing.
    passes = 2 + 2 + (2 if table.checkpointing else 0)
    passes += 0 if method == "sft" else 2  # the reference model's forward pass
    flops = load.samples * replies * row_tokens * passes * language
    flops += load.samples * replies * positions * 2 * architecture.vision_parameters
    decoded = load.samples * sampled * load.reply * architecture.parameters * itemsize / max(rows, sampled, 1)
    return Estimate(
        weights=architecture.parameters * itemsize,
        adapters=count_lora_parameters(decoder, recipe.lora.r) * ADAM_BYTES,
        activations=activations,
        logits=logits,
        cache=cache,
        training_flops=flops,
        decoded_bytes=decoded,
    )


class PlanOptions(RecipeOptions):
    """Options of the trainings and the model to plan for."""

    model: str = Field(
        description="folder of a checkpoint (config.json is enough), or a model of the local Hugging Face cache"
    )
    recipe: Annotated[tuple[str, ...], Flag(repeated=True)] = Field(
        tuple(list_recipes()), description="recipe; may be repeated"
    )
    samples: int = Field(Load.samples, description="rows an epoch")
    tokens: int = Field(Load.tokens, description="prompt tokens a row")
    reply: int = Field(Load.reply, description="tokens of a reply")
    images: int = Field(Load.images, description="pictures a row")


def run(options: PlanOptions) -> None:
    """Print a Markdown table with memory, hours and tokens a second, one row a recipe.

    Hours and tokens a second are given for each card that computes in the recipe's type.

    Raises:
        ArchitectureError, TrainingDataError: The model has no config.json here, or it or a recipe cannot be used.
    """
    load = Load(options.samples, options.tokens, options.reply, options.images)
    recipes = [load_recipe(name, options.set) for name in options.recipe]
    architecture = read_architecture(options.model)
    parts = ("weights", "adapters", "activations and logits", "together")
    headings = ("recipe", "method", "LoRA", *(f"{part}, GiB" for part in parts))
    lines = [
        (*headings, *(f"fits {card.name}; hours; tokens/s" for card in CARDS)),
        ("---",) * (len(headings) + len(CARDS)),
    ]
    for recipe in recipes:
        method = METHODS.get(recipe.name, "sft")
        costs = estimate(architecture, recipe, load, method)
        sizes = (costs.weights, costs.adapters, costs.working, costs.memory)
        hours = [_format_fit(card, costs, recipe, load) for card in CARDS]
        lines.append((recipe.name, method, f"r {recipe.lora.r}", *(f"{size / GIB:.1f}" for size in sizes), *hours))
    print_text("\n".join(f"| {' | '.join(cells)} |" for cells in lines))


def _format_fit(card: Card, costs: Estimate, recipe: Recipe, load: Load) -> str:
    if card.dtype == "float32" != recipe.training.dtype:
        return "not in bfloat16"
    if costs.memory > card.memory * GIB:
        return "no"
    hours, epochs = costs.hours(card, recipe.training.epochs), recipe.training.epochs
    rate = epochs * load.samples * (load.tokens + load.reply) / (3600 * hours)
    return f"yes; {hours:.1f}; {rate:,.0f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_command(run, PlanOptions, arguments, __doc__)


if __name__ == "__main__":
    raise SystemExit(main())
