"""run.json: what the answers in a folder were made with, so that a run is not resumed with other settings."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.secrets import scrubbed
from evaluation.records import EvaluationError

MANIFEST = "run.json"
_REPOSITORY = Path(__file__).resolve().parents[2]


def read_manifest(output_dir: Path) -> dict[str, Any]:
    """What the answers were made with; empty where that is not known."""
    try:
        content = json.loads((output_dir / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_manifest(output_dir: Path, about: Mapping[str, Any], resume: bool) -> None:
    """Note what a run is made with; with ``resume`` check that it is what the folder's answers were made with, and keep what
    else was noted of them (``add_to_manifest``).

    Raises:
        EvaluationError: The folder's answers were made with other settings; names them.
    """
    about = _plain(about)
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
        about = {**earlier, **about}
    _write(output_dir, about)


def add_to_manifest(output_dir: Path, more: Mapping[str, Any]) -> None:
    """Note what is known only while a run is made and may change when it is resumed: nothing compares it."""
    _write(output_dir, {**read_manifest(output_dir), **_plain(more)})


def note_commit(output_dir: Path) -> None:
    """Note the commit of the code; a run resumed after a change has several, in order, with a comma between."""
    now = commit()
    noted = [name for name in str(read_manifest(output_dir).get("commit", "")).split(", ") if name]
    if now and now not in noted:
        add_to_manifest(output_dir, {"commit": ", ".join([*noted, now])})


def commit() -> str:
    """The repository's commit, with ``-dirty`` where files were changed since; "" where that is not known."""
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"],
            cwd=_REPOSITORY,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(scrubbed(json.dumps(dict(about), ensure_ascii=False)))
    return made


def _write(output_dir: Path, about: Mapping[str, Any]) -> None:
    output_dir.mkdir(parents=True, exist_ok=True)
    text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    (output_dir / MANIFEST).write_text(text, encoding="utf-8")
