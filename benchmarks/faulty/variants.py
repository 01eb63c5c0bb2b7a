"""The presets on trial: as the GPU profile runs them, and as the embedded one does where it has stages of its own."""

from __future__ import annotations

from functools import cache

from agents.settings import PRESETS, Limits, Settings, load_settings, names

EMBEDDED = "@embedded"
"""After a preset's name: its table for the embedded profile."""

SECONDS_PER_TURN = 0.4
"""A twenty-fifth of the challenge's limit; what stages need is scaled alike."""

_MARGIN = 0.2


def variants() -> list[str]:
    """Names of the presets, those for the embedded profile marked."""
    found: list[str] = []
    for preset in names(PRESETS):
        found.append(preset)
        if _settings(preset).stages != _settings(preset + EMBEDDED).stages:
            found.append(preset + EMBEDDED)
    return found


@cache
def _settings(variant: str) -> Settings:
    return load_settings(variant.removesuffix(EMBEDDED), "embedded" if variant.endswith(EMBEDDED) else "gpu")


def full_settings(variant: str) -> Settings:
    """The preset with the challenge's limits, whatever those of the profile are."""
    challenge = Limits().model_dump(include={"batch_size", "seconds_per_turn", "seconds_per_dialog"})
    settings = _settings(variant)
    return settings.model_copy(update={"limits": settings.limits.model_copy(update=challenge)})


@cache
def short_settings(variant: str) -> Settings:
    """The preset with the challenge's limits made short."""
    settings = _settings(variant)
    limits = settings.limits.model_copy(
        update={
            "seconds_per_turn": SECONDS_PER_TURN,
            "margin_seconds": _MARGIN,
            "seconds_per_dialog": 3 * SECONDS_PER_TURN,
        }
    )
    return settings.model_copy(update={"limits": limits})
