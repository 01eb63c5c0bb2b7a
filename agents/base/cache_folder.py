"""The folder of caches and indices: where it is, and the option by which every command takes another."""

import os
from pathlib import Path
from typing import Annotated

from agents.base.command_options import Flag

CACHE_VARIABLE = "CRAG_CACHE"  # environment variable that names the folder
DEFAULT_CACHE = Path(__file__).resolve().parents[2] / ".cache"

CacheOption = Annotated[Path, Flag(variable=CACHE_VARIABLE)]
"""Type of the option ``--cache``; its default is ``DEFAULT_CACHE``."""


def default_cache() -> Path:
    """Return the folder that ``CRAG_CACHE`` in the environment names, else the repository's ``.cache``."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else DEFAULT_CACHE
