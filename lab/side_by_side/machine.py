"""Upper limits of the machine's speed, printed beside the measured speeds."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from agents.models.chat.int8_kernels import choose_kernel
from agents.models.chat.int8_linear import Int8Linear

_ARRAY_BYTES = 256 * 2**20  # far more than any cache holds
_ROWS, _WIDTH, _HIDDEN = 128, 1536, 8960  # the widest product of Qwen2.5-1.5B, for 128 tokens of a prompt
_REPEATS = 5


@dataclass(frozen=True)
class MachineLimits:
    """Limits of reading a prompt and of writing a reply."""

    read_gigabytes: float  # bytes a second that all cores read from memory together, in 1e9: bounds the tokens written
    int8_teraops: float  # operations a second of an int8 product, in 1e12: bounds the tokens read

    @classmethod
    def measure(cls) -> MachineLimits:
        """Measure both, each as the fastest of some repeats."""
        numbers = torch.from_numpy(np.ones(_ARRAY_BYTES // 4, dtype=np.float32))
        layer = Int8Linear(torch.nn.Linear(_WIDTH, _HIDDEN), choose_kernel())
        rows = torch.ones(_ROWS, _WIDTH)
        return cls(
            _ARRAY_BYTES / _time(numbers.sum) / 1e9, 2 * _ROWS * _WIDTH * _HIDDEN / _time(lambda: layer(rows)) / 1e12
        )


def _time(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some calls."""
    return min(timeit.repeat(call, number=1, repeat=_REPEATS))
