"""Card of a run: when and with what its answers were made, and who judged them. It has the same words on every machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from agents.base.named import parse_name
from evaluation.files.manifest import list_models

_FIELDS = ("date", "commit", "preset", "profile", "models", "dataset", "turns", "judge", "rules")
_DIRTY = "-dirty"
_FOLDERS = re.compile(
    r"(?<![\w./])/(?!/)(?:[^\s/]+/)+"
)  # of a path within a text; not of a URL or of ORGANISATION/MODEL


def make_card(abouts: Sequence[Mapping[str, Any]], turns: int) -> dict[str, str]:
    """Make the card of runs that answered some turns together, by field.

    Several values of a field are all listed, in their order. Paths are cut to the names of their files, those of preset and profile to
    the names without suffix.

    Args:
        abouts: run.json of each run, with judge and rules.
        turns: Number of turns.
    """
    fields: dict[str, list[str]] = {name: [] for name in _FIELDS}
    models: dict[str, list[str]] = {}
    for about in abouts:
        for name in ("preset", "profile"):
            fields[name].append(parse_name(str(about.get(name) or "")))
        for name in ("dataset", "judge", "rules"):
            fields[name].append(_strip_folders(about.get(name) or ""))
        for name in ("date", "commit"):  # a run that was resumed has several
            fields[name] += str(about.get(name) or "").split(", ")
        for role, model in list_models(about).items():
            models.setdefault(role, []).append(_strip_folders(model))
    fields["commit"] = [_describe_commit(each) for each in fields["commit"]]
    fields["models"] = [f"{role.replace('_', ' ')} {_join_distinct(names)}" for role, names in models.items()]
    fields["turns"] = [str(turns)]
    card = {name: _join_distinct(values, "; " if name == "models" else ", ") for name, values in fields.items()}
    return {name: value for name, value in card.items() if value}


def join_manifests(abouts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Join run.json of runs that answered some turns together: of a value that differs all are listed, as on a card."""
    names = dict.fromkeys(name for about in abouts for name in about)
    return {name: _join_values([about.get(name) for about in abouts]) for name in names}


def _join_values(values: Sequence[Any]) -> Any:
    if all(value == values[0] for value in values):
        return values[0]
    if tables := [value for value in values if isinstance(value, Mapping)]:
        return join_manifests(tables)
    return _join_distinct([str(value) for value in values if value not in (None, "")])


def omit_card_fields(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run that its card lacks."""
    return {name: value for name, value in about.items() if name not in _FIELDS and value not in (None, "", [])}


def _join_distinct(values: Sequence[str], between: str = ", ") -> str:
    return between.join(dict.fromkeys(filter(None, values)))


def _strip_folders(value: object) -> str:
    text = str(value)
    return PurePath(text).name if PurePath(text).is_absolute() else _FOLDERS.sub("", text)


def _describe_commit(noted: str) -> str:
    return f"{noted.removesuffix(_DIRTY)} with changes" if noted.endswith(_DIRTY) else noted
