"""Keys that stand in the environment never reach a file."""

from __future__ import annotations

import os
import re

_NAMED = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_SHORTEST = 8  # shorter values ("none", "EMPTY") are no secrets, and would be found in ordinary words


def scrubbed(text: str) -> str:
    """The text with the values of environment variables that are named like keys replaced by ``***``."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _NAMED.search(name) and value in text:
            text = text.replace(value, "***")
    return text
