"""``make lock-models``: ask the hub for the commit of every model that profiles and ``aicrowd.json`` name, and write it beside the name.

python -m apps.preflight.lock_models            # pin each model without a commit
python -m apps.preflight.lock_models --update   # move all to the newest commits
python -m apps.preflight.lock_models --check    # only print models without one
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import Field
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable, Table

from agents.base.command_options import Options
from agents.base.files import format_os_error, one_line, parse_json, write_whole
from agents.base.hub_reach import no_hub
from agents.base.printing import print_error, print_text
from agents.base.revisions import LOCK_COMMAND, MAIN, NamedWeights, is_commit, named_weights
from agents.profiles.profile import PROFILES
from agents.profiles.weights import SUBMISSION

_SECONDS = 10.0  # a hub that does not answer by then is taken for out of reach


class LockError(RuntimeError):
    """A file cannot be read, or the hub has no answer; the message says what to do."""


@dataclass
class LockedFile:
    """A profile or ``aicrowd.json``, with the weights that it names."""

    path: Path
    content: Any  # the TOML document, or the JSON value
    weights: list[NamedWeights] = field(default_factory=list)

    def write(self) -> None:
        """Write the file, its comments and its order kept."""
        toml = self.path.suffix == ".toml"
        write_whole(self.path, tomlkit.dumps(self.content) if toml else json.dumps(self.content, indent=2) + "\n")


class LockOptions(Options):
    """Write the commit of every model of the hub that profiles and aicrowd.json name.

    The status is 0 if each has one in the end, 1 if one has none, or a file or the hub cannot be read.
    """

    check: bool = Field(False, description="only print the models without a commit, and ask no hub")
    update: bool = Field(False, description="move pinned models to the newest commit of main too")
    profiles: Path = Field(PROFILES, description="folder of the profiles")
    submission: Path = Field(SUBMISSION, description="the submission's aicrowd.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Pin the models, or say which have no commit."""
    options = LockOptions.parse(arguments)
    try:
        files = read_files(options.profiles, options.submission)
        if options.check:
            return _report(files)
        return lock(files, update=options.update)
    except (LockError, ValueError) as error:
        print_error(f"error: {one_line(error)}")
    except OSError as error:
        print_error(f"error: {format_os_error(error)}")
    return 1


def read_files(profiles: Path, submission: Path) -> list[LockedFile]:
    """Read the profiles of a folder, and ``aicrowd.json`` if it is there.

    Raises:
        LockError: One is malformed.
        OSError: One cannot be read.
    """
    files = [_read_profile(path) for path in sorted(profiles.glob("*.toml"))]
    if not files:
        raise LockError(f"{profiles} has no profile; name their folder with --profiles")
    if submission.is_file():
        files.append(_read_submission(submission))
    return files


def lock(files: Sequence[LockedFile], *, update: bool = False) -> int:
    """Write a commit for each model without one, or for all, print them, and return the exit status.

    A model pinned in one place gets the same commit in the others.

    Raises:
        LockError: No hub can be asked; nothing was written.
        OSError: A file cannot be written.
    """
    every = [weights for file in files for weights in file.weights]
    commits, failures = dict[str, str](), list[str]()
    for repository in sorted({each.repository for each in every if update or not each.pinned}):
        of_it = [each.revision for each in every if each.repository == repository]
        pinned = set() if update else set(filter(is_commit, of_it))
        named = {revision for revision in of_it if revision and not is_commit(revision)} - {MAIN}
        if len(pinned) > 1 or len(named) > 1:
            failures.append(
                f"{repository}: several revisions are named ({', '.join(sorted(pinned or named))}); choose one"
            )
            continue
        if not pinned and not commits and (why := no_hub()) is not None:
            raise LockError(f"{why}, so nothing was written: run {LOCK_COMMAND} where the hub can be reached")
        try:
            commits[repository] = pinned.pop() if pinned else resolve_commit(repository, *named)
        except LookupError as error:
            failures.append(f"{repository}: {one_line(error)}")
    for file in files:
        changed = [each for each in file.weights if (update or not each.pinned) and each.repository in commits]
        for each in changed:
            _pin(each, commits[each.repository])
            print_text(f"{file.path.name}: {each.repository}@{commits[each.repository]}")
        if changed:
            file.write()
    for failure in failures:
        print_error(f"error: {failure}")
    return int(bool(failures))


