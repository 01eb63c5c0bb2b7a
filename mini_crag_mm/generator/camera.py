"""Simulation of the camera of smart glasses: tilt, crop, blur, underexposure and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from mini_crag_mm.content_models import Effects
from mini_crag_mm.generator.noise import Array, grain, to_image

# Cropped pictures are enlarged again, but not so much that pixels show.
LARGEST_ENLARGEMENT = 1.6
# The glasses move a little: degrees of roll, and how far a corner shifts as a fraction of the frame.
HAND_ROLL_DEGREES = 1.2
CORNER_SHIFT = 0.012
# Always there in the glasses' pictures: sensor noise (fraction of white), softness (pixels), darker corners.
SENSOR_NOISE = 0.007
SOFTNESS_PX = 0.45
VIGNETTE = (0.10, 0.24)

Matrix = NDArray[np.float64]


def _translate(x: float, y: float) -> Matrix:
    return np.array([[1, 0, x], [0, 1, y], [0, 0, 1]], dtype=np.float64)


def _solve_projection(source: list[tuple[float, float]], target: list[tuple[float, float]]) -> Matrix:
    """Solve for the projective map that takes four points to four others."""
    rows, values = [], []
    for (x, y), (u, v) in zip(source, target, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        values += [u, v]
    solved = np.linalg.solve(np.array(rows, dtype=np.float64), np.array(values, dtype=np.float64))
    return np.append(solved, 1.0).reshape(3, 3)


@dataclass(frozen=True)
class View:
    """Map from the canvas to the final picture; `size` is (width, height) in pixels."""

    size: tuple[int, int]
    to_canvas: tuple[float, ...]
    enlargement: float

    def see(self, image: Image.Image) -> Image.Image:
        """Render the canvas, or a mask of the same size, as the camera sees it."""
        resample = Image.Resampling.BILINEAR if image.mode == "L" else Image.Resampling.BICUBIC
        return image.transform(self.size, Image.Transform.PERSPECTIVE, self.to_canvas, resample)


def aim(frame: tuple[int, int], margin: tuple[int, int], effects: Effects, hand: np.random.Generator | None) -> View:
    """Point the camera at a frame (width, height) that lies inside a canvas with a margin around it.

    With `hand` the camera is worn on a head: it rolls and tilts slightly. Without, only the scene's effects count.
    """
    width, height = frame
    degrees = effects.rotate
    projection = np.eye(3)
    if hand is not None:
        degrees += float(hand.uniform(-HAND_ROLL_DEGREES, HAND_ROLL_DEGREES))
        corners = [(0.0, 0.0), (float(width), 0.0), (float(width), float(height)), (0.0, float(height))]
        shift = hand.uniform(-CORNER_SHIFT, CORNER_SHIFT, size=(4, 2)) * np.array([width, height])
        projection = _solve_projection(
            corners, [(x + dx, y + dy) for (x, y), (dx, dy) in zip(corners, shift, strict=True)]
        )
    # Image rows grow downwards, so this sign turns counter-clockwise as seen.
    angle = -math.radians(degrees)
    turn = np.array([[math.cos(angle), -math.sin(angle), 0], [math.sin(angle), math.cos(angle), 0], [0, 0, 1]])
    turned = _translate(width / 2, height / 2) @ turn @ _translate(-width / 2, -height / 2)
    left, top, wide, high = effects.crop
    crop_size = (wide * width, high * height)
    enlargement = min(LARGEST_ENLARGEMENT, max(width, height) / max(crop_size))
    cut = np.diag([enlargement, enlargement, 1.0]) @ _translate(-left * width, -top * height)
    to_picture = cut @ turned @ projection @ _translate(-margin[0], -margin[1])
    back = np.linalg.inv(to_picture)
    back /= back[2, 2]
    size = (round(crop_size[0] * enlargement), round(crop_size[1] * enlargement))
    return View(size, tuple(float(value) for value in back.flatten()[:8]), enlargement)


def _compute_vignette(width: int, height: int, strength: float) -> Array:
    """Return factors that fall from 1 in the middle to 1 - strength in the corners."""
    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    return 1 - strength * ((x**2 + y**2) / 2) ** 1.3


def expose(
    image: Image.Image, effects: Effects, enlargement: float, rng: np.random.Generator, worn: bool
) -> Image.Image:
    """Blur and darken a picture and add noise.

    Args:
        image: The picture.
        effects: Effects of the scene.
        enlargement: Factor of the blur's pixels.
        rng: Random generator of the noise.
        worn: Whether to add the constant flaws of the glasses' camera.
    """
    soft = math.hypot(effects.blur, SOFTNESS_PX if worn else 0.0) * enlargement
    if soft > 0.05:
        image = image.filter(ImageFilter.GaussianBlur(soft))
    pixels: Array = np.asarray(image.convert("RGB"), dtype=np.float32)
    noise = effects.noise
    if worn:
        balance = rng.uniform(0.965, 1.035, size=3).astype(np.float32)
        pixels = pixels * balance * _compute_vignette(*image.size, float(rng.uniform(*VIGNETTE)))[..., None]
        # A dark scene is amplified, and its noise with it.
        noise += SENSOR_NOISE / min(1.0, effects.darken)
    if effects.darken != 1.0:
        pixels = pixels * effects.darken
        if effects.darken < 1.0:
            # Colours fade in the dark.
            grey = pixels.mean(axis=-1, keepdims=True)
            pixels = grey + (pixels - grey) * (0.55 + 0.45 * effects.darken)
    if noise > 0:
        brightness = grain(rng, *image.size)[..., None]
        colour = np.stack([grain(rng, *image.size) for _ in range(3)], axis=-1)
        pixels = pixels + 255 * noise * (0.8 * brightness + 0.4 * colour)
    return to_image(pixels)
