"""The outcome of one check, and the programs that checks start."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Check:
    """What was checked, what was found and, where that is not good, what to do."""

    name: str
    state: Literal["ok", "warning", "failed", "skipped"]
    found: str
    fix: str = ""


def check(name: str, good: bool, found: str, fix: str) -> Check:
    """A check that passed or failed."""
    return Check(name, "ok", found) if good else Check(name, "failed", found, fix)


def guarded(name: str, make: Callable[[], Check | list[Check]]) -> list[Check]:
    """The outcome of a check; one that breaks has failed, and the others go on."""
    try:
        made = make()
    except Exception as error:  # noqa: BLE001 - the table must stand whatever one check meets
        made = Check(name, "failed", f"{type(error).__name__}: {error}", "correct what the message names")
    return made if isinstance(made, list) else [made]


def output_of(command: Sequence[str], seconds: float = 300.0, **options: Any) -> subprocess.CompletedProcess[str]:
    """What a program did and said."""
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **options)
