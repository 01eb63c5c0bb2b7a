"""The image that the evaluator builds of a commit: what the Dockerfile copies of the files that git has and .dockerignore leaves."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from apps.preflight.check import Check, check, run_program

HOME = "/home/aicrowd"
"""Folder of the agent in the starter kit's image."""

_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
_SHOWN = 5  # files that a finding names


class ImageError(Exception):
    """The image cannot be put together; the message says why, and ``fix`` what to do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


@dataclass(frozen=True)
class Dockerfile:
    """What the last stage of a Dockerfile sets.

    Attributes:
        env: Its environment variables.
        user: User of the agent.
        folder: Working directory.
        copies: Sources and target of each file or folder that it copies from the repository; targets are absolute.
    """

    env: Mapping[str, str]
    user: str
    folder: str
    copies: tuple[tuple[tuple[str, ...], str], ...]


def read_dockerfile(path: Path) -> Dockerfile:
    """Read a Dockerfile.

    Raises:
        ImageError: There is none.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        raise ImageError("there is none", "git checkout Dockerfile") from None
    env: dict[str, str] = {}
    user, folder = "root", "/"
    copies: list[tuple[tuple[str, ...], str]] = []
    for name, rest in _read_instructions(text):
        rest = _expand(rest, env)
        if name == "FROM":
            env, user, folder, copies = {}, "root", "/", []
        elif name == "USER":
            user = rest
        elif name == "WORKDIR":
            folder = posixpath.normpath(posixpath.join(folder, rest))
        elif name in ("ENV", "ARG"):
            env |= _read_variables(rest)
        elif name in ("COPY", "ADD"):
            flags = [word for word in rest.split() if word.startswith("--")]
            words = _read_words(rest)
            if len(words) > 1 and not any(flag.startswith("--from") for flag in flags):
                target = posixpath.join(folder, words[-1])
                copies.append((tuple(words[:-1]), target))
    return Dockerfile(env, user, folder, tuple(copies))


