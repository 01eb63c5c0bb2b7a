"""Random textures for composed scenes, as float arrays in 0..1; every function is deterministic in its generator."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Array = NDArray[np.floating[Any]]


def make_generator(seed: str) -> np.random.Generator:
    """Make a random generator that depends on nothing but `seed`."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(seed.encode("utf-8")).digest()[:8], "big"))


def smooth(rng: np.random.Generator, width: int, height: int, cell_x: float, cell_y: float) -> Array:
    """Draw smooth noise: random values every `cell_x` x `cell_y` pixels, interpolated."""
    columns = max(2, round(width / cell_x) + 1)
    rows = max(2, round(height / cell_y) + 1)
    coarse = Image.fromarray(rng.random((rows, columns), dtype=np.float32), mode="F")
    return np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32)


def fractal(
    rng: np.random.Generator, width: int, height: int, cell: float, octaves: int, stretch: float = 1.0
) -> Array:
    """Sum smooth noises, each half as large and half as strong; `stretch` > 1 draws them out horizontally."""
    total = np.zeros((height, width), dtype=np.float32)
    strength, weight = 1.0, 0.0
    for _ in range(octaves):
        if cell < 1:
            break
        total += strength * smooth(rng, width, height, cell * stretch, cell)
        weight += strength
        strength, cell = strength / 2, cell / 2
    return total / np.float32(weight)


def grain(rng: np.random.Generator, width: int, height: int) -> Array:
    """Draw independent normal noise, mean 0, deviation 1."""
    return rng.standard_normal((height, width), dtype=np.float32)


def tint(values: Array, dark: tuple[int, int, int], light: tuple[int, int, int]) -> Array:
    """Map values to colours from `dark` (0) to `light` (1), as an H x W x 3 array in 0..255."""
    low, high = np.array(dark, dtype=np.float32), np.array(light, dtype=np.float32)
    return low + np.clip(values, 0, 1)[..., None] * (high - low)


def to_image(colours: Array) -> Image.Image:
    """Convert an H x W x 3 array in 0..255 to an RGB image."""
    return Image.fromarray(np.clip(colours, 0, 255).astype(np.uint8), mode="RGB")


def vertical(height: int, width: int, top: float, bottom: float) -> Array:
    """Return values that run from `top` to `bottom` down the image."""
    return np.repeat(np.linspace(top, bottom, height, dtype=np.float32)[:, None], width, axis=1)
