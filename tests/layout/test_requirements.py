"""The requirements and their locks agree where they have to, and nothing is installed from a lock without its hashes."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import packages_distributions
from itertools import chain
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agents.profiles.profile import ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, PACKAGES = SETTINGS["project"], SETTINGS["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
EXTRAS: Mapping[str, Sequence[str]] = PROJECT["optional-dependencies"]
LOCKS = [
    "requirements.txt",
    "requirements-cpu.txt",
    *(f"requirements/{path.name}" for path in ROOT.glob("requirements/*.txt")),
]
ALONE = "requirements/weights.txt"
"""Packages that are installed without their dependencies; pyproject.toml names some of them."""
INSTALLING = ("Dockerfile", "Dockerfile.cpu", "Dockerfile.current")


class Entry(NamedTuple):
    version: str
    hashes: frozenset[str]


def entries(name: str) -> dict[str, Entry]:
    """Read a requirements file: version and hashes by package."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split("#")[0].split() for line in text.splitlines() if not line.startswith("-r ")]
    entries_by_name = {}
    for words in filter(None, lines):
        hashes = frozenset(word.removeprefix("--hash=sha256:") for word in words if word.startswith("--hash="))
        entry = Requirement(" ".join(word for word in words if not word.startswith("--hash=")))
        entries_by_name[canonicalize_name(entry.name)] = Entry(str(entry.specifier), hashes)
    return entries_by_name


def pins(name: str) -> dict[str, str]:
    return {package: entry.version for package, entry in entries(name).items()}


def test_what_goes_together_on_the_gpu_is_pinned_together() -> None:
    locked = pins("requirements.txt")
    assert (locked["torch"], locked["vllm"], locked["transformers"]) == ("==2.8.0", "==0.10.2", "==4.57.6")


def test_transformers_4_is_tested_as_the_gpu_image_has_it() -> None:
    image, tested = pins("requirements.txt"), pins("requirements/transformers4.txt")
    for package in ("transformers", "huggingface-hub", "tokenizers"):
        assert tested[package] == image[package]


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_every_package_by_version_and_hash(name: str) -> None:
    for package, entry in entries(name).items():
        assert re.fullmatch(r"==[^*,]+", entry.version), package
        assert entry.hashes and all(re.fullmatch("[0-9a-f]{64}", digest) for digest in entry.hashes), package


def find_unmet(asked: Iterable[str], *locks: str) -> list[str]:
    """Return the requirements that no lock of an environment, where the first counts most, meets."""
    locked: dict[str, str] = {}
    for lock in locks:
        locked = pins(lock) | locked
    unmet = []
    for requirement in map(Requirement, asked):
        version = locked.get(canonicalize_name(requirement.name), "").removeprefix("==")
        if requirement.name != PROJECT["name"] and not (version and requirement.specifier.contains(version)):
            unmet.append(str(requirement))
    return unmet


def test_the_locks_have_what_the_project_asks_for() -> None:
    base = ("requirements-cpu.txt", "requirements/torch-pypi.txt", ALONE)
    assert find_unmet(PROJECT["dependencies"], *base) == []
    for extra in ("web", "scale", "inspect", "train"):
        assert find_unmet([*PROJECT["dependencies"], *EXTRAS[extra]], f"requirements/{extra}.txt", *base) == [], extra
    assert find_unmet([*EXTRAS["dev"], *EXTRAS["train"]], "requirements/dev.txt", *base) == []
    assert find_unmet([*PROJECT["dependencies"], *EXTRAS["current"]], "requirements/gpu_current.txt", ALONE) == []
    listed = (ROOT / "requirements" / "gpu.in").read_text(encoding="utf-8").splitlines()
    asked = [line.partition("#")[0] for line in listed if line.partition("#")[0].strip()]
    assert find_unmet([*asked, *EXTRAS["gpu"]], "requirements.txt") == []
    names = {canonicalize_name(Requirement(each).name) for each in asked}
    of_both = [each for each in PROJECT["dependencies"] if canonicalize_name(Requirement(each).name) in names]
    assert len(of_both) > 30 and find_unmet(of_both, "requirements.txt") == []


def test_the_project_asks_for_what_its_packages_import() -> None:
    asked = chain(PROJECT["dependencies"], *EXTRAS.values())
    names = {canonicalize_name(Requirement(each).name) for each in asked} | {"pydantic-core"}  # pydantic pins it
    distributions = packages_distributions()
    imported = set[str]()
    for file in chain.from_iterable((ROOT / package).rglob("*.py") for package in PACKAGES):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    others = imported - sys.stdlib_module_names - {*PACKAGES}
    assert len(others) > 50
    assert [
        each for each in sorted(others) if names.isdisjoint(map(canonicalize_name, distributions.get(each, [each])))
    ] == []


def test_there_are_few_files_of_requirements() -> None:
    assert (
        len([*ROOT.glob("requirements*.txt"), *ROOT.glob("requirements/*.txt"), *ROOT.glob("requirements/*.in")]) <= 16
    )


def test_both_builds_of_torch_are_one_version() -> None:
    pypi, cpu = (entries(f"requirements/torch-{build}.txt")["torch"] for build in ("pypi", "cpu"))
    assert cpu.version == f"{pypi.version}+cpu" and not pypi.hashes & cpu.hashes
    assert "torch" not in pins("requirements-cpu.txt"), "pip would take PyPI's build first"


def test_locks_of_one_environment_do_not_contradict_each_other() -> None:
    base = pins("requirements-cpu.txt") | pins("requirements/torch-pypi.txt")
    for name in ("requirements/dev.txt", "requirements/train.txt"):
        for package, version in pins(name).items():
            assert base.setdefault(package, version) == version, package


@pytest.mark.parametrize("name", INSTALLING)
def test_a_lock_is_installed_with_its_hashes(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if re.search(r"pip\b.* (-r|--requirement) ", line)]
    assert lines
    for line in lines:
        assert "--no-deps --require-hashes" in line, line


def test_the_makefile_installs_locks_with_the_tool_that_asks_for_hashes() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "INSTALL := python -m tools.install\n" in text
    assert set(re.findall(r"pip install\b.*", text)) == {
        "pip install --quiet --disable-pip-version-check --no-deps --editable ."
    }


def test_libraries_that_the_gpu_image_pins_have_one_version_everywhere() -> None:
    ours, theirs = pins("requirements/gpu.in"), pins("requirements-cpu.txt")
    named = {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]}
    apart = ("torch", "transformers", "pillow")
    shared = {name for name in named & set(ours) if ours[name] and name not in apart}
    assert shared >= {"accelerate", "chromadb", "cragmm-search-pipeline"}
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
