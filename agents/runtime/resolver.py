"""Whether requirements can be installed: a dry run of uv's resolver, which downloads metadata alone.

Run: ``python -m agents.runtime.resolver requirements.txt requirements-cpu.txt`` (``make constraints``).
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PYTHON, PLATFORM = "3.11.13", "x86_64-manylinux_2_28"
"""What the image of the Dockerfile has."""

_UNREACHABLE = ("Failed to fetch", "error sending request", "dns error", "Connection refused", "client error")
_SECONDS = 300


@dataclass(frozen=True)
class Resolved:
    """``ok`` None: it could not be found out, for want of the resolver or of a package index."""

    ok: bool | None
    said: str


def resolve(requirements: Path) -> Resolved:
    """Resolve a requirements file for the image's Python and platform."""
    if importlib.util.find_spec("uv") is None:
        return Resolved(None, "uv is not installed (requirements/dev.txt has it)")
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate",
        "--python-version", PYTHON, "--python-platform", PLATFORM, str(requirements),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Resolved(None, f"the package index did not answer within {_SECONDS} s")
    if done.returncode == 0:
        return Resolved(True, f"{sum('==' in line for line in done.stdout.splitlines())} packages")
    if any(sign in done.stderr for sign in _UNREACHABLE):
        return Resolved(None, "no package index can be reached")
    return Resolved(False, " ".join(done.stderr.split()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Resolve each file; 1 where one cannot be installed."""
    bad = False
    for name in arguments if arguments is not None else sys.argv[1:]:
        found = resolve(Path(name))
        state = {True: "ok", False: "FAILED", None: "SKIPPED"}[found.ok]
        print(f"{name}: {state}: {found.said}")
        bad = bad or found.ok is False
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
