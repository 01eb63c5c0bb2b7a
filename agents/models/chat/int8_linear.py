"""Linear layers in 8-bit integers on CPUs, for batches of prompts.

Weights are rounded once per output channel, activations per token as they come (dynamic W8A8: Dettmers et al. 2022, "LLM.int8()",
section 3.1, vector-wise quantisation, without its outlier decomposition). The products are exact in 32-bit integers; processors without
8-bit dot products (VNNI) add two products in 16 bits first, so that weights take 7 bits there.
"""

import ctypes
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from agents.models.chat.int8_kernels import Kernel, choose_kernel

_LEVELS = 127  # symmetric 8-bit integers
_LEVELS_WITHOUT_VNNI = 63  # 2 * 255 * 63 is within 16 bits
_MIN_SCALE = 1e-12
_ROWS = 64  # of a matrix, rounded at a time
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_KEPT_BYTES = 2**31 - 1


class Int8Linear(nn.Module):
    """Replaces a ``Linear``: input of shape (..., in), output (..., out) in the input's dtype."""

    def __init__(self, linear: nn.Linear, kernel: Kernel) -> None:
        super().__init__()
        self._multiply = kernel(*round_weights(linear.weight.detach()))
        self._bias = None if linear.bias is None else linear.bias.detach().float()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Multiply the inputs with the int8 weights, scaling the activations token by token."""
        rows = inputs.reshape(-1, inputs.shape[-1]).float()
        scale = (rows.abs().amax(dim=1, keepdim=True) / _LEVELS).clamp_min(_MIN_SCALE)
        product = self._multiply(rows / scale).mul_(scale)
        if self._bias is not None:
            product = product.add_(self._bias)
        return product.to(inputs.dtype).reshape(*inputs.shape[:-1], -1)


def weight_levels() -> int:
    """Return the largest rounded weight that this processor multiplies exactly."""
    return _LEVELS if torch.cpu._is_vnni_supported() else _LEVELS_WITHOUT_VNNI


def quantise(model: nn.Module) -> None:
    """Replace every ``Linear`` of a model on the CPU; the rest computes in float32. A thread for each core packs the matrices in turn."""
    kernel = choose_kernel()
    paths = [path for path, layer in model.named_modules() if isinstance(layer, nn.Linear)]

    def replace(path: str) -> None:
        layer = model.get_submodule(path)
        assert isinstance(layer, nn.Linear)
        model.set_submodule(path, Int8Linear(layer, kernel))

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        deque(pool.map(replace, paths), maxlen=0)
    model.float()
    _keep_large_blocks()


def round_weights(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Round a matrix of shape (out, in), so many rows at a time as stay near the processor.

    Returns:
        A matrix of int8, shape (out, in), and the scale of each of its rows, shape (out,).
    """
    rounded = torch.empty(weight.shape, dtype=torch.int8)
    scale = torch.empty(len(weight))
    for start in range(0, len(weight), _ROWS):
        rows = slice(start, start + _ROWS)
        exact = weight[rows].float()
        scale[rows] = (exact.abs().amax(dim=1) / weight_levels()).clamp_min(_MIN_SCALE)
        rounded[rows] = (exact / scale[rows].unsqueeze(1)).round()
    return rounded, scale


def _keep_large_blocks() -> None:
    """Tell glibc to keep freed activations: handing tens of megabytes back after each layer costs as much as the products.

    The leftovers of packing are freed first, up to 0.9 GB.
    """
    libc = ctypes.CDLL(None)
    mallopt = getattr(libc, "mallopt", None)
    if mallopt is not None:
        libc.malloc_trim(0)
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 1)  # the arenas of other threads hand every large block back
