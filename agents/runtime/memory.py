"""Bytes of GPU memory that models take, by formula.

Weights and key-value cache are exact. Activations are an allowance: the tensors that are alive at once in the widest place
of a forward pass, counted from the shapes in transformers' and vLLM's model code.
"""

from __future__ import annotations

from agents.runtime.architecture import BYTES, Architecture, Decoder, Vision

ALIVE = 6
"""Tensors of a layer's width that are alive at once: residual, normed input, queries, keys, values, attention output."""

ALIVE_MLP = 3
"""Tensors of an MLP's inner width that are alive at once: gate, up, and their product."""

MASK_COPIES = 3
"""Tensors of a full attention mask that are alive while it is made (vllm 0.10.2, mllama.py, _prepare_aspect_ratio_attention_mask)."""

LOGIT_BYTES = 24
"""Bytes for each logit that the sampler looks at: float32 logits and probabilities, sorted values (4 each), sorted indices (8), a mask."""

VLLM_TEXT_TOKENS, VLLM_PICTURE_TOKENS = 2048, 5120
"""Least tokens of a pass over the prompt (vllm 0.10.2, config/scheduler.py: defaults, and for models that see)."""

CUDA_CONTEXT = 600_000_000
"""Bytes of a process' CUDA context with the kernels of torch, cuBLAS and cuDNN: an allowance, of the size nvidia-smi shows."""

FRAGMENTATION = 500_000_000
"""Bytes kept free for what torch's allocator cannot hand out again: an allowance."""

CUDA_GRAPHS = 1 << 30
"""Bytes of vLLM's CUDA graphs: the low end of the "1~3 GiB" that vllm 0.10.2 says they take for up to 256 sequences (model_runner.py)."""


def weight_bytes(parameters: int, dtype: str) -> int:
    """Bytes of weights."""
    return parameters * BYTES[dtype]


def cache_bytes(decoder: Decoder, vision: Vision | None, dtype: str, *, batch: int, context: int, images: int) -> int:
    """Bytes of the key-value cache where every request of a batch is as long as allowed and shows all pictures it may.

    vLLM 0.10.2 keeps the encoder's tokens of Llama-3.2-Vision in blocks of their own, and a block spans *all* layers, those with
    self-attention and those with cross-attention alike (worker/cache_engine.py, core/block_manager.py): a picture costs
    as much a token as text. Other models have their pictures within the context.
    """
    beside = vision.cached * images if vision is not None and vision.masked else 0
    return batch * (context + beside) * decoder.kv_bytes(dtype)


def decoder_activation_bytes(decoder: Decoder, dtype: str, *, tokens: int, batch: int) -> int:
    """Bytes alive in a pass over ``tokens`` prompt tokens, with the logits of ``batch`` sequences."""
    width = ALIVE * decoder.hidden + ALIVE_MLP * decoder.intermediate
    return tokens * width * BYTES[dtype] + batch * decoder.vocabulary * LOGIT_BYTES


def vision_activation_bytes(vision: Vision, dtype: str, *, pictures: int) -> int:
    """Bytes alive while ``pictures`` go through the picture encoder together."""
    width = ALIVE * vision.hidden + ALIVE_MLP * vision.intermediate + vision.kept
    mask = MASK_COPIES * vision.positions if vision.masked else 0
    return pictures * vision.positions * (width + mask) * BYTES[dtype]


def encoder_activation_bytes(model: Architecture, dtype: str, *, batch: int, most_tokens: int | None) -> int:
    """Bytes alive while a batch goes through a model that generates nothing."""
    positions = (
        min(model.positions, most_tokens) if most_tokens is not None and model.vision is None else model.positions
    )
    hidden = max(model.hidden, model.vision.hidden if model.vision else 0)
    intermediate = max(model.intermediate, model.vision.intermediate if model.vision else 0)
    return batch * positions * (ALIVE * hidden + ALIVE_MLP * intermediate) * BYTES[dtype]


def prompt_tokens_of_a_pass(context: int, sees: bool) -> int:
    """Tokens that vLLM lets into one pass over prompts where nothing else is said."""
    return max(context, VLLM_PICTURE_TOKENS if sees else VLLM_TEXT_TOKENS)
