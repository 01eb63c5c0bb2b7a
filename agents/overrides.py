"""Settings changed from the command line: ``queries.split=none``."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from agents.settings import Settings, SettingsError

NO_VALUE = "null"
"""What stands for "no value" (TOML has no word for it): ``finalise.most_idk=null``."""


def overridden(settings: Settings, assignments: Sequence[str]) -> Settings:
    """The settings with some of them replaced; a later assignment of the same key wins.

    Args:
        settings: A preset as it runs under its profile.
        assignments: ``KEY=VALUE`` with a dotted key. The value is TOML; what is no TOML is taken as text, so that
            ``queries.split=none`` needs no quotes, and ``null`` is no value.

    Raises:
        SettingsError: There is no such setting (names those there are), or the value does not fit it.
    """
    table = settings.model_dump()
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator or not key.strip():
            raise SettingsError(f"{assignment!r} is no assignment; write KEY=VALUE, such as queries.split=none")
        _put(settings, table, key.strip(), _value(text.strip()))
        try:
            Settings.model_validate(table)
        except ValidationError as error:
            found = error.errors()[0]
            raise SettingsError(f"{assignment}: {found['msg'].lower()}") from error
    return Settings.model_validate(table)


def _value(text: str) -> Any:
    if text == NO_VALUE:
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _put(model: BaseModel, table: dict[str, Any], key: str, value: Any) -> None:
    """Replace the setting of a dotted key in the dumped ``table`` of ``model``."""
    inside = ""
    name, _, rest = key.partition(".")
    while rest and isinstance(inner := getattr(model, name, None), BaseModel):
        model, table, inside = inner, table[name], f"{inside}.{name}".strip(".")
        name, _, rest = rest.partition(".")
    known = type(model).model_fields
    if rest or name not in known:
        raise SettingsError(
            f"there is no setting {key!r}; known{f' in {inside}' if inside else ''}: {', '.join(known)}"
        )
    table[name] = value
