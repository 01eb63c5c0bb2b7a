"""GPU memory that the models of a preset need, computed from their config.json before loading.

Weights and key-value cache are exact. Activations are an allowance: the live tensors in the widest place of a
forward pass, counted from the shapes in transformers' and vLLM's model code.
"""

import math
from dataclasses import dataclass

from agents.settings.run_config import RunConfig
from agents.settings.stage_needs import count_images
from apps.preflight.architecture import BYTES, Architecture, Decoder, Vision, read_architecture
from apps.preflight.checkpoints import Checkpoint, list_checkpoints

L40S_BYTES = 47_700_000_000
"""Memory of one NVIDIA L40S: of its 48 GB torch reports about 44.4 GiB with error correction on (quoted, not measured here)."""

MARGIN = 1_000_000_000
"""Bytes of the card that a plan leaves free, since its activations are estimates."""

SHARE_STEP = 0.01  # step of gpu_memory_utilization; vLLM counts what the driver takes beside torch towards it too

ALIVE = 6
"""Tensors of a layer's width that are alive at once: residual, normed input, queries, keys, values, attention output."""

ALIVE_MLP = 3  # tensors of an MLP's inner width that are alive at once: gate, up, and their product

MASK_COPIES = 3
"""Tensors of a full attention mask that are alive while it is made (vllm 0.10.2, mllama.py, _prepare_aspect_ratio_attention_mask)."""

LOGIT_BYTES = 24
"""Bytes for each logit that the sampler looks at: float32 logits and probabilities, sorted values (4 each), sorted indices (8), a mask."""

VLLM_TEXT_TOKENS, VLLM_PICTURE_TOKENS = 2048, 5120
"""Least tokens of a pass over the prompt (vllm 0.10.2, config/scheduler.py: defaults, and for models that see)."""

CUDA_CONTEXT = 600_000_000
"""Bytes of a process' CUDA context with the kernels of torch, cuBLAS and cuDNN: an allowance, of the size nvidia-smi shows."""

FRAGMENTATION = 500_000_000  # bytes kept free for what torch's allocator cannot hand out again: an allowance

CUDA_GRAPHS = 1 << 30
"""Bytes of vLLM's CUDA graphs: the low end of the "1~3 GiB" that vllm 0.10.2 says they take for up to 256 sequences (model_runner.py)."""

UNBOUNDED_PROMPT = 2048
"""Tokens taken for a prompt of a kind that has no limit of its own; small chat models read short prompts."""


@dataclass(frozen=True)
class Row:
    """GPU memory of one checkpoint in bytes.

    A chat model answers ``at_once`` requests that show ``images`` pictures each.
    """

    checkpoint: Checkpoint
    architecture: Architecture
    dtype: str
    weights: int
    cache: int
    activations: int
    graphs: int = 0
    at_once: int = 0
    images: int = 0

    @property
    def engine(self) -> bool:
        """Whether it is a vLLM engine, which keeps the memory that its activations take."""
        return self.checkpoint.kind == "vllm"

    @property
    def within_share(self) -> int:
        """Bytes of an engine that ``gpu_memory_utilization`` has to hold: all but CUDA graphs and context."""
        return self.weights + self.cache + self.activations

    @property
    def total(self) -> int:
        """Bytes that the checkpoint keeps."""
        return self.weights + self.cache + self.graphs + (self.activations if self.engine else 0)


@dataclass(frozen=True)
class Memory:
    """Models of a preset on a GPU of ``card`` bytes; a prompt shows at most ``pictures`` pictures."""

    rows: tuple[Row, ...]
    card: int
    pictures: int

    @property
    def capacity(self) -> int:
        """Bytes that a plan may use: those of the card less ``MARGIN``."""
        return self.card - MARGIN

    @property
    def context(self) -> int:
        """Bytes of this process' CUDA context, and of possible fragmentation."""
        return CUDA_CONTEXT + FRAGMENTATION if self.rows else 0

    @property
    def shared(self) -> int:
        """Bytes of activations that the models of this process share.

        The models run one after another, and torch's allocator gives each the same blocks.
        """
        return max((row.activations for row in self.rows if not row.engine), default=0)

    @property
    def needed(self) -> int:
        """Bytes of all models together."""
        return sum(row.total for row in self.rows) + self.shared + self.context

    def __str__(self) -> str:
        rows = sorted(self.rows, key=lambda row: -row.total)
        parts = [f"{row.checkpoint.path} ({', '.join(row.checkpoint.roles)}) {format_gb(row.total)}" for row in rows]
        parts += [f"activations {format_gb(self.shared)}", f"CUDA context and fragmentation {format_gb(self.context)}"]
        return f"{format_gb(self.needed)} of {format_gb(self.card)} GB: {', '.join(parts)}"

    def least_share(self, row: Row) -> float:
        """Return the least ``gpu_memory_utilization`` that holds an engine; vLLM fills what it is given beyond it with unused cache."""
        return math.ceil(row.within_share / self.card / SHARE_STEP) * SHARE_STEP + SHARE_STEP

    def problems(self) -> list[str]:
        """Return why the models cannot run together, each with what to change; [] if they can."""
        reasons = []
        if self.needed > self.capacity:
            reasons.append(
                f"the models need {format_gb(self.needed)} GB, the GPU has {format_gb(self.card)} GB, of which {format_gb(MARGIN)} stay "
                "free: lower max_batch, context or batch_size in the profile, load a model in bfloat16, or leave out a stage"
            )
        for row in (each for each in self.rows if each.engine):
            path, share = row.checkpoint.path, float(row.checkpoint.options["gpu_memory_utilization"])
            if row.images < self.pictures:
                reasons.append(
                    f"a prompt of the preset shows {self.pictures} pictures, {path} takes {row.images}: images = {self.pictures}"
                )
            if row.within_share > share * self.card:
                reasons.append(
                    f"{path} needs {format_gb(row.within_share)} GB for {row.at_once} requests at once, gpu_memory_utilization = "
                    f"{share:g} gives it {format_gb(share * self.card)} GB: raise it to {self.least_share(row):.2f}, or lower max_batch"
                )
            outside = self.needed - row.within_share
            if share * self.card + outside > self.capacity:
                reasons.append(
                    f"gpu_memory_utilization = {share:g} of {path} leaves "
                    f"{format_gb(max(0.0, (1 - share) * self.card - MARGIN))} GB to all else, which "
                    f"needs {format_gb(outside)} GB: {path} itself needs {self.least_share(row):.2f}"
                )
        return reasons


