"""The name of what a model was fitted to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def training_hash(rows: Sequence[Sequence[str]]) -> str:
    """SHA-256 of what a model was fitted to, in hexadecimal; the order of the rows does not matter."""
    lines = sorted("\t".join(row) for row in rows)
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()
