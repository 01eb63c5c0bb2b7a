"""Every preset can run under every profile: whatever its stages ask for has a model."""

from __future__ import annotations

import pytest

from agents.settings.run_config import RunConfig, preset_names, profile_names
from agents.settings.stage_needs import list_roles


@pytest.mark.parametrize("profile", profile_names())
@pytest.mark.parametrize("preset", preset_names())
def test_a_profile_has_every_model_that_a_preset_asks_for(preset: str, profile: str) -> None:
    config = RunConfig.read(preset, profile)
    assert set(list_roles(config.settings, config.prompts)) <= set(config.profile.models)
    assert config.settings.stages[-1] == "finalise"
    limits = config.settings.limits.reply_tokens
    assert {name: config.prompts[name].settings.max_tokens for name in limits} == limits
