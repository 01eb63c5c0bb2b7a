"""Configurations of the hub's models that profiles name, as folders, so that their sizes are known without a hub."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from agents.profiles.profile import Profile
from agents.settings.run_config import RunConfig

CONFIGS = Path(__file__).with_name("model_configs")
"""config.json of the models, written from papers, model cards and transformers' defaults; not compared with their repositories."""


def use_local_configs(config: RunConfig) -> RunConfig:
    """Replace the models of a hub by folders of ``CONFIGS``."""
    profile = config.profile.model_dump_json()
    for folder in CONFIGS.iterdir():
        profile = profile.replace(json.dumps(folder.name.replace("--", "/")), json.dumps(str(folder)))
    return dataclasses.replace(config, profile=Profile.model_validate_json(profile))
