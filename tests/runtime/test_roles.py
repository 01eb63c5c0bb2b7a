"""Every preset can run under every profile: whatever its stages ask for has a model."""

from __future__ import annotations

import pytest

from agents.launch import preset_names, profile_names, settings_of
from agents.prompts import PromptLibrary
from agents.runtime.roles import roles_of
from agents.settings import PROMPTS, load_profile


@pytest.mark.parametrize("profile", profile_names())
@pytest.mark.parametrize("preset", preset_names())
def test_a_profile_has_every_model_that_a_preset_asks_for(preset: str, profile: str) -> None:
    wanted = roles_of(settings_of(preset, profile), PromptLibrary(PROMPTS))
    assert set(wanted) <= set(load_profile(profile).models)
