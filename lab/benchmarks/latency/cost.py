"""The token-cost model: seconds of a call on a GPU, from a model's architecture and the GPU's rates.

Prompts and encoders are bound by arithmetic, 2 operations a parameter and token. Decoding is bound by the bandwidth at which weights
and caches are read, once a step for all requests of the batch (Pope et al., arXiv 2211.05102, section 2).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from apps.preflight.architecture import BYTES, Architecture

EIGHT_BIT = "float8"
"""Name of the rate of layers held in 8 bits; their inputs are rounded to 8 bits too (FP8 dynamic)."""

FIGURES = Path(__file__).with_name("l40s.toml")


@dataclass(frozen=True)
class Machine:
    """Rates and overheads of ``l40s.toml``; operations and bytes a second, seconds, characters a token."""

    bandwidth: float
    rates: dict[str, float]
    decode_efficiency: float
    prefill_efficiency: float
    overhead: dict[str, float]
    characters: float
    query_tokens: int
    published: tuple[float, ...]

    @classmethod
    def read(cls, path: Path = FIGURES) -> Machine:
        """Read the figures of a file.

        Raises:
            OSError: There is no such file.
            KeyError: It lacks a figure.
        """
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        gpu = table["gpu"]
        return cls(
            bandwidth=gpu["bandwidth"],
            rates={**{name: gpu[name] for name in ("bfloat16", "float32", EIGHT_BIT)}, "float16": gpu["bfloat16"]},
            decode_efficiency=table["efficiency"]["decode"],
            prefill_efficiency=table["efficiency"]["prefill"],
            overhead=table["overhead"],
            characters=table["tokens"]["characters"],
            query_tokens=table["tokens"]["query"],
            published=tuple(table["published"]["qa_dragon"]),
        )

    def time_arithmetic(self, operations: float, dtype: str) -> float:
        """Estimate the seconds of arithmetic."""
        return operations / (self.rates[dtype] * self.prefill_efficiency)

    def time_reading(self, count: float) -> float:
        """Estimate the seconds to read ``count`` bytes."""
        return count / (self.bandwidth * self.decode_efficiency)


def count_text_parameters(model: Architecture) -> int:
    """Count the parameters that each token of text is multiplied with."""
    return model.parameters - model.vision_parameters - model.lookup_parameters


def estimate_text_seconds(model: Architecture, machine: Machine, dtype: str, tokens: float) -> float:
    """Estimate the seconds of arithmetic for tokens of text."""
    plain = machine.time_arithmetic(2.0 * (count_text_parameters(model) - model.eight_bit) * tokens, dtype)
    return plain + (machine.time_arithmetic(2.0 * model.eight_bit * tokens, EIGHT_BIT) if model.eight_bit else 0.0)


def count_picture_operations(model: Architecture, pictures: float) -> float:
    """Count the operations for pictures.

    They are the encoder's parameters on each position, and attention of all positions to all.
    """
    vision = model.vision
    if vision is None:
        return 0.0
    linear = 2.0 * model.vision_parameters * vision.positions
    attention = 4.0 * vision.layers * vision.positions**2 * vision.hidden
    return pictures * (linear + attention)


def count_picture_tokens(model: Architecture, pictures: float) -> float:
    """Count the tokens by which pictures lengthen a prompt: 0 for a model that reads them beside it (Llama-3.2-Vision)."""
    if model.vision is None or model.decoder is None or model.vision.masked:
        return 0.0
    return pictures * model.vision.cached


def estimate_prefill(
    model: Architecture,
    machine: Machine,
    dtype: str,
    *,
    tokens: float,
    pictures: float,
    known_tokens: float = 0.0,
    known_pictures: float = 0.0,
    encoded_pictures: float = 0.0,
) -> float:
    """Estimate the seconds until the prompts of a batch have been read.

    The prompts have ``tokens`` and ``pictures`` in all. A prefix cache holds ``known_tokens`` and ``known_pictures`` of them, the encoder's
    cache ``encoded_pictures``.
    """
    tokens += count_picture_tokens(model, pictures - known_pictures) - known_tokens
    return estimate_text_seconds(model, machine, dtype, tokens) + machine.time_arithmetic(
        count_picture_operations(model, pictures - encoded_pictures), dtype
    )


def estimate_decode(
    model: Architecture,
    machine: Machine,
    dtype: str,
    *,
    steps: int,
    batch: int,
    tokens: float,
    pictures: float,
    overhead: float,
) -> float:
    """Estimate the seconds for ``steps`` tokens of each of ``batch`` requests.

    Their prompts have ``tokens`` and ``pictures`` in all.
    """
    if model.decoder is None or batch == 0:
        return 0.0
    cached_tokens = tokens + batch * steps / 2  # the cache grows by a token a step: half of them on average
    if model.vision is not None:
        cached_tokens += pictures * model.vision.cached * model.vision.readers
    # Layers in 8 bits are taken to be none of the picture encoder.
    weights = (count_text_parameters(model) - model.eight_bit) * BYTES[dtype] + model.eight_bit
    step = machine.time_reading(weights + cached_tokens * model.decoder.kv_bytes(dtype))
    return steps * (max(step, estimate_text_seconds(model, machine, dtype, batch)) + overhead)
