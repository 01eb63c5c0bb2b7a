"""run.json: what the answers in a folder were made with, so that a run is not resumed with other settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.secrets import scrubbed
from evaluation.records import EvaluationError

MANIFEST = "run.json"


def read_manifest(output_dir: Path) -> dict[str, Any]:
    """What the answers were made with; empty where that is not known."""
    try:
        content = json.loads((output_dir / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_manifest(output_dir: Path, about: Mapping[str, Any], resume: bool) -> None:
    """Note what a run is made with; with ``resume`` check that it is what the folder's answers were made with.

    Raises:
        EvaluationError: The folder's answers were made with other settings; names them.
    """
    about = json.loads(scrubbed(json.dumps(dict(about), ensure_ascii=False)))
    if resume:
        earlier = read_manifest(output_dir)
        other = [
            f"{name}: {earlier[name]} then, {value} now"
            for name, value in about.items()
            if earlier.get(name, value) != value
        ]
        if other:
            raise EvaluationError(
                f"the answers in {output_dir} were made with other settings ({'; '.join(other)}); resume with those"
            )
    output_dir.mkdir(parents=True, exist_ok=True)
    text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    (output_dir / MANIFEST).write_text(text, encoding="utf-8")
