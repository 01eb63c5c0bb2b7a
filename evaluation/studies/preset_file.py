"""Fitted values put into a preset file; its comments and everything else stay as they are."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from evaluation.records import EvaluationError


def with_values(path: Path, profile: str, values: Mapping[str, float | str], comment: str) -> str:
    """The text of a preset with some settings replaced in the overlay of a profile, where what was fitted under it belongs.

    Args:
        path: The preset.
        values: Dotted settings, such as ``finalise.gate``.
        comment: Put behind each new value.

    Raises:
        EvaluationError: The file is missing or no TOML, or a name stands for something else in it.
    """
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EvaluationError(f"there is no preset {path}") from error
    except TOMLKitError as error:
        raise EvaluationError(f"{path} is not valid TOML: {error}") from error
    for key, value in values.items():
        *folders, last = "profiles", profile, *key.split(".")
        table: Any = document
        for name in folders:
            table = _inner(table, name, path, last=name == folders[-1])
        item = tomlkit.item(value)
        item.comment(comment)
        table[last] = item
    text = tomlkit.dumps(document)
    tomllib.loads(text)  # what is written can be read
    return text


def _inner(table: Any, name: str, path: Path, *, last: bool) -> Any:
    if name not in table:
        table[name] = tomlkit.table(is_super_table=not last)
    if not isinstance(table[name], Mapping):
        raise EvaluationError(f"{path}: {name} is no table")
    return table[name]
