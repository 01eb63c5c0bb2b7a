"""What the models of a preset take of a GPU together, and which share of it an engine gets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agents.prompts import PromptLibrary
from agents.runtime.architecture import Architecture, architecture_of
from agents.runtime.checkpoints import Checkpoint, checkpoints_of
from agents.runtime.memory import (
    CUDA_CONTEXT,
    CUDA_GRAPHS,
    FRAGMENTATION,
    cache_bytes,
    decoder_activation_bytes,
    encoder_activation_bytes,
    prompt_tokens_of_a_pass,
    vision_activation_bytes,
    weight_bytes,
)
from agents.runtime.roles import images_of
from agents.settings import Profile, Settings

L40S_BYTES = 48_000_000_000
"""One NVIDIA L40S: 48 GB (its datasheet; nvidia-smi shows 46,068 MiB, a little more)."""

UNBOUNDED_PROMPT = 2048
"""Tokens planned for a prompt of a kind that has no limit of its own; small chat models read short prompts."""

PLANNED = "plan"
"""What a profile writes for ``gpu_memory_utilization``, ``max_batch`` and ``images`` where the plan is to choose them."""

MOST_UTILIZATION = 0.95
"""Share that an engine gets at most, whatever is left."""

MOST_AT_ONCE = 16
"""Requests that a chat model is planned for at most: the evaluator's largest batch."""


@dataclass(frozen=True)
class Row:
    """Bytes of one checkpoint on the GPU; ``vision`` is part of ``weights``, ``batch`` requests at once show ``images`` each."""

    checkpoint: Checkpoint
    architecture: Architecture
    dtype: str
    weights: int
    vision: int
    cache: int
    activations: int
    other: int = 0
    batch: int = 0
    images: int = 0

    @property
    def engine(self) -> bool:
        """Whether it is a vLLM engine, which keeps the memory that its activations take."""
        return self.checkpoint.kind == "vllm"

    @property
    def total(self) -> int:
        """What it keeps: weights, cache, CUDA graphs and context; an engine its activations too."""
        return self.weights + self.cache + self.other + (self.activations if self.engine else 0)


@dataclass(frozen=True)
class MemoryPlan:
    """The rows of all checkpoints against the capacity of a GPU.

    Attributes:
        rows: Models on the GPU.
        capacity: Bytes of the GPU.
        context: Bytes of the CUDA context of this process, and what fragmentation may waste.
    """

    rows: tuple[Row, ...]
    capacity: int
    context: int

    @property
    def shared(self) -> int:
        """Activations of the models that run one after another in this process: torch's allocator gives each the same blocks."""
        return max((row.activations for row in self.rows if not row.engine), default=0)

    @property
    def needed(self) -> int:
        """Bytes of everything."""
        return sum(row.total for row in self.rows) + self.shared + self.context

    @property
    def fits(self) -> bool:
        """Whether everything has room at once."""
        return self.needed <= self.capacity

    def utilization(self, path: str) -> float:
        """``gpu_memory_utilization`` of a vLLM engine: what others leave, in whole percent.

        CUDA graphs and contexts lie outside what vLLM counts. With several engines each but the largest gets what it needs.
        """
        engines = [row for row in self.rows if row.engine]
        largest = max(engines, key=lambda row: row.total)
        own = next(row for row in engines if row.checkpoint.path == path)
        if own is not largest:
            return math.ceil(100 * (own.total - own.other) / self.capacity) / 100
        others = self.needed - own.total
        left = (self.capacity - others - own.other) / self.capacity
        return min(MOST_UTILIZATION, math.floor(100 * left) / 100)


def plan_memory(settings: Settings, profile: Profile, prompts: PromptLibrary, capacity: int = L40S_BYTES) -> MemoryPlan:
    """The plan of a preset under a profile.

    Raises:
        SettingsError: The profile names no model for a role of the preset.
        ArchitectureError: The configuration of a model is not to be had.
    """
    made = _plan(settings, profile, prompts, capacity, MOST_AT_ONCE)
    for batch in range(MOST_AT_ONCE - 1, 0, -1):
        if made.fits or not any(entry.checkpoint.options.get("max_batch") == PLANNED for entry in made.rows):
            break
        made = _plan(settings, profile, prompts, capacity, batch)
    return made


def _plan(settings: Settings, profile: Profile, prompts: PromptLibrary, capacity: int, batch: int) -> MemoryPlan:
    images = images_of(settings)
    rows = tuple(row(entry, batch, images) for entry in checkpoints_of(settings, profile, prompts) if entry.on_gpu)
    return MemoryPlan(rows, capacity, CUDA_CONTEXT + FRAGMENTATION if rows else 0)


def row(checkpoint: Checkpoint, planned_batch: int = 1, planned_images: int = 1) -> Row:
    """What a checkpoint takes; the planned values stand for a ``max_batch`` and ``images`` that the plan is to choose.

    Raises:
        ArchitectureError: Its configuration is not to be had.
    """
    model, options = architecture_of(checkpoint.path), checkpoint.options
    dtype = str(options.get("dtype", "auto"))
    dtype = model.dtype if dtype == "auto" else dtype
    cache = activations = other = batch = images = 0
    if model.decoder is not None:
        size = options.get("max_batch", options.get("batch_size", 1))
        batch = planned_batch if size == PLANNED else int(size)
        shown = options.get("images", 1)
        images = planned_images if shown == PLANNED else int(shown)
        engine = checkpoint.kind == "vllm"
        longest = model.decoder.context if engine else min(model.decoder.context, UNBOUNDED_PROMPT)
        context = int(options.get("context") or options.get("max_tokens") or longest)
        sees = model.vision is not None
        if engine or "max_batch" in options:  # a reranker reads its scores off the prompt: it keeps no cache
            cache = cache_bytes(model.decoder, model.vision, dtype, batch=batch, context=context, images=images)
        tokens = prompt_tokens_of_a_pass(context, sees) if engine else batch * context
        activations = decoder_activation_bytes(model.decoder, dtype, tokens=tokens, batch=batch)
        if model.vision is not None:
            # vLLM profiles, and Llama-3.2-Vision runs, all pictures of a batch at once; its newer engine one by one.
            pictures = batch * images if model.vision.masked else images
            activations += vision_activation_bytes(model.vision, dtype, pictures=pictures)
        if engine:
            graphs = 0 if options.get("enforce_eager") else CUDA_GRAPHS
            other = (
                graphs if model.vision is not None and model.vision.masked else graphs + CUDA_CONTEXT
            )  # a process of its own
    else:
        most_tokens = int(options["max_tokens"]) if options.get("max_tokens") else None
        activations = encoder_activation_bytes(
            model, dtype, batch=int(options.get("batch_size", 1)), most_tokens=most_tokens
        )
    return Row(
        checkpoint=checkpoint,
        architecture=model,
        dtype=dtype,
        weights=weight_bytes(model.parameters, dtype),
        vision=weight_bytes(model.vision_parameters, dtype),
        cache=cache,
        activations=activations,
        other=other,
        batch=batch,
        images=images,
    )
