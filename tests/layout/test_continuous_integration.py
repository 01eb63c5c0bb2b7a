"""Workflow, issue forms and package metadata agree with the Makefile and with each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import yaml

from agents.profiles.profile import ROOT
from tests import conftest

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    workflow: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    return dict(workflow["jobs"])


@pytest.fixture(scope="module")
def makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def test_jobs_run_targets_and_folders_that_exist(jobs: dict[str, Any], makefile: str) -> None:
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = {word for command in commands for word in re.findall(r"^make ([a-z][\w-]*)", command)}
    assert {
        "lint",
        "constraints",
        "test-lab",
        "hostile",
        "test-transformers4",
        "test-inspect",
        "test-wheel",
        "demo",
    } == targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert "make .venv/.installed-dev" in commands
    assert "INSTALLED_DEV := $(VENV)/.installed-dev" in makefile


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


@pytest.fixture(scope="module")
def pythons(project: dict[str, Any]) -> list[str]:
    """Versions of Python that the package names."""
    return [line.rpartition(" ")[2] for line in project["classifiers"] if ":: Python :: 3." in line]


def test_the_tests_run_on_the_pythons_of_the_package(
    jobs: dict[str, Any], project: dict[str, Any], pythons: list[str]
) -> None:
    assert jobs["tests"]["strategy"]["matrix"]["python"] == pythons
    assert project["requires-python"] == f">={pythons[0]}"


@pytest.mark.parametrize("minor", range(10, 15))
def test_make_takes_the_pythons_of_the_package_and_no_other(makefile: str, pythons: list[str], minor: int) -> None:
    [check] = re.findall(r"\$\(PYTHON\) -c '(.*version_info.*)'", makefile)
    command = f"import sys; sys.version_info = (3, {minor}, 0); {check}"
    checked = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert (checked.returncode == 0) == (f"3.{minor}" in pythons)
    assert all(version in checked.stderr for version in pythons) == (checked.returncode != 0)


def test_actions_are_pinned_to_a_major_version(jobs: dict[str, Any]) -> None:
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert len(used) > len(jobs)
    assert [action for action in used if not re.fullmatch(r"actions/[\w-]+@v\d+", action)] == []


def test_every_job_ends(jobs: dict[str, Any]) -> None:
    assert [name for name, job in jobs.items() if not job.get("timeout-minutes")] == []


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_has_what_github_asks_for(form: Any) -> None:
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert content["name"] and content["description"]
    fields = [field for field in content["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_fast_tests_exist(makefile: str) -> None:
    listed = re.search(r"^FAST_TESTS := (.*)$", makefile, re.MULTILINE)
    assert listed
    missing = [path for path in listed[1].split() if not (ROOT / path).exists()]
    assert not missing


def test_the_files_that_run_first_exist() -> None:
    assert [name for name in conftest.LONG if not (ROOT / "tests" / name).is_file()] == []
