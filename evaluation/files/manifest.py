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
    return read_json(output_dir / MANIFEST)


def write_manifest(output_dir: Path, about: Mapping[str, Any], resume: bool) -> None:
    """Note what a run is made with; with ``resume`` check that it is what the folder's answers were made with, and keep what
    else was noted of them (``add_to_manifest``).

    Raises:
        EvaluationError: The folder's answers were made with other settings; names them.
    """
    about = _plain(about)
    if resume:
        earlier = read_manifest(output_dir)
        changed = [name for name, value in about.items() if earlier.get(name, value) != value]
        if changed:
            other = "; ".join(f"{name}: {earlier[name]} then, {about[name]} now" for name in changed)
            what = f"the answers in {output_dir} were made with other settings"
            raise EvaluationError(f"{what} ({other}); resume with those")
        about = {**earlier, **about}
    write_json(output_dir / MANIFEST, about)


def add_to_manifest(output_dir: Path, more: Mapping[str, Any]) -> None:
    """Note what is known only while a run is made and may change when it is resumed: nothing compares it."""
    write_json(output_dir / MANIFEST, {**read_manifest(output_dir), **_plain(more)})


def note_commit(output_dir: Path) -> None:
    """Note the commit of the code; a run resumed after a change has several, in order, with a comma between."""
    now = commit()
    noted = [name for name in str(read_manifest(output_dir).get("commit", "")).split(", ") if name]
    if now and now not in noted:
        add_to_manifest(output_dir, {"commit": ", ".join([*noted, now])})


def commit() -> str:
    """The repository's commit, with ``-dirty`` where files were changed since; "" where that is not known."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        quiet = subprocess.DEVNULL
        return subprocess.check_output(command, cwd=_REPOSITORY, stderr=quiet, text=True, timeout=30).strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(scrubbed(json.dumps(dict(about), ensure_ascii=False)))
    return made


def read_json(path: Path) -> dict[str, Any]:
    """The object of a JSON file; empty where there is none that can be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file for people and programs, in a folder that is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
