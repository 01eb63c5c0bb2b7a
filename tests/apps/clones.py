"""Clones of this repository, and forks, as a participant commits them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from agents.profiles.profile import ROOT

SUBMITTED = (
    "agents",
    "presets",
    "profiles",
    "prompts",
    "Dockerfile",
    ".dockerignore",
    "requirements.txt",
    "aicrowd.json",
)


def git(folder: Path, *words: str) -> None:
    """Run git in a folder, as somebody."""
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def commit(folder: Path) -> None:
    """Commit everything in a repository."""
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "--allow-empty", "-m", "change")


def write_clone(folder: Path) -> Path:
    """Write a repository with the files of this one that the image has."""
    folder.mkdir()
    for name in SUBMITTED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    git(folder, "init", "-q")
    commit(folder)
    return folder
