"""Photographs altered as if another camera had taken them.

The view is from another side, in another light, closer, less sharp. Used where no second photograph of an entity exists.
`strength` runs from 0 (nothing is changed) to 1 (the strongest change in which a person still recognises the thing). All random choices
depend on the seed alone, so that a strength can be searched for: the same seed with more strength is the same change, further on.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mini_crag_mm.generator.noise import Array, make_generator

# Sizes of the strongest change, chosen by eye on contact sheets of the validation split.
YAW = 0.38  # share by which the far side of a cut-out gets smaller
PHOTO_YAW = 0.2  # the same of a whole photograph, of which the frame must stay full
PITCH = 0.16  # share by which the upper or lower side gets smaller
ROLL_DEGREES = 14.0
PHOTO_ROLL_DEGREES = 8.0
PART_LEFT_OUT = 0.2  # share of a photograph's sides that is outside the new frame, besides what rotation takes
OCCLUDED = 0.24  # share of a photograph's width or height that something in front hides
SHADOWED = (0.35, 0.55)  # least and largest share of a cut-out in the shadow of something beside it
SHADE = 0.62  # how much darker it is there
EXPOSURE_STOPS = 1.0
SIDE_LIGHT = 0.7  # how much darker the side away from the light is
COLOUR_CAST = 0.17  # white balance: change of the red and the blue gain
SATURATION = 0.5
DEFOCUS = 0.009  # standard deviation of the blur as a share of the longer side
NOISE = 13.0  # standard deviation, of 255
JPEG_QUALITY = (92, 22)  # without and with full strength

# Smaller photographs are enlarged first: grain and blur would otherwise be blocks.
SMALLEST_SIDE_PX = 320

# Colours of what stands in front: a hand, leaves, a sleeve, a post.
_FOREGROUNDS = ((196, 150, 122), (58, 84, 44), (46, 52, 74), (120, 112, 100))

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]


def alter(photo: Image.Image, strength: float, seed: str, mirror: bool) -> Image.Image:
    """Alter a photograph as if another camera had taken it.

    Args:
        photo: RGB, or RGBA for a cut-out.
        strength: Strength of the change, 0 to 1.
        seed: Decides which change (viewpoint, light, colour and so on).
        mirror: Whether the thing may be mirrored; not if it bears text or is a known building.

    Returns:
        A picture in the same mode; a cut-out is trimmed to its visible part.

    Raises:
        ValueError: The strength is not in 0..1.
    """
    if not 0.0 <= strength <= 1.0:
        raise ValueError(f"strength {strength} is not in 0..1")
    if strength == 0:
        return photo
    cut_out = photo.mode == "RGBA"
    scale = max(1.0, SMALLEST_SIDE_PX / max(photo.size))
    large = photo.resize((round(photo.width * scale), round(photo.height * scale)), Image.Resampling.BICUBIC)
    pixels: Pixels = np.asarray(large if cut_out else large.convert("RGB")).copy()
    if mirror and make_generator(f"{seed}/mirror").random() < 0.5:
        pixels = np.ascontiguousarray(pixels[:, ::-1])
    # A generator for each step: what one draws must not depend on the size that another left, or on the strength.
    pixels = (_turn if cut_out else _cut_part)(pixels, strength, make_generator(f"{seed}/viewpoint"))
    colours, alpha = pixels[..., :3], pixels[..., 3] if cut_out else None
    lit = _defocus(_light(colours.astype(np.float32), strength, make_generator(f"{seed}/light")), strength)
    covering = make_generator(f"{seed}/occlusion")
    covered = (_shade if cut_out else _occlude)(lit, strength, covering)
    colours = _compress(_add_noise(covered, strength, make_generator(f"{seed}/noise")), strength)
    if alpha is None:
        return Image.fromarray(colours, mode="RGB")
    result = Image.fromarray(np.dstack([colours, alpha]), mode="RGBA")
    box = result.getchannel("A").point(lambda value: 255 if value >= 24 else 0).getbbox()
    return result.crop(box) if box else result


def _corners(width: int, height: int) -> Floats:
    return np.array([[0, 0], [width, 0], [width, height], [0, height]], dtype=np.float32)


def _project_corners(
    width: int, height: int, strength: float, rng: np.random.Generator, max_yaw: float, max_roll: float
) -> Floats:
    """Project the corners of a flat thing that is seen from another side; shape (4, 2), pixels."""
    yaw, pitch = (float(side) for side in rng.choice([-1.0, 1.0], size=2) * rng.uniform(0.6, 1.0, size=2))
    roll = np.deg2rad(float(rng.uniform(-1, 1)) * max_roll * strength)
    x, y = (_corners(2, 2) - 1).T  # -1 to 1
    depth = 1 + strength * (max_yaw * yaw * x + PITCH * pitch * y)
    seen_x, seen_y = x * np.cos(0.6 * strength * yaw) / depth, y / depth
    turned_x = seen_x * np.cos(roll) - seen_y * np.sin(roll) * height / width
    turned_y = seen_y * np.cos(roll) + seen_x * np.sin(roll) * width / height
    return np.stack([(turned_x + 1) * width / 2, (turned_y + 1) * height / 2], axis=1).astype(np.float32)


def _turn(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """Turn a cut-out to another side, on a ground large enough for it."""
    height, width = pixels.shape[:2]
    target = _project_corners(width, height, strength, rng, YAW, ROLL_DEGREES)
    target -= target.min(axis=0)
    size = np.ceil(target.max(axis=0)).astype(int)
    matrix = cv2.getPerspectiveTransform(_corners(width, height), target)
    # Colours are weighted by alpha, so that what lies hidden under the clear ground does not bleed in at the rim.
    weights = pixels[..., 3:].astype(np.float32) / 255
    premultiplied = np.dstack([pixels[..., :3] * weights, weights * 255]).astype(np.float32)
    warped = cv2.warpPerspective(premultiplied, matrix, (int(size[0]), int(size[1])), flags=cv2.INTER_AREA)
    alpha = np.maximum(warped[..., 3:] / 255, 1e-3)
    return np.dstack([np.clip(warped[..., :3] / alpha, 0, 255), warped[..., 3:]]).astype(np.uint8)


def _cut_part(pixels: Pixels, strength: float, rng: np.random.Generator) -> Pixels:
    """Show a part of a photograph from another side; the corners of the new frame lie inside the old one."""
    height, width = pixels.shape[:2]
    kept_share = 1 - PART_LEFT_OUT * strength
    corners = _project_corners(width, height, strength, rng, PHOTO_YAW, PHOTO_ROLL_DEGREES)
    corners -= np.array([width, height], dtype=np.float32) / 2
    # The frame shrinks until all of it lies inside, then moves within what is left over.
    reach = (np.abs(corners) / np.array([width, height], dtype=np.float32)).max(axis=0) * 2
    corners *= min(kept_share, 1.0) / max(1.0, float(reach.max()))
    # The middle is kept more often than the rim: that is where the thing is.
    slack = np.array([width, height]) / 2 - np.abs(corners).max(axis=0)
    middle = np.array([width, height]) / 2 + slack * rng.uniform(-0.4, 0.4, size=2)
    matrix = cv2.getPerspectiveTransform((corners + middle).astype(np.float32), _corners(width, height))
    return np.asarray(
        cv2.warpPerspective(pixels, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT),
        dtype=np.uint8,
    )


def _measure_direction(angle: float, height: int, width: int) -> Array:
    """Return how far each pixel lies in a direction, -1 to 1, shape (height, width)."""
    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    reach: Array = (x * np.cos(angle) + y * np.sin(angle)) / (abs(np.cos(angle)) + abs(np.sin(angle)))
    return reach


def _light(colours: Floats, strength: float, rng: np.random.Generator) -> Floats:
    """Change exposure, side light, white balance and saturation; colours are in 0..255."""
    towards = _measure_direction(float(rng.uniform(0, 2 * np.pi)), *colours.shape[:2])
    gain = 2 ** (strength * EXPOSURE_STOPS * float(rng.uniform(-1, 0.55))) * (1 + 0.5 * SIDE_LIGHT * strength * towards)
    cast = strength * COLOUR_CAST * float(rng.choice([-1, 1])) * float(rng.uniform(0.5, 1))
    balanced = colours * gain[..., None] * np.array([1 + cast, 1.0, 1 - cast], dtype=np.float32)
    grey = balanced.mean(axis=-1, keepdims=True)
    saturated = grey + (balanced - grey) * (1 + strength * SATURATION * float(rng.uniform(-1, 0.5)))
    result: Floats = np.clip(saturated, 0, 255).astype(np.float32)
    return result


def _defocus(colours: Floats, strength: float) -> Floats:
    sigma = DEFOCUS * strength * max(colours.shape[:2])
    return np.asarray(cv2.GaussianBlur(colours, (0, 0), sigma), dtype=np.float32) if sigma > 0.1 else colours


def _add_noise(colours: Floats, strength: float, rng: np.random.Generator) -> Pixels:
    """Add sensor noise, mostly of brightness, in grains of about two pixels."""
    height, width = colours.shape[:2]
    grains = rng.standard_normal((height // 2 + 1, width // 2 + 1, 4)).astype(np.float32)
    grains = np.asarray(cv2.resize(grains, (width, height), interpolation=cv2.INTER_LINEAR))
    noise = NOISE * strength * (grains[..., :1] + 0.5 * grains[..., 1:])
    return np.clip(colours + noise, 0, 255).astype(np.uint8)


def _compress(colours: Pixels, strength: float) -> Pixels:
    best, worst = JPEG_QUALITY
    quality = round(best + (worst - best) * strength)
    _, encoded = cv2.imencode(".jpg", colours[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    decoded = np.asarray(cv2.imdecode(encoded, cv2.IMREAD_COLOR), dtype=np.uint8)
    return np.ascontiguousarray(decoded[..., ::-1])


def _occlude(colours: Floats, strength: float, rng: np.random.Generator) -> Floats:
    """Let something out of focus reach into a photograph from one side."""
    height, width = colours.shape[:2]
    side, along = int(rng.integers(4)), float(rng.uniform(0.2, 0.8))
    colour = np.array(_FOREGROUNDS[int(rng.integers(len(_FOREGROUNDS)))], dtype=np.float32)
    deep = OCCLUDED * strength * float(rng.uniform(0.5, 1.0))
    across = side % 2  # 0: it comes in from the left or right, 1: from above or below
    extent = (width, height)[across]
    middle = [along * width, along * height]
    middle[across] = 0.0 if side < 2 else float(extent)
    axes = [0.16 * max(width, height)] * 2
    axes[across] = deep * extent
    mask = np.zeros((height, width), dtype=np.uint8)
    tilt = float(rng.uniform(-25, 25))
    centre, radii = (round(middle[0]), round(middle[1])), (round(axes[0]), round(axes[1]))
    cv2.ellipse(mask, centre, radii, tilt, 0, 360, 255, cv2.FILLED)
    soft = np.asarray(cv2.GaussianBlur(mask, (0, 0), 0.012 * max(width, height)), dtype=np.float32)[..., None] / 255
    return np.asarray(colours * (1 - soft) + colour * soft, dtype=np.float32)


def _shade(colours: Floats, strength: float, rng: np.random.Generator) -> Floats:
    """Darken a part of a cut-out, as if something stood between it and the light."""
    angle, share = float(rng.uniform(0, 2 * np.pi)), float(rng.uniform(*SHADOWED))
    edge = np.clip(((2 * share - 1) - _measure_direction(angle, *colours.shape[:2])) / 0.06, 0, 1)
    return np.asarray(colours * (1 - SHADE * strength * edge[..., None]), dtype=np.float32)