def estimate_memory(config: RunConfig, card: int = L40S_BYTES) -> Memory:
    """Compute the memory that a preset needs on a GPU of ``card`` bytes under a profile.

    Raises:
        SettingsError, ModelError: As ``list_checkpoints``.
        ArchitectureError: As ``estimate_row``.
    """
    rows = tuple(estimate_row(entry) for entry in list_checkpoints(config) if entry.on_gpu)
    return Memory(rows, card, count_images(config.settings))


def estimate_row(checkpoint: Checkpoint) -> Row:
    """Compute the GPU memory of a checkpoint.

    Raises:
        ArchitectureError: Its config.json is missing.
    """
    model, options = read_architecture(checkpoint.path, checkpoint.revision), checkpoint.options
    dtype = str(options.get("dtype", "auto"))
    dtype = model.dtype if dtype == "auto" else dtype
    weights, size = model.weight_bytes(dtype), int(options.get("max_batch", options.get("batch_size", 1)))
    decoder, vision, images = model.decoder, model.vision, int(options.get("images", 1))
    if decoder is None:  # a model that generates nothing
        limit = int(options.get("max_tokens") or model.positions) if vision is None else model.positions
        parts = (model, vision or model)
        hidden, inner = max(part.hidden for part in parts), max(part.intermediate for part in parts)
        numbers_beside = vision.kept if vision is not None else model.kept
        activations = estimate_alive_bytes(
            hidden, inner, dtype, positions=size * min(model.positions, limit), beside=numbers_beside
        )
        return Row(checkpoint, model, dtype, weights, 0, activations)
    engine, masked = checkpoint.kind == "vllm", vision is not None and vision.masked
    longest = decoder.context if engine else min(decoder.context, UNBOUNDED_PROMPT)
    context = int(options.get("context") or options.get("max_tokens") or longest)
    cache = 0  # a reranker reads its scores off the prompt and keeps none
    if "max_batch" in options:
        cache = estimate_cache_bytes(decoder, vision, dtype, batch=size, context=context, images=images)
    tokens = size * context
    if engine:  # what vLLM lets into one pass over prompts where nothing else is said
        tokens = max(context, VLLM_PICTURE_TOKENS if vision else VLLM_TEXT_TOKENS)
    if engine and masked and vision is not None:
        tokens = max(tokens, vision.cached * images)  # the adapter raises the engine's limit to a prompt's pictures
    activations = estimate_alive_bytes(decoder.hidden, decoder.intermediate, dtype, positions=tokens)
    activations += size * decoder.vocabulary * LOGIT_BYTES
    if vision is not None:
        # vLLM profiles, and Llama-3.2-Vision runs, all pictures of a batch at once; its newer engine one by one.
        pictures, mask = (size * images, MASK_COPIES * vision.positions) if masked else (images, 0)
        positions, beside = pictures * vision.positions, vision.kept + mask
        # The cross-attention mask of Llama-3.2-Vision, which vLLM's profiling pass skips, is made once the pictures are read, in the memory
        # that their encoder has left: a quarter of it for each picture.
        activations += estimate_alive_bytes(
            vision.hidden, vision.intermediate, dtype, positions=positions, beside=beside
        )
    graphs = CUDA_GRAPHS * (engine and not options.get("enforce_eager"))
    graphs += CUDA_CONTEXT * (engine and not masked)  # the newer engine is a process of its own
    return Row(checkpoint, model, dtype, weights, cache, activations, graphs, size, images)


def estimate_cache_bytes(
    decoder: Decoder, vision: Vision | None, dtype: str, *, batch: int, context: int, images: int
) -> int:
    """Compute the bytes of the key-value cache for a batch of the longest requests.

    Every request is as long and shows as many pictures as allowed. vLLM 0.10.2 keeps the encoder's tokens of Llama-3.2-Vision in blocks of
    their own, and a block spans *all* layers, those with self-attention and those with cross-attention alike (worker/cache_engine.py,
    core/block_manager.py): a picture costs as much a token as text. Other models have their pictures within the context.
    """
    beside = vision.cached * images if vision is not None and vision.masked else 0
    return batch * (context + beside) * decoder.kv_bytes(dtype)


def estimate_alive_bytes(hidden: int, intermediate: int, dtype: str, *, positions: int, beside: int = 0) -> int:
    """Compute the bytes alive while ``positions`` go through a model together.

    Args:
        hidden: Width of a layer.
        intermediate: Inner width of its MLP.
        dtype: Data type of the numbers.
        positions: Positions in one pass.
        beside: Numbers kept for each position, besides those of its widest layer.
    """
    return positions * (ALIVE * hidden + ALIVE_MLP * intermediate + beside) * BYTES[dtype]


def format_gb(count: float) -> str:
    """Format bytes in GB (10^9)."""
    return f"{count / 1e9:.2f}"
