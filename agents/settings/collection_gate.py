"""Finds the gate that ``crag calibrate`` fitted to a collection, for the preset and the models of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agents.methods.gate import Gate
from agents.search.collection import Collection


def find_gate(collection: Collection, preset: str, models: Sequence[str]) -> tuple[Path | None, str]:
    """Find the gate of a collection that was fitted for a preset and these models.

    Args:
        collection: The collection.
        preset: Name of the preset.
        models: The chat model and the one of image search (``Profile.gate_models``).

    Returns:
        The gate's file, or None; and a line that says why no gate of the collection is used although it has some, or "".

    Raises:
        HeadError: A gate's file is malformed.
    """
    others = []
    for path in collection.gates:
        fitted = Gate.load(path).fitted_on
        fitted_preset, fitted_models = str(fitted.get("preset")), [str(name) for name in fitted.get("models") or ()]
        if (fitted_preset, fitted_models) == (preset, [*models]):
            return path.resolve(), ""
        others.append(f"{path.name} is for {fitted_preset!r} with {' + '.join(fitted_models)}")
    if not others:
        return None, ""
    return None, (
        f"no gate of the collection is used, because none was fitted for {preset!r} with {' + '.join(models)} "
        f"({'; '.join(others)}); to fit one: crag calibrate {collection.folder}"
    )
