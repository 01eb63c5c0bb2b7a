"""The outcome of one check, and the programs that checks start."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Check:
    """A check with its state, what it found and, if that is not good, what to do.

    ``decides`` says whether the submission may fail by what it looks at: if such a check is skipped, nobody knows whether it is ready.
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
        result = Check(name, "failed", f"{type(error).__name__}: {error}", "correct what the message names")
    return result if isinstance(result, list) else [result]


def run_program(command: Sequence[str], seconds: float = 300.0, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program and capture what it prints."""
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, **options)
