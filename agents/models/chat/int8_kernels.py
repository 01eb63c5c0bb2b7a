"""Products of 8-bit integers on CPUs: the same sums from three libraries, and the choice of the fastest that this processor has.

FBGEMM comes with PyTorch for x86 and is fast for few rows and many. oneDNN multiplies 128 rows 3.7 times as fast where the processor has
AMX (1,536 x 8,960, two cores), as fast on a Zen 4 with VNNI, and up to a thousand times more slowly on AVX2 or on a processor with AMX that
is held to VNNI: it is timed before it is taken. ``torch._int_mm`` is slower than both, and is everywhere.
"""

import statistics
import time
import timeit
import warnings
from collections.abc import Callable

import torch

Multiply = Callable[[torch.Tensor], torch.Tensor]
"""Multiplies rows of integers from -127 to 127, as float32 of shape (rows, in), with a matrix: shape (rows, out), scaled by its rows."""

Kernel = Callable[[torch.Tensor, torch.Tensor], Multiply]
"""Packs a matrix of int8, shape (out, in), and the scale of each of its rows, shape (out,)."""

_ZERO = 128  # unsigned activations are multiplied with signed weights: zero is here
_TRIED_ROWS = (1, 16, 128)  # decoding one reply, a batch of them, and reading
_TRIED_WIDTH = 1_536  # Qwen2.5-1.5B's
_REPEATS = 5

# The packing for FBGEMM is deprecated and has no successor. Matrices are packed in threads, where filters cannot be set and reset.
warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)


def fbgemm(weight: torch.Tensor, scale: torch.Tensor) -> Multiply:
    """Pack a matrix for FBGEMM, on one core."""
    torch.backends.quantized.engine = "fbgemm"
    zero = torch.zeros(len(scale), dtype=torch.int64)
    packed = torch.ops.quantized.linear_prepack(
        torch._make_per_channel_quantized_tensor(weight, scale.double(), zero, 0), None
    )

    def multiply(rows: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            rows, 1.0, _ZERO, packed
        )
        return product

    return multiply


def onednn(weight: torch.Tensor, scale: torch.Tensor) -> Multiply:
    """Pack a matrix for oneDNN. Activations are unsigned: signed ones take 368 ms a row where AMX is turned off, these 5.6."""
    packed = torch.ops.onednn.qlinear_prepack(weight, None)
    zero = torch.zeros(len(scale), dtype=torch.int32)

    def multiply(rows: torch.Tensor) -> torch.Tensor:
        unsigned = rows.round().add_(_ZERO).to(torch.uint8)
        product: torch.Tensor = torch.ops.onednn.qlinear_pointwise(
            unsigned, 1.0, _ZERO, packed, scale, zero, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return product

    return multiply


def plain(weight: torch.Tensor, scale: torch.Tensor) -> Multiply:
    """Keep a matrix for PyTorch's own product of integers, which every processor has."""
    turned = weight.t()

    def multiply(rows: torch.Tensor) -> torch.Tensor:
        return torch._int_mm(rows.round().to(torch.int8), turned).float().mul_(scale)

    return multiply


def choose_kernel() -> Kernel:
    """Return the kernel for this processor: oneDNN with AMX where it is faster than FBGEMM, FBGEMM on other x86, else the plain one."""
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        return plain
    return onednn if torch.cpu._is_amx_tile_supported() and compare_speed(onednn, fbgemm) < 1 else fbgemm


def compare_speed(kernel: Kernel, other: Kernel) -> float:
    """Measure a kernel's time as a share of the other kernel's, as the geometric mean over few rows and many; some 50 ms."""
    seeded = torch.Generator().manual_seed(0)  # the global one is the caller's
    weight = torch.randint(-63, 64, (_TRIED_WIDTH, _TRIED_WIDTH), dtype=torch.int8, generator=seeded)
    scale = torch.ones(_TRIED_WIDTH)
    one, two = kernel(weight, scale), other(weight, scale)
    shares = []
    for count in _TRIED_ROWS:
        rows = torch.randint(-127, 128, (count, _TRIED_WIDTH), generator=seeded).float()
        shares.append(_time(one, rows) / _time(two, rows))
    return statistics.geometric_mean(shares)


def _time(multiply: Multiply, rows: torch.Tensor) -> float:
    multiply(rows)  # the first call prepares
    return min(timeit.repeat(lambda: multiply(rows), timer=time.perf_counter, number=1, repeat=_REPEATS))
