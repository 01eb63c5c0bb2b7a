"""Look up the known vulnerabilities of every lock, and compare them with those that are accepted.

    python -m tools.audit

pip-audit asks PyPI's JSON API about each package. ``requirements/accepted_vulnerabilities.toml`` says what is accepted, since when and why.
Exit status 1: there is something to do. Status 2: the service does not answer for some packages, so nothing is known about them.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agents.base.command_options import Options

ROOT = Path(__file__).parents[1]
ACCEPTED = ROOT / "requirements" / "accepted_vulnerabilities.toml"
CURE = "Run it where PyPI's JSON API can be reached."


class AuditError(Exception):
    """No result: the list cannot be read, or pip-audit does not say what it found."""


class Strict(BaseModel):
    """Model that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Acceptance(Strict):
    """Vulnerabilities of one version of one package that are kept for a reason."""

    package: str
    version: str
    ids: Annotated[tuple[str, ...], Field(min_length=1)]
    since: datetime.date
    reason: Annotated[str, Field(min_length=20)]


class AcceptedList(Strict):
    """Contents of the list, and for how many days an entry holds."""

    max_age_days: Annotated[int, Field(gt=0)]
    accepted: tuple[Acceptance, ...] = ()


class Vulnerability(NamedTuple):
    """One known vulnerability of a package of a lock, under all names it has."""

    lock: str
    package: str
    version: str
    names: frozenset[str]
    fixed_in: tuple[str, ...]

    def is_accepted_by(self, entry: Acceptance) -> bool:
        """Return whether an entry covers this package, this version and one of the names."""
        same = (canonicalize_name(entry.package), entry.version) == (self.package, self.version)
        return same and not self.names.isdisjoint(entry.ids)


class AuditOptions(Options):
    """Options of the command."""

    accepted: Path = Field(ACCEPTED, description="list of what is accepted")


def read_accepted(path: Path) -> AcceptedList:
    """Read the list. Raises AuditError if it is missing or malformed."""
    try:
        return AcceptedList.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise AuditError(f"{path} cannot be read: {error}") from error


def find_locks() -> list[Path]:
    """Return the files with hashes."""
    paths = [*ROOT.glob("requirements*.txt"), *(ROOT / "requirements").glob("*.txt")]
    return sorted(path for path in paths if "--hash=" in path.read_text(encoding="utf-8"))


def read_pins(text: str) -> list[str]:
    """Return NAME==VERSION of every package of a lock, those for other platforms included. A build such as +cpu counts as its version."""
    lines = (line.split(" --hash=")[0].split("#")[0].rstrip(" \\") for line in text.replace("\\\n", "").splitlines())
    return [f"{pin.name}{pin.specifier}".split("+")[0] for pin in (Requirement(line) for line in lines if line)]


def ask_pip_audit(pins: Sequence[str]) -> dict[str, Any]:
    """Return what pip-audit reports of these packages. Raises AuditError if it reports nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pins.txt")
        file.write_text("\n".join(pins) + "\n", encoding="utf-8")
        options = "--no-deps --disable-pip --format json --aliases on --desc off --progress-spinner off"
        command = [sys.executable, "-m", "pip_audit", *options.split(), "--requirement", str(file)]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(process.stdout)
    except json.JSONDecodeError as error:
        message = (process.stderr.strip() or "nothing").splitlines()[-1]
        raise AuditError(
            f"pip-audit gives no report, it says: {message}. Run it where PyPI's JSON API can be reached."
        ) from error
    return report


def read_vulnerabilities(lock: str, report: Mapping[str, Any]) -> list[Vulnerability]:
    """Read the vulnerabilities of one lock from pip-audit's report."""
    return [
        Vulnerability(
            lock,
            canonicalize_name(package["name"]),
            package["version"],
            frozenset((each["id"], *each.get("aliases", ()))),
            tuple(each["fix_versions"]),
        )
        for package in report["dependencies"]
        for each in package.get("vulns", ())
    ]


def read_skip_reasons(report: Mapping[str, Any]) -> list[str]:
    """Return why packages were not looked up. pip-audit itself reports success then."""
    return [package["skip_reason"] for package in report["dependencies"] if "skip_reason" in package]


def find_problems(vulnerabilities: Sequence[Vulnerability], listed: AcceptedList, today: datetime.date) -> list[str]:
    """Return what has to be done: vulnerabilities that are not accepted, and entries that are too old or apply to nothing."""
    problems = []
    for each in vulnerabilities:
        if not any(each.is_accepted_by(entry) for entry in listed.accepted):
            names, fix = ", ".join(sorted(each.names)), ", ".join(each.fixed_in)
            cure = f"fixed in {fix}" if fix else "no version has a fix"
            problems.append(
                f"{each.lock}: {each.package} {each.version} has {names} ({cure}): raise the pin, or accept it"
            )
    for entry in listed.accepted:
        name = f"the entry of {entry.package} {entry.version}, {entry.since}"
        if not 0 <= (age := (today - entry.since).days) <= listed.max_age_days:
            problems.append(
                f"{name}, is {age} days old, not 0 to {listed.max_age_days}: look for a fixed version, or renew it"
            )
        vulnerability_names = frozenset().union(*(each.names for each in vulnerabilities if each.is_accepted_by(entry)))
        if stale_names := [each for each in entry.ids if each not in vulnerability_names]:
            problems.append(f"{name}, accepts {', '.join(stale_names)}, which no lock has: remove it")
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit all locks and print what has to be done."""
    options = AuditOptions.parse(
        arguments, description="Compare the known vulnerabilities of the locks with those that are accepted."
    )
    vulnerabilities: list[Vulnerability] = []
    try:
        listed = read_accepted(options.accepted)
        for path in find_locks():
            pins = read_pins(path.read_text(encoding="utf-8"))
            report = ask_pip_audit(pins)
            if reasons := read_skip_reasons(report):
                count = f"{len(reasons)} of {len(pins)} packages"
                raise AuditError(f"{path.name}: {count} could not be looked up ({reasons[0]}). {CURE}")
            vulnerabilities += read_vulnerabilities(str(path.relative_to(ROOT)), report)
            print(f"{path.relative_to(ROOT)}: {len(pins)} packages looked up", flush=True)
    except AuditError as error:
        print(f"audit: {error}", file=sys.stderr)
        return 2
    problems = find_problems(vulnerabilities, listed, datetime.date.today())
    print(
        "\n".join(problems)
        or f"{len(vulnerabilities)} known vulnerabilities, all of them accepted in {options.accepted.name}"
    )
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
