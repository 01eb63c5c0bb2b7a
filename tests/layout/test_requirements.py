"""The two sets of requirements agree where they have to."""

from __future__ import annotations

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agents.profiles.profile import ROOT


def pins(name: str) -> dict[str, str]:
    lines = [line.split("#")[0].strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]
    found = [Requirement(line) for line in lines if line]
    return {canonicalize_name(entry.name): str(entry.specifier) for entry in found}


def test_what_goes_together_on_the_gpu_is_pinned_together() -> None:
    locked = pins("requirements.txt")
    assert (locked["torch"], locked["vllm"], locked["transformers"]) == ("==2.8.0", "==0.10.2", "==4.57.6")
    assert all(version.startswith("==") for version in locked.values())


def test_the_lock_holds_what_is_asked_for_by_name() -> None:
    locked = pins("requirements.txt")
    for name, version in pins("requirements/gpu.in").items():
        assert name in locked and version in ("", locked[name]), name


def test_libraries_of_the_agent_have_one_version_everywhere() -> None:
    ours, theirs = pins("requirements/gpu.in"), pins("requirements/cpu.in")
    shared = {name for name in set(ours) & set(theirs) if ours[name] and name not in ("torch", "pyarrow")}
    assert shared >= {"transformers", "chromadb", "cragmm-search-pipeline"}
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
