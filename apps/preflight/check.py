"""The outcome of one check, and the programs that checks start."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Check:
    """A check with its state, what it found and, if that is not good, what to do."""

    name: str
    state: Literal["ok", "warning", "failed", "skipped"]
    found: str
    fix: str = ""


def check(name: str, good: bool, found: str, fix: str) -> Check:
    """Return a check that passed or failed."""
    return Check(name, "ok", found) if good else Check(name, "failed", found, fix)


def run_check(name: str, make: Callable[[], Check | list[Check]]) -> list[Check]:
    """Run a check; one that raises counts as failed, so that the others go on."""
    try:
        made = make()
    except Exception as error:  # noqa: BLE001 - the table must stand whatever one check meets
        made = Check(name, "failed", f"{type(error).__name__}: {error}", "correct what the message names")
    return made if isinstance(made, list) else [made]


def run_program(command: Sequence[str], seconds: float = 300.0, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program and capture what it prints."""
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **options)
