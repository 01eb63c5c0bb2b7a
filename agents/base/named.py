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

from agents.base.files import one_line, shorten_name

SUFFIX = ".toml"
_IDENTIFIER = r"[^\W\d]\w*"
_IMPORT_PATH = re.compile(rf"({_IDENTIFIER}(?:\.{_IDENTIFIER})*):({_IDENTIFIER}(?:\.{_IDENTIFIER})*)")


class ImportPath(NamedTuple):
    """``package.module:attribute``, not yet imported."""

    module: str
    attribute: str

    def __str__(self) -> str:
        """Format the path as a user writes it."""
        return f"{self.module}:{self.attribute}"


def import_path(reference: str) -> ImportPath | None:
    """Parse a reference written as ``package.module:attribute``.

    Returns:
        None if it is written in another way.
    """
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
    """Resolve a reference to a name of ``known``, the path of an existing file, or an import path.

    Raises:
        Exception: ``error``, if the reference is none of these.
    """
    text = reference if isinstance(reference, str) else ""
    if text in known:
        return text
    if files and is_path(text):
        path = (beside or Path()) / _with_suffix(text)
        if os.path.exists(path):  # noqa: PTH110 - Path.exists raises where a name is too long or a folder may not be read
            return path
        raise _unknown(text, what, error, known, files, attribute, f" (no file {shorten_name(path)})")
    if attribute and (place := import_path(text)):
        return place
    raise _unknown(reference, what, error, known, files, attribute)


def find_file(
    reference: object, what: str, folder: Path, error: type[Exception], *, beside: Path | None = None
) -> Path:
    """Return the TOML file that a reference names in ``folder``, or whose path it is.

    A reference in another file is resolved relative to that file's folder, ``beside``.
    """
    known = {
        path.stem: path for each in (beside, folder) if each is not None for path in sorted(each.glob(f"*{SUFFIX}"))
    }
    found = look_up(reference, what, error, known=known, files=True, beside=beside)
    return found if isinstance(found, Path) else known[str(found)]


def is_path(reference: str) -> bool:
    """Return whether a reference to a file is a path instead of a name."""
    return reference.endswith(SUFFIX) or "/" in reference or os.sep in reference


def name_of(reference: str) -> str:
    """Return the name of a preset or profile that is referred to by name or path.

    The name of a path is the stem of the file, as in ``[profiles.NAME]``.
    """
    return Path(_with_suffix(reference)).stem if is_path(reference) else reference


def canonical(reference: str) -> str:
    """Make a reference to a file independent of the working folder: a path becomes absolute, a name stays."""
    return str(Path(_with_suffix(reference)).absolute()) if is_path(reference) else reference


def import_object(
    place: ImportPath, reference: str, what: str, error: type[Exception], base: type | None = None
) -> Any:
    """Import the object at an import path.

    Raises:
        Exception: ``error``, if the object cannot be imported, or if ``base`` is given and it is no class derived from it.
    """
    module = import_module(place.module, reference, what, error)
    try:
        value = attrgetter(place.attribute)(module)
    except AttributeError:
        here = [name for name, each in vars(module).items() if getattr(each, "__module__", None) == module.__name__]
        raise error(
            f"there is no {what} {reference!r} ({place.module} has no {place.attribute}){_suggest(place.attribute, here)}"
            f"; it defines: {', '.join(here) or 'nothing'}"
        ) from None
    if base is not None and not (isinstance(value, type) and issubclass(value, base)):
        raise error(f"{what} {reference!r} is no class derived from {base.__module__}.{base.__name__}")
    return value


def import_module(path: str, reference: str, what: str, error: type[Exception]) -> Any:
    """Import the module of a reference.

    Raises:
        Exception: ``error``, if there is no such module, a library that it needs is not installed, or importing it fails.
    """
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
        near, said = _suggest(name_of(reference) if files else reference, known), repr(shorten_name(reference))
    else:  # another value of a TOML file
        near, said = "", shorten_name(repr(reference))
    return error(f"there is no {what} {said}{reason}{near}{named}; or write {' or '.join(ways)}")


def _suggest(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
