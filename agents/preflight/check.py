"""The outcome of one check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "failed", "skipped"]


@dataclass(frozen=True)
class Check:
    """What was checked, what was found and, where that is not good, what to do."""

    name: str
    state: State
    found: str
    mend: str = ""


def passed(name: str, found: str) -> Check:
    """A check that is well."""
    return Check(name, "ok", found)


def failed(name: str, found: str, mend: str) -> Check:
    """A check that would cost the submission."""
    return Check(name, "failed", found, mend)


def skipped(name: str, found: str, mend: str) -> Check:
    """A check that could not be made here."""
    return Check(name, "skipped", found, mend)


def guarded(name: str, check: Callable[[], Check | list[Check]]) -> list[Check]:
    """The outcome of a check; one that breaks has failed, and the others go on."""
    try:
        made = check()
    except Exception as error:  # noqa: BLE001 - the table must stand whatever one check meets
        made = failed(name, f"{type(error).__name__}: {error}", "mend what the message names")
    return made if isinstance(made, list) else [made]