def _read_instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Dockerfile, continued lines joined, without comments and here-documents."""
    lines = iter(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in lines:
        while line.rstrip().endswith("\\"):
            line = f"{line.rstrip()[:-1]} {next(lines, '')}"
        name, _, rest = line.strip().partition(" ")
        for end in re.findall(r"<<-?[\"']?(\w+)", rest) if name.upper() in ("RUN", "COPY", "ADD") else ():
            for inside in lines:
                if inside.strip() == end:
                    break
        if name:
            yield name.upper(), rest.strip()


def _expand(text: str, env: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: env.get(found[1] or found[3], found[2] or ""), text)


def _read_variables(rest: str) -> dict[str, str]:
    """Read ``A=b C="d e"``, or the old form ``A b``."""
    words = _split(rest)
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def _read_words(rest: str) -> list[str]:
    """Read sources and target of a copy, as words or as a JSON list, without its flags."""
    rest = re.sub(r"^(?:--\S+\s+)+", "", rest)
    if rest.startswith("["):
        try:
            return [str(word) for word in json.loads(rest)]
        except ValueError:
            return []
    return _split(rest)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quotation mark
        return text.split()


def read_ignored(text: str) -> Callable[[str], bool]:
    """Return the function that says of a path whether these lines of ``.dockerignore`` leave it out; the last pattern that fits decides.

    Source: the reference of ``docker build``, section *.dockerignore files*.
    """
    rules: list[tuple[re.Pattern[str], bool]] = []
    for line in text.splitlines():
        pattern = line.strip()
        if not pattern or line.startswith("#"):
            continue
        keeps = pattern.startswith("!")
        cleaned = posixpath.normpath(pattern.lstrip("!").strip()).lstrip("/")
        rules.append((re.compile(f"{_translate(cleaned)}(?:/.*)?", re.DOTALL), not keeps))

    def ignores(path: str) -> bool:
        fitting = [leaves_out for pattern, leaves_out in rules if pattern.fullmatch(path)]
        return bool(fitting) and fitting[-1]

    return ignores


def _translate(pattern: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(known.get(part) or (part if part.startswith("[") else re.escape(part)) for part in parts)


def check_commit(root: Path) -> list[Check]:
    """Check that the commit has what lies in the folder: only what git has is submitted."""
    name = "committed"
    status = run_program(["git", "-C", str(root), "status", "--porcelain", "-z", "--untracked-files=all"])
    head = run_program(["git", "-C", str(root), "rev-parse", "--short", "HEAD"])
    if status.returncode:
        return [Check(name, "skipped", "not a git repository", "run it in the clone to submit")]
    if head.returncode:
        return [Check(name, "failed", "there is no commit", "git add . && git commit")]
    entries = [entry for entry in status.stdout.split("\0") if entry[2:3] == " "]
    new = [entry[3:] for entry in entries if entry.startswith("??")]
    edited = [entry[3:] for entry in entries if not entry.startswith("??")]
    findings = [f"{which}: {_shorten(files)}" for which, files in (("edited", edited), ("not in git", new)) if files]
    tags = run_program(["git", "-C", str(root), "tag", "--points-at", "HEAD"]).stdout.split()
    submitted = [tag for tag in tags if tag.startswith("submission-")]
    commit = f"{head.stdout.strip()}{f', tag {submitted[0]}' if submitted else ', no tag submission-... yet'}"
    found = "; ".join(findings) + f" (against commit {commit})" if findings else commit
    words = " ".join(map(shlex.quote, [*edited, *new][:_SHOWN]))
    fix = f"git add {words} && git commit, or name them in .gitignore: what has no commit is not submitted"
    return [check(name, not findings, found, fix)]


def _shorten(files: list[str]) -> str:
    return ", ".join(files[:_SHOWN]) + f" and {len(files) - _SHOWN} more" * (len(files) > _SHOWN)


def check_out(root: Path, target: Path) -> None:
    """Write the files of the commit into a new folder, as a clone of it has them (large files by their filters).

    Raises:
        ImageError: There is no commit.
    """
    target.mkdir(parents=True)
    env = {**os.environ, "GIT_INDEX_FILE": str(target.with_suffix(".index"))}
    for command in (["read-tree", "HEAD"], ["checkout-index", "--all", f"--prefix={target}/"]):
        process = run_program(["git", "-C", str(root), *command], env=env)
        if process.returncode:
            reason = (process.stderr.strip().splitlines() or ["git gives no reason"])[-1]
            raise ImageError(
                f"the commit cannot be checked out: {reason}", "git add . && git commit, in a git repository"
            )


def build_image(checkout: Path, target: Path) -> Path:
    """Copy what the Dockerfile copies, but for what .dockerignore leaves out, and return the agent's folder in the image.

    Raises:
        ImageError: There is no Dockerfile.
    """
    dockerfile = read_dockerfile(checkout / "Dockerfile")
    ignored = checkout / ".dockerignore"
    ignores = read_ignored(ignored.read_text(encoding="utf-8") if ignored.is_file() else "")
    listed = (path.relative_to(checkout).as_posix() for path in sorted(checkout.rglob("*")) if path.is_file())
    files = [name for name in listed if not ignores(name)]
    home = target / HOME.lstrip("/")
    home.mkdir(parents=True, exist_ok=True)
    for sources, place in dockerfile.copies:
        is_folder = (target / place.lstrip("/")).is_dir()
        for source in sources:
            into_folder = place.endswith(("/", "/.")) or len(sources) > 1 or is_folder
            for name, below in _select(files, posixpath.normpath(source).lstrip("/")):
                is_file = below == ""
                end = posixpath.join(place, PurePosixPath(name).name if is_file and into_folder else below)
                copy = target / posixpath.normpath(end).lstrip("/")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(checkout / name, copy)
    return home


def _select(files: list[str], source: str) -> Iterator[tuple[str, str]]:
    """Yield the files that a source of a copy names, each with its path below the folder that it names; "" for a file itself."""
    if source == ".":
        yield from ((name, name) for name in files)
        return
    depth = source.count("/") + 1
    for name in files:
        parts = name.split("/")
        if len(parts) >= depth and all(map(fnmatchcase, parts[:depth], source.split("/"))):
            yield name, "/".join(parts[depth:])
