"""The presets on trial, as the GPU profile runs them."""

from __future__ import annotations

from functools import cache

from agents.profiles.profile import Limits
from agents.settings.presets import Settings, load_settings

SECONDS_PER_TURN = 0.4
"""A twenty-fifth of the challenge's limit; what stages need is scaled alike."""

_MARGIN = 0.2


@cache
def full_settings(preset: str) -> Settings:
    """The preset with the challenge's limits, whatever those of the profile are."""
    challenge = Limits().model_dump(include={"batch_size", "seconds_per_turn", "seconds_per_dialog"})
    settings = load_settings(preset, "gpu")
    return settings.model_copy(update={"limits": settings.limits.model_copy(update=challenge)})


@cache
def short_settings(preset: str) -> Settings:
    """The preset with the challenge's limits made short."""
    settings = full_settings(preset)
    limits = settings.limits.model_copy(
        update={
            "seconds_per_turn": SECONDS_PER_TURN,
            "margin_seconds": _MARGIN,
            "seconds_per_dialog": 3 * SECONDS_PER_TURN,
        }
    )
    return settings.model_copy(update={"limits": limits})