def resolve_commit(repository: str, revision: str = MAIN) -> str:
    """Ask the hub for the commit that a branch or tag of a model points to.

    Raises:
        LookupError: The hub does not have that model or revision, or not for this account.
        LockError: No hub can be asked.
    """
    import httpx
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    try:
        commit = HfApi().model_info(repository, revision=revision, timeout=_SECONDS, expand=["sha"]).sha
    except RevisionNotFoundError as error:
        raise LookupError(f"the hub has no revision {revision!r} of it") from error
    except RepositoryNotFoundError as error:
        raise LookupError("private, or not on the hub; correct its name, or log in: hf auth login") from error
    except (OSError, httpx.HTTPError) as error:  # of requests and httpx
        raise LockError(
            f"{constants.ENDPOINT} does not answer ({one_line(error)[:200] or type(error).__name__}), so nothing was written: "
            f"run {LOCK_COMMAND} again"
        ) from error
    if commit is None or not is_commit(commit):
        raise LookupError(f"the hub names no commit of it, but {commit!r}")
    return commit


def _report(files: Sequence[LockedFile]) -> int:
    """Print models without a commit, and models with two commits.

    Returns:
        1 if there are any, else 0.
    """
    problems = [
        f"{file.path.name}: {each.repository} has {each.revision or 'no revision'}"
        for file in files
        for each in file.weights
        if not each.pinned
    ]
    commits: dict[str, set[str]] = {}
    for file in files:
        for each in filter(lambda each: each.pinned, file.weights):
            commits.setdefault(each.repository, set()).add(each.revision)
    problems += [
        f"{name} has {len(revisions)} commits: {', '.join(sorted(revisions))}"
        for name, revisions in commits.items()
        if len(revisions) > 1
    ]
    for line in dict.fromkeys(problems):
        print_text(line)
    print_text(f"pin them: {LOCK_COMMAND}" if problems else f"{len(commits)} models, each pinned to a commit")
    return int(bool(problems))


def _read_profile(path: Path) -> LockedFile:
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
    except (TOMLKitError, UnicodeDecodeError) as error:
        raise LockError(f"{path} is not valid TOML: {one_line(error)}") from error
    return LockedFile(path, document, list(named_weights(document)))


def _read_submission(path: Path) -> LockedFile:
    try:
        content = parse_json(path.read_bytes())
    except ValueError as error:
        raise LockError(f"{path} is no JSON: {one_line(error)}") from error
    models = content.get("hf_models") if isinstance(content, dict) else None
    if not isinstance(models, list) or not all(isinstance(each, dict) and "repo_id" in each for each in models):
        raise LockError(f"{path} has no list hf_models of models; write it with: python -m apps.preflight --task 1|2|3")
    return LockedFile(path, content, list(_submitted(models)))


def _submitted(models: Sequence[dict[str, Any]]) -> Iterator[NamedWeights]:
    for model in models:
        yield NamedWeights(model, "revision", "repo_id", str(model["repo_id"]), str(model.get("revision", "")))


def _pin(weights: NamedWeights, commit: str) -> None:
    """Write a commit into a table: in place of the old one, else in the line after the name."""
    table, value = weights.table, tomlkit.item(commit)
    if isinstance(table, Table) and weights.key not in table:
        # Appended, it may come after a comment that belongs to the next table.
        table.value._insert_after(weights.after, weights.key, value)
    elif isinstance(table, InlineTable) and weights.key not in table:
        value.trivia.trail = " "  # before the brace
        table[weights.key] = value
    else:
        table[weights.key] = commit


if __name__ == "__main__":
    sys.exit(main())
