"""The folder of caches and indices: where it is, and the option by which every command takes another."""

import os
from pathlib import Path
from typing import Annotated

from platformdirs import user_cache_path

from agents.base.command_options import Flag
from agents.base.data_folder import ROOT, is_installed

CACHE_VARIABLE = "CRAG_CACHE"  # environment variable that names the folder
DEFAULT_CACHE = user_cache_path("crag-mm-agent", appauthor=False) if is_installed() else ROOT / ".cache"
"""Below the user's own caches in an installation (``~/.cache`` on Linux), in the repository in a checkout."""

CacheOption = Annotated[Path, Flag(variable=CACHE_VARIABLE)]
"""Type of the option ``--cache``; its default is ``DEFAULT_CACHE``."""


def default_cache() -> Path:
    """Return the folder that ``CRAG_CACHE`` in the environment names, else ``DEFAULT_CACHE``."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else DEFAULT_CACHE
