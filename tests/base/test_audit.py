"""The list of accepted vulnerabilities, against reports as pip-audit 2.10.1 writes them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from tools import audit

TODAY = datetime.date(2026, 12, 1)
REPORT: dict[str, Any] = {
    "dependencies": [
        {
            "name": "vllm",
            "version": "0.10.2",
            "vulns": [
                {"id": "GHSA-8fr4-5q9j-m8gm", "fix_versions": ["0.11.1"], "aliases": ["CVE-2025-66448"]},
                {"id": "PYSEC-2026-7", "fix_versions": ["0.14.0"], "aliases": ["CVE-2026-22807"]},
            ],
        },
        {
            "name": "diskcache",
            "version": "5.6.3",
            "vulns": [{"id": "CVE-2025-69872", "fix_versions": [], "aliases": ["GHSA-w8v5-vhqr-4h9v"]}],
        },
        {"name": "urllib3", "version": "2.8.0", "vulns": []},
    ],
    "fixes": [],
}
UNREACHABLE: dict[str, Any] = {
    "dependencies": [
        {"name": "urllib3", "skip_reason": "Dependency not found on PyPI and could not be audited: urllib3 (2.3.0)"}
    ],
    "fixes": [],
}
LISTED = """
max_age_days = 180

[[accepted]]
package = "vLLM"
version = "0.10.2"
ids = ["CVE-2025-66448", "CVE-2026-22807"]
since = 2026-11-25
reason = "The last version with the model that the image needs."

[[accepted]]
package = "diskcache"
version = "5.6.3"
ids = ["GHSA-w8v5-vhqr-4h9v"]
since = 2026-11-25
reason = "No version has a fix; the folder is the user's own."
"""


def problems(tmp_path: Path, listed: str, today: datetime.date = TODAY) -> list[str]:
    path = tmp_path / "accepted.toml"
    path.write_text(listed, encoding="utf-8")
    vulnerabilities = audit.read_vulnerabilities("requirements.txt", REPORT)
    return audit.find_problems(vulnerabilities, audit.read_accepted(path), today)


def test_what_is_accepted_by_any_of_its_names_is_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, LISTED) == []


def test_a_vulnerability_that_is_not_listed_is_told_with_its_fix(tmp_path: Path) -> None:
    (message,) = problems(tmp_path, LISTED.replace(', "CVE-2026-22807"', ""))
    assert "requirements.txt: vllm 0.10.2 has CVE-2026-22807, PYSEC-2026-7 (fixed in 0.14.0)" in message


def test_an_entry_holds_for_its_version_alone(tmp_path: Path) -> None:
    messages = problems(tmp_path, LISTED.replace('"5.6.3"', '"5.6.2"'))
    assert ["diskcache 5.6.3 has" in messages[0], "diskcache 5.6.2" in messages[1], len(messages)] == [True, True, 2]
    assert "no version has a fix" in messages[0] and "which no lock has: remove it" in messages[1]


@pytest.mark.parametrize(("days", "fails"), [(-1, True), (0, False), (180, False), (181, True)])
def test_an_entry_holds_for_180_days_from_its_date(tmp_path: Path, days: int, fails: bool) -> None:
    messages = problems(tmp_path, LISTED, datetime.date(2026, 11, 25) + datetime.timedelta(days))
    assert len(messages) == 2 * fails and all(f"is {days} days old" in line for line in messages)


def test_an_identifier_that_no_lock_has_any_more_is_told(tmp_path: Path) -> None:
    (message,) = problems(tmp_path, LISTED.replace('"CVE-2026-22807"', '"CVE-2026-22807", "CVE-2020-1"'))
    assert "accepts CVE-2020-1, which no lock has" in message


@pytest.mark.parametrize(
    "broken",
    [
        "max_age_days = ",
        LISTED.replace("since = 2026-11-25", ""),
        LISTED.replace("max_age_days", "days"),
        LISTED + "why = 1",
    ],
)
def test_a_list_that_cannot_be_read_is_an_error(tmp_path: Path, broken: str) -> None:
    with pytest.raises(audit.AuditError, match=r"accepted\.toml cannot be read"):
        problems(tmp_path, broken)


def test_packages_that_were_not_looked_up_are_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """pip-audit ends with status 0 then and says that it knows of no vulnerability."""
    monkeypatch.setattr(audit, "ask_pip_audit", lambda pins: UNREACHABLE)
    assert audit.main([]) == 2
    assert (
        "1 of " in (error_text := capsys.readouterr().err)
        and "could not be looked up" in error_text
        and "PyPI's JSON API" in error_text
    )


def test_a_missing_pip_audit_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(audit.sys, "executable", "/bin/false")
    assert audit.main([]) == 2
    assert "pip-audit gives no report" in capsys.readouterr().err


def test_what_the_project_accepts_is_in_its_locks() -> None:
    """Packages and versions; which vulnerabilities they have is known to the service alone."""
    locks = audit.find_locks()
    assert {path.name for path in locks} >= {"requirements.txt", "requirements-cpu.txt", "weights.txt", "dev.txt"}
    pins = {pin for path in locks for pin in audit.read_pins(path.read_text(encoding="utf-8"))}
    for entry in audit.read_accepted(audit.ACCEPTED).accepted:
        assert f"{entry.package}=={entry.version}" in pins
