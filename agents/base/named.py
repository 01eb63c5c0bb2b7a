"""Resolves names: of presets, profiles, stages, model kinds, judges and agents.

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
    match = _IMPORT_PATH.fullmatch(reference)
    return ImportPath(match[1], match[2]) if match else None


def look_up(
    reference: object,
    noun: str,  # "preset", as errors call it
    error: type[Exception],
    *,
    choices: Collection[str] = (),  # names of this project
    beside: Path | None = None,  # folder that relative paths start from, None: the working folder; only for ``files``
    files: bool = False,  # whether the path of a TOML file may be written, with or without suffix
    attribute: str = "",  # what ``module:`` is followed by, as errors call it; "": it may not be written
) -> str | Path | ImportPath:
    """Resolve a reference to a name of ``choices``, the path of an existing file, or an import path.

    Raises:
        Exception: ``error``, if the reference is none of these.
    """
    text = reference if isinstance(reference, str) else ""
    if text in choices:
        return text
    if files and is_path(text):
        path = (beside or Path()) / _with_suffix(text)
        if os.path.exists(path):  # noqa: PTH110 - Path.exists raises where a name is too long or a folder may not be read
            return path
        raise _unknown(text, noun, error, choices, files, attribute, f" (no file {shorten_name(path)})")
    if attribute and (place := import_path(text)):
        return place
    raise _unknown(reference, noun, error, choices, files, attribute)


def find_file(
    reference: object, noun: str, folder: Path, error: type[Exception], *, beside: Path | None = None
) -> Path:
    """Return the TOML file that a reference names in ``folder``, or whose path it is.

    A reference in another file is resolved relative to that file's folder, ``beside``.
    """
    paths = {
        path.stem: path for each in (beside, folder) if each is not None for path in sorted(each.glob(f"*{SUFFIX}"))
    }
    target = look_up(reference, noun, error, choices=paths, files=True, beside=beside)
    return target if isinstance(target, Path) else paths[str(target)]


def is_path(reference: str) -> bool:
    """Return whether a reference to a file is a path instead of a name."""
    return reference.endswith(SUFFIX) or "/" in reference or os.sep in reference


def parse_name(reference: str) -> str:
    """Return the name of a preset or profile referred to by name or path.

    The name of a path is the stem of the file, as in ``[profiles.NAME]``.
    """
    return Path(_with_suffix(reference)).stem if is_path(reference) else reference


def canonical(reference: str) -> str:
    """Make a reference to a file independent of the working folder: a path becomes absolute, a name stays."""
    return str(Path(_with_suffix(reference)).absolute()) if is_path(reference) else reference


def import_object(
    place: ImportPath, reference: str, noun: str, error: type[Exception], base: type | None = None
) -> Any:
    """Import the object at an import path.

    Raises:
        Exception: ``error``, if the object cannot be imported, or if ``base`` is given and it is no class derived from it.
    """
    module = import_module(place.module, reference, noun, error)
    try:
        value = attrgetter(place.attribute)(module)
    except AttributeError:
        here = [name for name, each in vars(module).items() if getattr(each, "__module__", None) == module.__name__]
        raise error(
            f"there is no {noun} {reference!r} ({place.module} has no {place.attribute}){_suggest(place.attribute, here)}"
            f"; it defines: {', '.join(here) or 'nothing'}"
        ) from None
    if base is not None and not (isinstance(value, type) and issubclass(value, base)):
        raise error(f"{noun} {reference!r} is no class derived from {base.__module__}.{base.__name__}")
    return value


def import_module(path: str, reference: str, noun: str, error: type[Exception]) -> Any:
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
                f"there is no {noun} {reference!r} (no module {path!r} can be imported; is its folder on PYTHONPATH?)"
            ) from cause
        raise error(f"{noun} {reference!r} needs a library that is not installed: {one_line(cause)}") from cause
    except Exception as cause:  # the module is not ours and may raise anything
        raise error(
            f"{noun} {reference!r}: importing {path} failed: {type(cause).__name__}: {one_line(cause)}"
        ) from cause


def _with_suffix(path: str) -> str:
    return path if path.endswith(SUFFIX) else f"{path}{SUFFIX}"


def _unknown(
    reference: object,
    noun: str,
    error: type[Exception],
    choices: Collection[str],
    files: bool,
    attribute: str,
    reason: str = "",
) -> Exception:
    named = f"; known: {', '.join(sorted(choices)) or 'none'}" if choices or files else ""
    ways = [f"the path of a {SUFFIX} file"] * files + [f"package.module:{attribute}"] * bool(attribute)
    if isinstance(reference, str):
        near, text = _suggest(parse_name(reference) if files else reference, choices), repr(shorten_name(reference))
    else:  # another value of a TOML file
        near, text = "", shorten_name(repr(reference))
    return error(f"there is no {noun} {text}{reason}{near}{named}; or write {' or '.join(ways)}")


def _suggest(name: str, choices: Collection[str]) -> str:
    near = get_close_matches(name, choices, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
