"""The outcome of one check, and the programs that checks start."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Check:
    """A check with its state, its finding and, if it did not pass, the remedy.

    ``decides`` tells whether a failure would end the submission: if such a check is skipped, readiness is unknown.
    """

    name: str
    state: Literal["ok", "warning", "failed", "skipped"]
    found: str
    fix: str = ""
    decides: bool = True


def check(name: str, good: bool, finding: str, fix: str) -> Check:
    """Return a check that passed or failed."""
    return Check(name, "ok", finding) if good else Check(name, "failed", finding, fix)


def run_check(name: str, make: Callable[[], Check | list[Check]]) -> list[Check]:
    """Run a check; one that raises counts as failed, so that the others go on."""
    try:
        result = make()
    except Exception as error:  # noqa: BLE001 - the table must stand whatever one check meets
        result = Check(name, "failed", f"{type(error).__name__}: {error}", "fix the error in the message")
    return result if isinstance(result, list) else [result]


def run_program(command: Sequence[str], seconds: float = 300.0, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program and capture its output."""
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **options)
