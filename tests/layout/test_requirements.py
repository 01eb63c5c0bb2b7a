"""The requirements and their locks agree where they have to, and nothing is installed from a lock without its hashes."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agents.profiles.profile import ROOT

LOCKS = {
    "requirements.txt": "gpu.in",
    "requirements-cpu.txt": "cpu.in",
    "requirements/torch-cpu.txt": None,
    "requirements/torch-pypi.txt": None,
} | {
    f"requirements/{path.stem}.txt": path.name
    for path in (ROOT / "requirements").glob("*.in")
    if path.stem not in ("cpu", "gpu")
}
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


@pytest.mark.parametrize(("name", "source"), [(name, source) for name, source in LOCKS.items() if source])
def test_a_lock_holds_what_is_asked_for_by_name(name: str, source: str) -> None:
    locked = pins(name) | (pins("requirements/torch-pypi.txt") if source == "cpu.in" else {})
    for package, version in pins(f"requirements/{source}").items():
        assert package in locked and version in ("", locked[package]), package


def test_both_builds_of_torch_are_the_version_that_is_asked_for() -> None:
    version = pins("requirements/cpu.in")["torch"]
    pypi, cpu = (entries(f"requirements/torch-{build}.txt")["torch"] for build in ("pypi", "cpu"))
    assert (pypi.version, cpu.version) == (version, f"{version}+cpu") and not pypi.hashes & cpu.hashes
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


def test_libraries_of_the_agent_have_one_version_everywhere() -> None:
    ours, theirs = pins("requirements/gpu.in"), pins("requirements/cpu.in")
    apart = ("torch", "transformers", "pillow")
    shared = {name for name in set(ours) & set(theirs) if ours[name] and name not in apart}
    assert shared >= {"accelerate", "chromadb", "cragmm-search-pipeline"}
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
