"""run.json: the settings and versions that made the answers in a folder. A run is not resumed with other ones."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agents.base.data_folder import ROOT, is_installed
from agents.base.files import format_os_error, shorten_name, write_whole
from agents.base.secrets import scrub_json
from evaluation.files.responses import parse_json_object
from evaluation.records import EvaluationError

MANIFEST = "run.json"
WITHOUT_PICTURE = "without_picture"
"""Key in run.json and the scores of the turns without their picture (``MissingPictures``)."""
SPLIT, FULL_QUERIES = "split", "full_queries"
"""Settings in run.json: the split of the indices, and a hash of the queries for the web."""
INDEX = "index"
"""Revisions of the searched indices in run.json."""
_NOTED_LATER = frozenset({"date", "commit", "models", WITHOUT_PICTURE})  # a run that is resumed may have others
COMMIT, WORDS = "Commit", "Words"
"""Text chunks of a PNG (``describe_picture``)."""

log = logging.getLogger(__name__)


def read_manifest(output_dir: Path) -> dict[str, Any]:
    """Return the settings and versions of the answers in a folder; empty if unknown."""
    return read_json(output_dir / MANIFEST)


def list_models(about: Mapping[str, Any]) -> dict[str, str]:
    """Return the models that a run noted, by role; none if they are malformed."""
    models = about.get("models")
    return {str(role): str(model) for role, model in models.items() if model} if isinstance(models, Mapping) else {}


def write_manifest(output_dir: Path, about: Mapping[str, Any], resume: bool) -> None:
    """Write the settings and versions of a run into run.json.

    Args:
        output_dir: Folder of the run.
        about: Settings and versions by name.
        resume: Check that the folder's answers were made with the same, and keep its other notes (``add_to_manifest``).

    Raises:
        EvaluationError: The folder's answers were made with other settings, which the message names, or run.json cannot be read.
    """
    about = _to_json_values(about)
    if resume:
        earlier = _read_earlier(output_dir / MANIFEST)
        if earlier:
            _refuse_other_settings(output_dir, earlier, about)
        about = {**earlier, **about}
    write_json(output_dir / MANIFEST, about)


def _refuse_other_settings(output_dir: Path, earlier: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    names = [name for name in {**earlier, **about} if name not in _NOTED_LATER]
    changed = [name for name in names if earlier.get(name) != about.get(name)]
    if not changed:
        return
    other = "; ".join(
        f"{name}: {_describe(earlier.get(name))} then, {_describe(about.get(name))} now" for name in changed
    )
    remedy = "resume with those"
    if INDEX in changed:
        remedy += "; after a change of the indexed sources, ask everything again: without --resume, or in another --output-dir"
    raise EvaluationError(f"the answers in {output_dir} were made with other settings ({other}); {remedy}")


def _describe(value: object) -> str:
    return "unset" if value in (None, "") else str(value)


def _read_earlier(path: Path) -> dict[str, Any]:
    try:
        return parse_json_object(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise EvaluationError(
            f"{path} is {error}, so the settings of the answers beside it are unknown; remove it to resume without this check"
        ) from error


def add_to_manifest(output_dir: Path, more: Mapping[str, Any]) -> None:
    """Add facts that become known during a run or change when it is resumed; nothing compares them."""
    write_json(output_dir / MANIFEST, {**read_manifest(output_dir), **_to_json_values(more)})


def record_start(output_dir: Path) -> None:
    """Note the day and the commit of the code in run.json.

    A run resumed later, or after a change, has several of them, in order and joined by commas.
    """
    about = read_manifest(output_dir)
    for name, now in (("date", today()), ("commit", current_commit())):
        noted = [each for each in str(about.get(name, "")).split(", ") if each]
        if now and now not in noted:
            add_to_manifest(output_dir, {name: ", ".join([*noted, now])})


def today() -> str:
    """Return the current UTC date, ISO 8601."""
    return datetime.now(UTC).date().isoformat()


def current_commit(folder: Path | None = None) -> str:
    """Return the commit of a repository, by default this one, with ``-dirty`` if files were changed since; "" if unknown.

    An installation has none, although the environment that it is in may be within another repository.
    """
    if folder is None:
        if is_installed():
            return ""
        folder = ROOT
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        quiet = subprocess.DEVNULL
        return subprocess.check_output(command, cwd=folder, stderr=quiet, text=True, timeout=30).strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def describe_picture(words: Sequence[str]) -> dict[str, str]:
    """Return the text chunks of a PNG: the commit that it is made by, and words that it shows, as a list in JSON."""
    return {COMMIT: current_commit(), WORDS: json.dumps(words, ensure_ascii=False)}


def _to_json_values(about: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = scrub_json(json.loads(json.dumps(dict(about))))
    return values


def read_json(path: Path) -> dict[str, Any]:
    """Read the object of a JSON file.

    Returns:
        The object. A missing file gives an empty one; so does an unreadable file, with a warning.
    """
    try:
        return parse_json_object(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning(
            "%s is left out: %s", shorten_name(path), format_os_error(error) if isinstance(error, OSError) else error
        )
        return {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file for people and programs, whole, and make its folder if missing."""
    write_whole(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n", durable=True)
