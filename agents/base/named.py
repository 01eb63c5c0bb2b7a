"""Resolves what is chosen by name: presets, profiles, stages, model kinds, judges and agents.

A reference is a name of this project, the path of a file, or ``package.module:attribute`` for a definition anywhere else. Every error has
the same form, in one line: what was not found and why, the nearest name, the known names, and what else is allowed.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Collection
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from agents.base.files import one_line, shortened

SUFFIX = ".toml"
_IDENTIFIER = r"[^\W\d]\w*"
_IMPORT_PATH = re.compile(rf"({_IDENTIFIER}(?:\.{_IDENTIFIER})*):({_IDENTIFIER}(?:\.{_IDENTIFIER})*)")


class ImportPath(NamedTuple):
    """``package.module:attribute``, not yet imported."""

    module: str
    attribute: str

    def __str__(self) -> str:
        """As it is written."""
        return f"{self.module}:{self.attribute}"


def import_path(reference: str) -> ImportPath | None:
    """A reference as ``package.module:attribute``; None where it is written in another way."""
    found = _IMPORT_PATH.fullmatch(reference)
    return ImportPath(found[1], found[2]) if found else None


def look_up(
    reference: object,
    what: str,  # "preset", as errors call it
    error: type[Exception],
    *,
    known: Collection[str] = (),  # names of this project
    beside: Path | None = None,  # folder that relative paths start from, None: the working folder; only for ``files``
    files: bool = False,  # whether the path of a TOML file may be written, with or without suffix
    attribute: str = "",  # what ``module:`` is followed by, as errors call it; "": it may not be written
) -> str | Path | ImportPath:
    """What a reference resolves to: a name of ``known``, a file that is there, or an import path; ``error`` where it is none of these."""
    text = reference if isinstance(reference, str) else ""
    if text in known:
        return text
    if files and is_path(text):
        path = (beside or Path()) / _with_suffix(text)
        if os.path.exists(path):  # noqa: PTH110 - Path.exists raises where a name is too long or a folder may not be read
            return path
        raise _unknown(text, what, error, known, files, attribute, f" (no file {shortened(path)})")
    if attribute and (place := import_path(text)):
        return place
    raise _unknown(reference, what, error, known, files, attribute)


def find_file(
    reference: object, what: str, folder: Path, error: type[Exception], *, beside: Path | None = None
) -> Path:
    """The TOML file of a reference: of ``folder`` by name, else by path; from another file, relative to its folder ``beside``."""
    known = {
        path.stem: path for each in (beside, folder) if each is not None for path in sorted(each.glob(f"*{SUFFIX}"))
    }
    found = look_up(reference, what, error, known=known, files=True, beside=beside)
    return found if isinstance(found, Path) else known[str(found)]


def is_path(reference: str) -> bool:
    """Whether a reference to a file is a path, not a name."""
    return reference.endswith(SUFFIX) or "/" in reference or os.sep in reference


def name_of(reference: str) -> str:
    """The name of a preset or profile that is referred to by name or path, as ``[profiles.NAME]`` has it: the stem of its file."""
    return Path(_with_suffix(reference)).stem if is_path(reference) else reference


def canonical(reference: str) -> str:
    """A reference to a file so that it holds in any working folder: a name as it is, a path made absolute."""
    return str(Path(_with_suffix(reference)).absolute()) if is_path(reference) else reference


def imported(place: ImportPath, reference: str, what: str, error: type[Exception], base: type | None = None) -> Any:
    """The object at an import path; ``error`` where it cannot be imported, or is no class derived from ``base`` if that is given."""
    module = import_module(place.module, reference, what, error)
    try:
        value = attrgetter(place.attribute)(module)
    except AttributeError:
        here = [name for name, each in vars(module).items() if getattr(each, "__module__", None) == module.__name__]
        raise error(
            f"there is no {what} {reference!r} ({place.module} has no {place.attribute}){_meant(place.attribute, here)}"
            f"; it defines: {', '.join(here) or 'nothing'}"
        ) from None
    if base is not None and not (isinstance(value, type) and issubclass(value, base)):
        raise error(f"{what} {reference!r} is no class derived from {base.__module__}.{base.__name__}")
    return value


def import_module(path: str, reference: str, what: str, error: type[Exception]) -> Any:
    """The module of a reference; ``error`` where there is none, a library that it needs is not installed, or it fails when imported."""
    try:
        return importlib.import_module(path)
    except ImportError as cause:
        missing = isinstance(cause, ModuleNotFoundError) and import_path(reference)
        if missing and cause.name and f"{path}.".startswith(f"{cause.name}."):
            raise error(
                f"there is no {what} {reference!r} (no module {path!r} can be imported; is its folder on PYTHONPATH?)"
            ) from cause
        raise error(f"{what} {reference!r} needs a library that is not installed: {one_line(cause)}") from cause
    except Exception as cause:  # the module is not ours and may raise anything
        raise error(
            f"{what} {reference!r}: importing {path} failed: {type(cause).__name__}: {one_line(cause)}"
        ) from cause


def _with_suffix(path: str) -> str:
    return path if path.endswith(SUFFIX) else f"{path}{SUFFIX}"


def _unknown(
    reference: object,
    what: str,
    error: type[Exception],
    known: Collection[str],
    files: bool,
    attribute: str,
    reason: str = "",
) -> Exception:
    named = f"; known: {', '.join(sorted(known)) or 'none'}" if known or files else ""
    ways = [f"the path of a {SUFFIX} file"] * files + [f"package.module:{attribute}"] * bool(attribute)
    if isinstance(reference, str):
        near, said = _meant(name_of(reference) if files else reference, known), repr(shortened(reference))
    else:  # another value of a TOML file
        near, said = "", shortened(repr(reference))
    return error(f"there is no {what} {said}{reason}{near}{named}; or write {' or '.join(ways)}")


def _meant(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
