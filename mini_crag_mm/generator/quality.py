"""The organiser's image_quality label of a turn, from what was done to its scene."""

from __future__ import annotations

from typing import Any, Literal, get_args

from mini_crag_mm.generator.content import Scene

ImageQuality = Literal["normal", "low-light", "blurred", "truncated", "occluded", "rotated"]
IMAGE_QUALITIES: tuple[ImageQuality, ...] = get_args(ImageQuality)

LOW_LIGHT_BELOW = 0.85  # brightness factor
BLURRED_FROM = 0.9  # pixels of blur radius
ROTATED_FROM = 5.0  # degrees
TRUNCATED_BELOW = 0.9  # share of the asked thing that is inside the frame
OCCLUDED_FROM = 0.2  # share of the asked thing that others hide


def image_quality(scene: Scene, layout: dict[str, Any], entity: str | None) -> ImageQuality:
    """The worst trouble of the picture for a question on `entity` (None: on the whole picture)."""
    asked = [thing for thing in layout["objects"] if thing["entity"] == entity]
    if scene.effects.darken < LOW_LIGHT_BELOW:
        return "low-light"
    if scene.effects.blur >= BLURRED_FROM:
        return "blurred"
    if any(thing["shown"] < TRUNCATED_BELOW for thing in asked):
        return "truncated"
    if any(thing["covered"] >= OCCLUDED_FROM for thing in asked):
        return "occluded"
    if abs(scene.effects.rotate) >= ROTATED_FROM:
        return "rotated"
    return "normal"
