"""Reads the weights of a checkpoint into the operating system's file cache, while other models are being loaded."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_BLOCK = 16 << 20  # bytes
_PATTERNS = ("*.safetensors", "*.bin")


def weight_files(model: str) -> list[Path]:
    """The weight files of a folder, or of a model of the local Hugging Face cache; none where it is not there."""
    folder = Path(model)
    if not folder.is_dir():
        from huggingface_hub import try_to_load_from_cache

        try:
            found = try_to_load_from_cache(model, "config.json")
        except ValueError:  # no model id
            return []
        if not isinstance(found, str):
            return []
        folder = Path(found).parent
    return next((sorted(folder.glob(pattern)) for pattern in _PATTERNS if any(folder.glob(pattern))), [])


def free_bytes() -> int:
    """Bytes of memory that nobody uses; 0 where the system does not say."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 0


def read_ahead(files: list[Path], stop: threading.Event) -> int:
    """Read files from end to end until told to stop, where memory has room for them; returns the bytes read.

    Raises:
        OSError: A file cannot be read.
    """
    if sum(path.stat().st_size for path in files) > free_bytes():
        return 0
    read = 0
    for path in files:
        with path.open("rb", buffering=0) as file:
            while not stop.is_set():
                block = len(file.read(_BLOCK))
                if not block:
                    break
                read += block
    return read
