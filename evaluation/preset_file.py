"""Fitted values put into a preset file; its comments and everything else stay as they are."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from evaluation.records import EvaluationError

MAIN = "main"


def table_of(path: Path, profile: str) -> str:
    """Where a preset keeps what was fitted under a profile: its overlay ``profiles.NAME`` where it has one, else ``main``.

    Raises:
        EvaluationError: The file is missing or no TOML.
    """
    overlays = _document(path).get("profiles", {})
    return f"profiles.{profile}" if isinstance(overlays, Mapping) and profile in overlays else MAIN


def with_values(path: Path, table: str, values: Mapping[str, float | None], comment: str) -> str:
    """The text of a preset with some settings replaced.

    Args:
        path: The preset.
        table: ``main``, or ``profiles.NAME`` for an overlay.
        values: Dotted settings, such as ``finalise.min_confidence``; None takes a setting out.
        comment: Put behind each new value.

    Raises:
        EvaluationError: The file is missing or no TOML, or a name stands for something else in it.
    """
    document = _document(path)
    target: Any = document
    for name in () if table == MAIN else table.split("."):
        target = _inner(target, name, path)
    for key, value in values.items():
        *folders, last = key.split(".")
        if value is None:
            _take_out(target, folders, last)
            continue
        inner = target
        for name in folders:
            inner = _inner(inner, name, path)
        item = tomlkit.item(value)
        item.comment(comment)
        inner[last] = item
    text = tomlkit.dumps(document)
    tomllib.loads(text)  # what is written can be read
    return text


def _document(path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EvaluationError(f"there is no preset {path}") from error
    except TOMLKitError as error:
        raise EvaluationError(f"{path} is not valid TOML: {error}") from error


def _inner(table: Any, name: str, path: Path) -> Any:
    if name not in table:
        table[name] = tomlkit.table()
    if not isinstance(table[name], Mapping):
        raise EvaluationError(f"{path}: {name} is no table")
    return table[name]


def _take_out(table: Any, folders: list[str], last: str) -> None:
    for name in folders:
        if not isinstance(table, Mapping) or name not in table:
            return
        table = table[name]
    if last in table:
        del table[last]
